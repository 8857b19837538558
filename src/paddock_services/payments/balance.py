"""The money: balance transactions, and the balance that they add up to.

The sums are in one document, `balance`, so that a balance needs no look at all transactions: for
each currency what is available, and by day what becomes available then.
"""

from __future__ import annotations

from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.lists import list_documents
from paddock_services.payments.money import processing_fee

_DAY_S = 86_400
_PENDING_DAYS = 2
_BALANCE = "balance"  # kind and id of the document with the sums


def record_capture(
    account: Account, charge: Document, created: int, *, is_available_at_once: bool = False
) -> None:
    """Bring the captured amount of a charge to the balance, less the fee."""
    amount = charge["amount_captured"]
    fee = processing_fee(amount)
    fee_details = {
        "amount": fee,
        "application": None,
        "currency": charge["currency"],
        "description": "Stripe processing fees",
        "type": "stripe_fee",
    }
    transaction = _new_transaction(account, charge, "charge", amount, created)
    transaction |= {"fee": fee, "net": amount - fee, "description": charge["description"]}
    transaction["fee_details"] = [fee_details]
    if is_available_at_once:
        transaction["available_on"] = created
    _enter(account, transaction)
    charge["balance_transaction"] = transaction["id"]


def record_refund(account: Account, charge: Document, refund: Document) -> None:
    """Take a refund from the balance."""
    transaction = _new_transaction(account, refund, "refund", -refund["amount"], refund["created"])
    subject = charge["description"] or charge["id"]
    transaction["description"] = f"REFUND FOR CHARGE ({subject})"
    _enter(account, transaction)
    refund["balance_transaction"] = transaction["id"]


def _new_transaction(
    account: Account, source: Document, type: str, amount: int, created: int
) -> Document:
    transaction = empty("balance_transaction", id=account.new_id("txn_1"), created=created)
    transaction |= {"amount": amount, "net": amount, "source": source["id"], "type": type}
    transaction |= {"currency": source["currency"], "reporting_category": type}
    transaction["available_on"] = (created // _DAY_S + _PENDING_DAYS) * _DAY_S
    return transaction


def _enter(account: Account, transaction: Document) -> None:
    account.put("balance_transactions", transaction)
    sums = account.find(_BALANCE, _BALANCE) or {"id": _BALANCE, "currencies": {}}
    empty_sum = {"available": 0, "pending": {}}
    currency_sum = sums["currencies"].setdefault(transaction["currency"], empty_sum)
    day = str(transaction["available_on"])
    pending = currency_sum["pending"]
    pending[day] = pending.get(day, 0) + transaction["net"]
    _settle(currency_sum, account.now())
    account.put(_BALANCE, sums)


def _settle(currency_sum: Document, now: int) -> None:
    """Move what has become available. Days are few: the world's time moves slowly."""
    for day in [day for day in currency_sum["pending"] if int(day) <= now]:
        currency_sum["available"] += currency_sum["pending"].pop(day)


def totals(account: Account) -> dict[str, tuple[int, int]]:
    """Return what is available and what is pending now, by currency."""
    sums = account.find(_BALANCE, _BALANCE) or {"currencies": {}}
    amounts = {}
    for currency, currency_sum in sums["currencies"].items():
        _settle(currency_sum, account.now())
        amounts[currency] = (currency_sum["available"], sum(currency_sum["pending"].values()))
    return amounts


def _balance(account: Account, request: PaymentRequest) -> Document:
    balance: Document = {"object": "balance", "available": [], "pending": [], "livemode": False}
    for currency, amounts in (totals(account) or {"usd": (0, 0)}).items():
        for name, amount in zip(("available", "pending"), amounts, strict=True):
            part = {"amount": amount, "currency": currency, "source_types": {"card": amount}}
            balance[name].append(part)
    return balance


def _retrieve(account: Account, request: PaymentRequest) -> Document:
    return _with_status(account, account.fetch("balance_transactions", request.id))


def _list(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    where = {name: params.id(name) for name in ("type", "source", "currency") if name in params}
    page = list_documents(account, request, "balance_transactions", where)
    page["data"] = [_with_status(account, transaction) for transaction in page["data"]]
    return page


def _with_status(account: Account, transaction: Document) -> Document:
    is_available = transaction["available_on"] <= account.now()
    return {**transaction, "status": "available" if is_available else "pending"}


OPERATIONS = [
    Operation("GET", "balance", _balance),
    Operation("GET", "balance_transactions", _list),
    Operation("GET", "balance_transactions/{id}", _retrieve),
]
