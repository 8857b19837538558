"""Invariants of an account, which hold at all times, whatever was requested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from paddock_services.payments.account import Account
from paddock_services.payments.balance import totals

MAX_SENTENCES = 100  # nobody reads more


def broken_invariants(account: Account) -> list[str]:
    """Return what is not as it must be, in sentences."""
    return list(islice(_check(account), MAX_SENTENCES))


def _check(account: Account) -> Iterator[str]:
    refunded: Counter[str] = Counter()
    for refund in account.all("refunds"):
        refunded[refund["charge"]] += refund["amount"]
        if not account.store.has("charges", refund["charge"]):
            yield f"refund {refund['id']} is of charge {refund['charge']}, which is not there"
        if refund["amount"] <= 0:
            yield f"refund {refund['id']} is over {refund['amount']}"
        yield from _check_transaction(account, "refund", refund)
    received: Counter[str] = Counter()
    succeeded: Counter[str] = Counter()
    for charge in account.all("charges"):
        if charge["status"] == "succeeded" and charge["payment_intent"]:
            succeeded[charge["payment_intent"]] += 1
            received[charge["payment_intent"]] += charge["amount_captured"]
        yield from _check_charge(account, charge, refunded[charge["id"]])
    for intent in account.all("payment_intents"):
        yield from _check_intent(account, intent, received[intent["id"]], succeeded[intent["id"]])
    yield from _check_balance(account)


def _check_charge(account: Account, charge: Mapping[str, Any], refunded: int) -> Iterator[str]:
    id, stated = charge["id"], charge["amount_refunded"]
    if max(stated, refunded) > charge["amount"]:
        yield f"charge {id} is over {charge['amount']}, and {max(stated, refunded)} were refunded"
    if stated != refunded:
        yield f"charge {id} says that {stated} were refunded; its refunds add up to {refunded}"
    if charge["status"] != "succeeded" and (refunded or charge["amount_captured"]):
        yield f"charge {id} has a status of {charge['status']}, and money moved"
    references = {"customer": "customers", "payment_intent": "payment_intents"}
    yield from _check_references(account, "charge", charge, references)
    yield from _check_transaction(account, "charge", charge)


def _check_transaction(account: Account, noun: str, document: Mapping[str, Any]) -> Iterator[str]:
    id = document["balance_transaction"]
    if id is None:
        if document.get("captured"):
            yield f"{noun} {document['id']} was captured, and no balance transaction says so"
        return
    transaction = account.find("balance_transactions", id)
    expected = document["amount_captured"] if noun == "charge" else -document["amount"]
    if transaction is None:
        yield f"{noun} {document['id']} names balance transaction {id}, which is not there"
    elif transaction["amount"] != expected:
        difference = f"{transaction['amount']} and not {expected}"
        yield f"balance transaction {id} of {noun} {document['id']} is over {difference}"


def _check_intent(
    account: Account, intent: Mapping[str, Any], received: int, succeeded: int
) -> Iterator[str]:
    id, stated = intent["id"], intent["amount_received"]
    if succeeded > 1:
        yield f"payment intent {id} has {succeeded} charges that succeeded: it was paid twice"
    if stated != received:
        yield f"payment intent {id} says that {stated} were received; its charges took {received}"
    if intent["status"] == "succeeded" and not succeeded:
        yield f"payment intent {id} succeeded without a charge that did"
    references = {"customer": "customers", "latest_charge": "charges"}
    yield from _check_references(account, "payment intent", intent, references)


def _check_references(
    account: Account, noun: str, document: Mapping[str, Any], kinds: Mapping[str, str]
) -> Iterator[str]:
    for name, kind in kinds.items():
        id = document[name]
        if id is not None and not account.store.has(kind, id):
            yield f"{noun} {document['id']} names {name} {id}, which is not there"


def _check_balance(account: Account) -> Iterator[str]:
    sums: Counter[str] = Counter()
    for transaction in account.all("balance_transactions"):
        sums[transaction["currency"]] += transaction["net"]
    balance = totals(account)
    for currency in sorted({*sums, *balance}):
        total = sum(balance.get(currency, (0, 0)))
        if total != sums[currency]:
            difference = f"its transactions add up to {sums[currency]}"
            yield f"the balance has {total} {currency}; {difference}"
