"""Money that goes back: the refund document, and what it does to its charge."""

from __future__ import annotations

from typing import Any

from paddock_services.payments import ledger
from paddock_services.payments.books import Books


def blank(id: str, amount: int, charge: dict[str, Any], created: int) -> dict[str, Any]:
    """A refund that has succeeded, as those of cards do at once."""
    return {
        "id": id, "object": "refund", "amount": amount, "balance_transaction": None,
        "charge": charge["id"], "created": created, "currency": charge["currency"],
        "destination_details": {"card": {
            "reference": None, "reference_status": "pending",
            "reference_type": "acquirer_reference_number", "type": "refund",
        }, "type": "card"},
        "metadata": {}, "payment_intent": charge["payment_intent"], "reason": None,
        "receipt_number": None, "source_transfer_reversal": None, "status": "succeeded",
        "transfer_reversal": None,
    }  # fmt: skip


def release(books: Books, charge: dict[str, Any], amount: int) -> dict[str, Any]:
    """Gives back what was authorized and never captured. No money moves."""
    refund = blank(_id(books, charge), amount, charge, books.at)
    _count(charge, amount)
    books.put("refunds", refund)
    return refund


def give_back(books: Books, charge: dict[str, Any], refund: dict[str, Any]) -> None:
    """Gives back captured money. The caller has checked that there is enough."""
    movement = ledger.Movement(
        "refund", refund["id"], -refund["amount"], charge["currency"],
        f"REFUND FOR CHARGE ({charge['description'] or charge['id']})", refund["created"],
    )  # fmt: skip
    refund["balance_transaction"] = ledger.enter(books, movement)
    _count(charge, refund["amount"])


def new(books: Books, charge: dict[str, Any], amount: int) -> dict[str, Any]:
    return blank(_id(books, charge), amount, charge, books.at)


def left(charge: dict[str, Any]) -> int:
    """What can still be refunded."""
    return int(charge["amount"]) - int(charge["amount_refunded"])


def _count(charge: dict[str, Any], amount: int) -> None:
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] >= charge["amount"]


def _id(books: Books, charge: dict[str, Any]) -> str:
    return books.new_id("re_3" if charge["payment_intent"] else "re_1")
