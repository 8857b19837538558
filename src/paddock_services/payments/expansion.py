"""`expand[]=customer`: ids in an answer replaced by what they name, also deeper and in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock_services.payments.books import Books
from paddock_services.payments.errors import Refusal
from paddock_services.payments.lists import list_object

MAX_DEPTH = 4
MAX_PATHS = 20
_KINDS = {
    "balance_transaction": "balance_transactions", "charge": "charges", "customer": "customers",
    "default_payment_method": "payment_methods", "default_price": "prices",
    "default_source": "sources", "invoice": "invoices", "latest_charge": "charges",
    "payment_intent": "payment_intents", "payment_method": "payment_methods", "price": "prices",
    "product": "products",
}  # fmt: skip
_SOURCES = {"ch": "charges", "re": "refunds", "card": "sources"}
# Lists that are left out unless they are asked for: by kind of object, the field, and whose.
_LISTS = {
    ("charge", "refunds"): ("refunds", "charge", "/v1/charges/{}/refunds"),
    ("customer", "sources"): ("sources", "customer", "/v1/customers/{}/sources"),
    ("customer", "subscriptions"): (None, "customer", "/v1/customers/{}/subscriptions"),
    ("customer", "tax_ids"): (None, "customer", "/v1/customers/{}/tax_ids"),
}
_AT_MOST = 10  # of a list inside an object


def expand(books: Books, answer: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """The answer with these fields expanded. Raises Refusal for one that cannot be."""
    if len(paths) > MAX_PATHS:
        raise Refusal(f"You can expand at most {MAX_PATHS} properties.", param="expand")
    for path in paths:
        parts = path.split(".")
        if len(parts) > MAX_DEPTH:
            message = f"You cannot expand more than {MAX_DEPTH} levels of a property: {path[:100]}"
            raise Refusal(message, param="expand")
        _Expansion(books, path).into(answer, parts)
    return answer


class _Expansion:
    def __init__(self, books: Books, path: str) -> None:
        self._books = books
        self._path = path

    def into(self, value: Any, parts: Sequence[str]) -> None:
        """Goes down one part of the path."""
        if isinstance(value, list):
            for one in value:
                self.into(one, parts)
            return
        if not isinstance(value, dict) or not parts:
            return
        if value.get("deleted"):
            return
        name, *rest = parts
        value[name] = found = self._at(value, name)
        self.into(found, rest)

    def _at(self, value: dict[str, Any], name: str) -> Any:
        listed = _LISTS.get((str(value.get("object")), name))
        if listed is not None and not isinstance(value.get(name), dict):
            return self._list(value["id"], *listed)
        if name not in value:
            raise self._refusal()
        found = value[name]
        is_id_field = name in _KINDS or name in ("source", "review")
        if isinstance(found, dict | list) or (found is None and is_id_field):
            return found
        kind = _KINDS.get(name)
        if name == "source" and isinstance(found, str):
            kind = _SOURCES.get(found.partition("_")[0])
        if kind is None or not isinstance(found, str):
            raise self._refusal()
        return self._books.get(kind, found) or found

    def _list(self, id: str, kind: str | None, field: str, url: str) -> dict[str, Any]:
        if kind is None:
            return list_object(url.format(id), [])
        found = self._books.store.find(kind, {field: id}, limit=_AT_MOST + 1, newest_first=True)
        return list_object(url.format(id), found[:_AT_MOST], len(found) > _AT_MOST)

    def _refusal(self) -> Refusal:
        message = f"This property cannot be expanded ({self._path[:100]})."
        return Refusal(message, param="expand")
