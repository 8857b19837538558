"""The account for people: how many of what, the balance, and what happened last."""

from __future__ import annotations

from typing import Any

from paddock_services.payments.account import Account, Document
from paddock_services.payments.balance import totals
from paddock_services.payments.money import format_money

_LAST = 10
_COUNTED = ("customers", "payment_methods", "products", "prices", "invoices", "events")
_BY_STATUS = ("payment_intents", "charges", "refunds")
_SHOWN = ("id", "status", "customer", "charge", "payment_intent", "description", "reason",
          "amount_refunded", "created")  # fmt: skip


def overview(account: Account) -> dict[str, Any]:
    """Return the state of an account in numbers."""
    return {
        **{kind: account.store.count(kind) for kind in _COUNTED},
        **{kind: _by_status(account, kind) for kind in _BY_STATUS},
        "balance": {
            currency: {
                "available": format_money(available, currency),
                "pending": format_money(pending, currency),
            }
            for currency, (available, pending) in totals(account).items()
        },
        "last_charges": _last(account, "charges"),
        "last_refunds": _last(account, "refunds"),
    }


def _by_status(account: Account, kind: str) -> dict[str, Any]:
    """Return how many there are of each status, and over how much in each currency."""
    statuses: dict[str, Any] = {}
    for document in account.all(kind):
        status = statuses.setdefault(document["status"], {"count": 0, "amount": {}})
        currency = document["currency"]
        status["count"] += 1
        status["amount"][currency] = status["amount"].get(currency, 0) + document["amount"]
    return statuses


def _last(account: Account, kind: str) -> list[Document]:
    shown = []
    for document in account.store.find(kind, limit=_LAST, newest_first=True):
        amount = format_money(document["amount"], document["currency"])
        fields = {name: document[name] for name in _SHOWN if document.get(name)}
        shown.append({"amount": amount, **fields})
    return shown
