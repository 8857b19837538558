"""`expand[]=customer`: ids in an answer replaced by what they name, also deeper and in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock_services.payments.account import Account, Document, list_object
from paddock_services.payments.errors import Refusal
from paddock_services.payments.params import Params

MAX_DEPTH = 4
MAX_PATHS = 20
_KINDS = {
    "balance_transaction": "balance_transactions",
    "charge": "charges",
    "customer": "customers",
    "default_payment_method": "payment_methods",
    "default_price": "prices",
    "invoice": "invoices",
    "latest_charge": "charges",
    "payment_intent": "payment_intents",
    "payment_method": "payment_methods",
    "price": "prices",
    "product": "products",
}
_SOURCES = {"ch": "charges", "re": "refunds"}  # of a balance transaction, by prefix of the id
_MAX_REFUNDS = 10  # of a charge that shows its refunds


def expand(account: Account, document: Document, params: Params) -> Document:
    """Return the document with the fields that `expand` names. Raises Refusal."""
    value = params.values["expand"]
    paths = [value] if isinstance(value, str) else params.texts("expand")
    if len(paths) > MAX_PATHS:
        raise Refusal(f"You can expand at most {MAX_PATHS} properties.", param="expand")
    for path in paths:
        parts = path.split(".")
        if len(parts) > MAX_DEPTH:
            message = f"You cannot expand more than {MAX_DEPTH} levels of a property: {path[:100]}"
            raise Refusal(message, param="expand")
        if path:
            _expand(account, document, parts, path)
    return document


def _expand(account: Account, value: Any, parts: Sequence[str], path: str) -> None:
    """Go down one part of the path."""
    if isinstance(value, list):
        for item in value:
            _expand(account, item, parts, path)
    if not isinstance(value, dict) or not parts or value.get("deleted"):
        return
    name, *rest = parts
    if name == "refunds" and value.get("object") == "charge":
        value[name] = _refunds(account, value["id"])
    else:
        value[name] = _resolve(account, value, name, path)
    _expand(account, value[name], rest, path)


def _resolve(account: Account, value: Document, name: str, path: str) -> Any:
    field = value.get(name)
    if isinstance(field, dict | list):
        return field
    kind = _KINDS.get(name)
    if name == "source" and isinstance(field, str):
        kind = _SOURCES.get(field.partition("_")[0])
    if name not in value or kind is None:
        raise Refusal(f"This property cannot be expanded ({path[:100]}).", param="expand")
    return account.find(kind, field) or field if isinstance(field, str) else None


def _refunds(account: Account, charge: str) -> Document:
    refunds = account.store.find(
        "refunds", {"charge": charge}, limit=_MAX_REFUNDS + 1, newest_first=True
    )
    has_more = len(refunds) > _MAX_REFUNDS
    return list_object(f"/v1/refunds?charge={charge}", refunds[:_MAX_REFUNDS], has_more)
