"""The money: balance transactions, and the balance that they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock_services.payments.books import Books
from paddock_services.payments.currency import fee_on
from paddock_services.payments.lists import PAGING, answer
from paddock_services.payments.routes import Asked, Route, route

_DAY_S = 86_400
_PENDING_DAYS = 2
BALANCE = "balance"  # kind and id of the one document that has the sums


class Movement(msgspec.Struct, frozen=True):
    """Money that comes (positive) or goes."""

    type: str  # charge, refund
    source: str
    amount: int
    currency: str
    description: str | None
    created: int
    has_fee: bool = False
    is_available_at_once: bool = False


def taken(
    charge: Mapping[str, Any], amount: int, created: int, *, is_available_at_once: bool = False
) -> Movement:
    """What a capture brings."""
    return Movement(
        "charge",
        charge["id"],
        amount,
        charge["currency"],
        charge["description"],
        created,
        has_fee=True,
        is_available_at_once=is_available_at_once,
    )


def enter(books: Books, movement: Movement) -> str:
    """Writes a balance transaction and adds it to the balance. Gives its id."""
    fee = fee_on(movement.amount) if movement.has_fee else 0
    at_once = movement.is_available_at_once
    ready = movement.created if at_once else _ready(movement.created)
    transaction = {
        "id": books.new_id("txn_1"), "object": "balance_transaction", "amount": movement.amount,
        "available_on": ready, "balance_type": "payments", "created": movement.created,
        "currency": movement.currency, "description": movement.description, "exchange_rate": None,
        "fee": fee, "fee_details": _fee_details(fee, movement.currency),
        "net": movement.amount - fee, "reporting_category": movement.type,
        "source": movement.source, "status": "pending", "type": movement.type,
    }  # fmt: skip
    books.put("balance_transactions", transaction)
    add(books, transaction)
    return str(transaction["id"])


def add(books: Books, transaction: Mapping[str, Any]) -> None:
    """Adds a transaction to the sums: those per day that are pending, and what is available."""
    sums = books.get(BALANCE, BALANCE) or {"id": BALANCE, "currencies": {}}
    currency = transaction["currency"]
    sum = sums["currencies"].setdefault(currency, {"available": 0, "pending": {}})
    day = str(transaction["available_on"])
    sum["pending"][day] = sum["pending"].get(day, 0) + transaction["net"]
    _settle(sum, books.now())
    books.put(BALANCE, sums)


def totals(books: Books) -> dict[str, tuple[int, int]]:
    """By currency, what is available and what is pending now."""
    sums = books.get(BALANCE, BALANCE) or {"currencies": {}}
    found = {}
    for currency, one in sums["currencies"].items():
        _settle(one, books.now())
        found[currency] = (one["available"], sum(one["pending"].values()))
    return found


def balance(books: Books, _: Asked) -> dict[str, Any]:
    found = totals(books) or {"usd": (0, 0)}

    def parts(which: int) -> list[dict[str, Any]]:
        return [
            {"amount": one[which], "currency": currency, "source_types": {"card": one[which]}}
            for currency, one in found.items()
        ]

    return {
        "object": "balance", "available": parts(0), "livemode": False, "pending": parts(1),
        "refund_and_dispute_prefunding": {"available": [], "pending": []},
    }  # fmt: skip


def retrieve(books: Books, asked: Asked) -> dict[str, Any]:
    return _as_of(books.at_address("balance_transactions", asked.id), books.now())


def listed(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    where = {n: params.filled(n) for n in ("type", "source", "currency") if n in params}
    if "payout" in params:
        where["payout"] = params.filled("payout")  # there are none, so there is nothing of one
    found = answer(books, asked, "balance_transactions", where)
    found["data"] = [_as_of(one, books.now()) for one in found["data"]]
    return found


def _ready(created: int) -> int:
    return (created // _DAY_S + _PENDING_DAYS) * _DAY_S


def _settle(sum: dict[str, Any], now: int) -> None:
    """Moves what has become available. Days are few: the world's time moves slowly."""
    for day in [day for day in sum["pending"] if int(day) <= now]:
        sum["available"] += sum["pending"].pop(day)


def _as_of(transaction: dict[str, Any], now: int) -> dict[str, Any]:
    is_available = transaction["available_on"] <= now
    return {**transaction, "status": "available" if is_available else "pending"}


def _fee_details(fee: int, currency: str) -> list[dict[str, Any]]:
    if not fee:
        return []
    return [{
        "amount": fee, "application": None, "currency": currency,
        "description": "Stripe processing fees", "type": "stripe_fee",
    }]  # fmt: skip


_LIST = {"created", "currency", "payout", "source", "type"} | PAGING
ROUTES: list[Route] = [
    route("GET", "balance", balance),
    route("GET", "balance_transactions", listed, _LIST),
    route("GET", "balance_transactions/{}", retrieve),
    route("GET", "balance/history", listed, _LIST),
    route("GET", "balance/history/{}", retrieve),
]
