"""What must be true of an account at all times, whatever was asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from paddock_services.payments.books import Books
from paddock_services.payments.ledger import totals

MOST = 100  # sentences; whoever reads more is not helped


def broken(books: Books) -> list[str]:
    """What is not as it must be, in sentences."""
    found: list[str] = []
    for sentence in _all(books):
        found.append(sentence)
        if len(found) == MOST:
            break
    return found


def _all(books: Books) -> Iterator[str]:
    refunded: Counter[str] = Counter()
    for refund in books.each("refunds"):
        if refund["status"] in ("succeeded", "pending"):
            refunded[refund["charge"]] += refund["amount"]
        if not books.store.has("charges", refund["charge"]):
            yield f"refund {refund['id']} is of charge {refund['charge']}, which is not there"
        if refund["amount"] <= 0:
            yield f"refund {refund['id']} is over {refund['amount']}"
        yield from _transaction(books, "refund", refund)
    received: Counter[str] = Counter()
    succeeded: Counter[str] = Counter()
    for charge in books.each("charges"):
        if charge["status"] == "succeeded" and charge["payment_intent"]:
            succeeded[charge["payment_intent"]] += 1
            received[charge["payment_intent"]] += charge["amount_captured"]
        yield from _charge(books, charge, refunded[charge["id"]])
    for intent in books.each("payment_intents"):
        yield from _intent(books, intent, received[intent["id"]], succeeded[intent["id"]])
    yield from _balance(books)


def _charge(books: Books, charge: Mapping[str, Any], refunded: int) -> Iterator[str]:
    id = charge["id"]
    if charge["amount_refunded"] > charge["amount"] or refunded > charge["amount"]:
        most = max(refunded, charge["amount_refunded"])
        yield f"charge {id} is over {charge['amount']}, and {most} were refunded"
    if charge["amount_refunded"] != refunded:
        said = charge["amount_refunded"]
        yield f"charge {id} says that {said} were refunded; its refunds add up to {refunded}"
    if charge["status"] != "succeeded" and (refunded or charge["amount_captured"]):
        yield f"charge {id} has a status of {charge['status']}, and money moved"
    for name, kind in (("customer", "customers"), ("payment_intent", "payment_intents")):
        if charge[name] is not None and not books.store.has(kind, charge[name]):
            yield f"charge {id} names {name} {charge[name]}, which is not there"
    yield from _transaction(books, "charge", charge)


def _transaction(books: Books, noun: str, document: Mapping[str, Any]) -> Iterator[str]:
    id = document["balance_transaction"]
    if id is None:
        if document.get("captured"):
            yield f"{noun} {document['id']} was captured, and no balance transaction says so"
        return
    found = books.get("balance_transactions", id)
    if found is None:
        yield f"{noun} {document['id']} names balance transaction {id}, which is not there"
        return
    expected = document["amount_captured"] if noun == "charge" else -document["amount"]
    if found["amount"] != expected:
        wrong = f"{found['amount']} and not {expected}"
        yield f"balance transaction {id} of {noun} {document['id']} is over {wrong}"


def _intent(
    books: Books, intent: Mapping[str, Any], received: int, succeeded: int
) -> Iterator[str]:
    id = intent["id"]
    if succeeded > 1:
        yield f"payment intent {id} has {succeeded} charges that succeeded: it was paid twice"
    if intent["amount_received"] != received:
        said = intent["amount_received"]
        yield f"payment intent {id} says that {said} were received; its charges took {received}"
    if intent["status"] == "succeeded" and not succeeded:
        yield f"payment intent {id} succeeded without a charge that did"
    for name, kind in (("customer", "customers"), ("latest_charge", "charges")):
        if intent[name] is not None and not books.store.has(kind, intent[name]):
            yield f"payment intent {id} names {name} {intent[name]}, which is not there"


def _balance(books: Books) -> Iterator[str]:
    sums: Counter[str] = Counter()
    for transaction in books.each("balance_transactions"):
        sums[transaction["currency"]] += transaction["net"]
    balance = totals(books)
    for currency in sorted({*sums, *balance}):
        has = sum(balance.get(currency, (0, 0)))
        if has != sums[currency]:
            wrong = f"its transactions add up to {sums[currency]}"
            yield f"the balance has {has} {currency}; {wrong}"
