"""The account for people: how many of what, the balance, and what happened last."""

from __future__ import annotations

from typing import Any

from paddock_services.payments.books import Books
from paddock_services.payments.currency import money
from paddock_services.payments.ledger import totals

_LAST = 10
_COUNTED = ("customers", "payment_methods", "products", "prices", "invoices", "events")
_BY_STATUS = ("payment_intents", "charges", "refunds")


def overview(books: Books) -> dict[str, Any]:
    return {
        **{kind: books.store.count(kind) for kind in _COUNTED},
        **{kind: _by_status(books, kind) for kind in _BY_STATUS},
        "balance": {
            currency: {"available": money(one[0], currency), "pending": money(one[1], currency)}
            for currency, one in totals(books).items()
        },
        "last_charges": [_short(one) for one in _last(books, "charges")],
        "last_refunds": [_short(one) for one in _last(books, "refunds")],
    }


def _by_status(books: Books, kind: str) -> dict[str, Any]:
    """Of each status how many, and over how much in each currency."""
    found: dict[str, Any] = {}
    for document in books.each(kind):
        one = found.setdefault(document["status"], {"count": 0, "amount": {}})
        currency = document["currency"]
        one["count"] += 1
        one["amount"][currency] = one["amount"].get(currency, 0) + document["amount"]
    return found


def _last(books: Books, kind: str) -> list[dict[str, Any]]:
    return books.store.find(kind, limit=_LAST, newest_first=True)


def _short(document: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "status", "customer", "charge", "payment_intent", "description", "reason",
             "amount_refunded", "created")  # fmt: skip
    shown = {name: document[name] for name in names if document.get(name) not in (None, "", 0)}
    return {"amount": money(document["amount"], document["currency"]), **shown}
