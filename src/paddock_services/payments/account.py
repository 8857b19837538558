"""The documents of one account. Every write of the stand-in goes through here.

Ids follow from the world's time and from how many were made in the same write, and need no counter
of their own, which would cost as much as a document. So the same requests give the same ids.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paddock.world.context import Context
from paddock_services.payments.errors import missing

Document = dict[str, Any]
DEFAULT_VERSION = "2025-09-30.clover"
KEYS = ".idempotency_keys"  # a kind that is not compared or shown
# By kind, what an error calls a thing, which is mostly its `object` too.
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
}
_PARAMS = {"payment_intents": "intent", "payment_methods": "payment_method", "charges": "charge"}
_AT_ONCE = 1000
_ALPHABET = (string.ascii_letters + string.digits).encode()
_LETTERS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_EMPTY = {
    name: json.dumps(document).encode()
    for name, document in json.loads(
        Path(__file__).with_name("documents.json").read_bytes()
    ).items()
}


class Account:
    """One account. One request at a time writes in it, inside a transaction."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self.version = str(context.options.get("api_version", DEFAULT_VERSION))
        self.time = int(context.start)  # of the write that is under way
        self.request_id: str | None = None
        self._ids = 0  # made in this write
        self._root = f"{context.seed}/{context.name}"

    def begin_write(self) -> None:
        """Move the clock on, and begin to count ids."""
        self.time = int(self.context.tick())
        self._ids = 0
        self.request_id = "req_" + self.derive(f"req/{self.time}", 14)

    def now(self) -> int:
        """Return the world's time in seconds."""
        return int(self.context.now())

    def new_id(self, prefix: str, length: int = 23) -> str:
        """Return an id that no other document has."""
        self._ids += 1
        return prefix + self.derive(f"{prefix}/{self.time}/{self._ids}", length)

    def derive(self, text: str, length: int) -> str:
        """Return letters and digits that follow from a text: a client secret, a fingerprint."""
        digest = hashlib.shake_256(f"{self._root}/{text}".encode()).digest(length)
        return digest.translate(_LETTERS).decode()

    def find(self, kind: str, id: str) -> Document | None:
        """Return a document, or None."""
        return self.store.get(kind, id)

    def fetch(self, kind: str, id: str) -> Document:
        """Return the document that the path of a request names. Raises Refusal."""
        document = self.store.get(kind, id)
        if document is None:
            raise missing(NOUNS[kind], id, _PARAMS.get(kind, "id"), status=404)
        return document

    def fetch_live(self, kind: str, id: str) -> Document:
        """Return the same, of something that can be changed. Raises Refusal for a deleted one."""
        document = self.fetch(kind, id)
        if document.get("deleted"):
            raise missing(NOUNS[kind], id, "id", status=404)
        return document

    def fetch_json(self, kind: str, id: str) -> msgspec.Raw:
        """Return the same as it is stored: to decode and encode it takes half of a request."""
        text = self.store.text(kind, id)
        if text is None:
            raise missing(NOUNS[kind], id, _PARAMS.get(kind, "id"), status=404)
        return msgspec.Raw(text.encode())

    def reference(self, kind: str, id: str, param: str) -> Document:
        """Return the document that a parameter names. Raises Refusal, also for a deleted one."""
        document = self.store.get(kind, id)
        if document is None or document.get("deleted"):
            raise missing(NOUNS[kind], id, param)
        return document

    def all(self, kind: str) -> Iterator[Document]:
        """Yield the documents of a kind, oldest first, with a part at a time in memory."""
        after: str | None = None
        while True:
            part = self.store.find(kind, limit=_AT_ONCE, after=after)
            yield from part
            if len(part) < _AT_ONCE:
                return
            after = part[-1]["id"]

    def put(self, kind: str, document: Mapping[str, Any]) -> None:
        """Create or replace a document."""
        self.store.put(kind, document["id"], document)

    def record_event(
        self, type: str, document: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> None:
        """Record that something happened to a document, and what was different before."""
        data: Document = {"object": document}
        if before is not None:
            changed = [name for name in document if before.get(name) != document[name]]
            data["previous_attributes"] = {name: before.get(name) for name in changed}
        event = empty("event", id=self.new_id("evt_1"), created=self.time)
        event |= {"api_version": self.version, "data": data, "type": type}
        event["request"] = {"id": self.request_id, "idempotency_key": None}
        self.put("events", event)

    def save(self, kind: str, type: str, document: Document) -> Document:
        """Write a document, and record what happened to it."""
        self.put(kind, document)
        self.record_event(type, document)
        return document

    def update(
        self, kind: str, type: str, before: Mapping[str, Any], document: Document
    ) -> Document:
        """Write a document and its event, if something is different."""
        if document != before:
            self.put(kind, document)
            self.record_event(type, document, before)
        return document


def empty(object: str, **fields: Any) -> Document:
    """Return a new document of which nothing is known but these fields."""
    document: Document = msgspec.json.decode(_EMPTY[object])
    return document | fields


def list_object(url: str, data: list[Any], has_more: bool = False) -> Document:
    """Return a list as the API shows it."""
    return {"object": "list", "data": data, "has_more": has_more, "url": url}
