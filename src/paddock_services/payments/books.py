"""The account's books: documents by kind, one event for each change, and ids that follow from the
world's time. Every write of the stand-in goes through here."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.world.context import Context
from paddock_services.payments.errors import Refusal, missing

DEFAULT_VERSION = "2025-09-30.clover"
# What an error calls a thing, and the name of the parameter that has its id.
NOUNS = {
    "customers": "customer",
    "payment_methods": "PaymentMethod",
    "payment_intents": "payment_intent",
    "charges": "charge",
    "refunds": "refund",
    "balance_transactions": "balance transaction",
    "events": "event",
    "products": "product",
    "prices": "price",
    "invoices": "invoice",
    "invoiceitems": "invoiceitem",
    "sources": "source",
    "tokens": "token",
}
_AT_ONCE = 1000
_ALPHABET = (string.ascii_letters + string.digits).encode()
_LETTERS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_PARAMS = {"payment_intents": "intent", "payment_methods": "payment_method", "charges": "charge"}


class Books:
    """Of one account. One request at a time writes in them, inside a transaction."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self.version = str(context.options.get("api_version", DEFAULT_VERSION))
        self.at = int(context.start)  # the moment of the write that is under way
        self.request_id: str | None = None
        self._made = 0  # ids in this write
        self._root = f"{context.seed}/{context.name}"

    def begin(self) -> None:
        """A write begins: a moment later, ids from the start."""
        self.at = int(self.context.tick())
        self._made = 0
        self.request_id = "req_" + letters(f"{self._root}/req/{self.at}", 14)

    def now(self) -> int:
        return int(self.context.now())

    def new_id(self, prefix: str, length: int = 23) -> str:
        """It follows from the moment and the ones before it. No counter of its own: that would
        cost as much as the document."""
        self._made += 1
        return prefix + letters(f"{self._root}/{prefix}/{self.at}/{self._made}", length)

    def derived(self, text: str, length: int) -> str:
        """Letters and digits that belong to something: a client secret, a fingerprint."""
        return letters(f"{self._root}/{text}", length)

    def get(self, kind: str, id: str) -> dict[str, Any] | None:
        return self.store.get(kind, id)

    def at_address(self, kind: str, id: str) -> dict[str, Any]:
        """What the address of the request names."""
        found = self.store.get(kind, id)
        if found is None:
            raise missing(NOUNS[kind], id[:200], _PARAMS.get(kind, "id"), status=404)
        return found

    def text_at_address(self, kind: str, id: str) -> str:
        """The same, as it is kept."""
        found = self.store.text(kind, id)
        if found is None:
            raise missing(NOUNS[kind], id[:200], _PARAMS.get(kind, "id"), status=404)
        return found

    def named(self, kind: str, id: str, param: str) -> dict[str, Any]:
        """What a parameter of the request names. Something deleted is not there."""
        found = self.store.get(kind, id)
        if found is None or found.get("deleted"):
            raise missing(NOUNS[kind], id[:200], param)
        return found

    def each(self, kind: str) -> Iterator[dict[str, Any]]:
        """All of a kind, oldest first, a part at a time in memory."""
        after: str | None = None
        while True:
            part = self.store.find(kind, limit=_AT_ONCE, after=after)
            yield from part
            if len(part) < _AT_ONCE:
                return
            after = part[-1]["id"]

    def put(self, kind: str, document: Mapping[str, Any]) -> None:
        self.store.put(kind, document["id"], document)

    def tell(
        self, type: str, document: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> None:
        """Notes an event. It shows the document as it is now, and what was otherwise before."""
        data: dict[str, Any] = {"object": document}
        if before is not None:
            data["previous_attributes"] = _previous(before, document)
        id = self.new_id("evt_1")
        self.put("events", {
            "id": id, "object": "event", "api_version": self.version, "created": self.at,
            "data": data, "livemode": False, "pending_webhooks": 0,
            "request": {"id": self.request_id, "idempotency_key": None}, "type": type,
        })  # fmt: skip

    def changed(
        self, kind: str, type: str, before: Mapping[str, Any], document: Mapping[str, Any]
    ) -> None:
        """Puts and tells, where something is different."""
        if document != before:
            self.put(kind, document)
            self.tell(type, document, before)


def letters(text: str, length: int) -> str:
    """Letters and digits that follow from a text. A table does it: each request needs several."""
    return hashlib.shake_256(text.encode()).digest(length).translate(_LETTERS).decode()


def refuse_deleted(document: Mapping[str, Any], kind: str) -> None:
    """What was deleted can be looked at, but not be changed."""
    if document.get("deleted"):
        id = str(document["id"])
        raise Refusal(
            f"No such {NOUNS[kind]}: '{id}'", status=404, code="resource_missing", param="id"
        )


def _previous(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in after if before.get(name) != after[name]]
    return {name: before.get(name) for name in names}
