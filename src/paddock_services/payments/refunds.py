"""Refunds: of a charge or of an intent's charge, whole or in parts, never more than was taken."""

from __future__ import annotations

from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.balance import record_refund
from paddock_services.payments.errors import Conflict, Refusal
from paddock_services.payments.lists import listing, retrieve
from paddock_services.payments.money import format_money
from paddock_services.payments.params import Params

_REASONS = ("duplicate", "fraudulent", "requested_by_customer")


def new_refund(
    account: Account, charge: Document, amount: int, *, id: str | None = None, created: int = 0
) -> Document:
    """Return a refund that has succeeded, as those of cards do at once. It is not stored yet."""
    if id is None:
        id = account.new_id("re_3" if charge["payment_intent"] else "re_1")
    refund = empty("refund", id=id, amount=amount, created=created or account.time)
    for name in ("currency", "payment_intent"):
        refund[name] = charge[name]
    refund["charge"] = charge["id"]
    return refund


def release(account: Account, charge: Document, amount: int) -> None:
    """Give back what was authorized and never captured. No money moves."""
    account.put("refunds", new_refund(account, charge, amount))
    _count(charge, amount)


def give_back(account: Account, charge: Document, refund: Document) -> None:
    """Store a refund and count it. The caller has checked that there is enough left, and stores
    the charge."""
    if charge["captured"]:
        record_refund(account, charge, refund)
    _count(charge, refund["amount"])
    account.put("refunds", refund)


def refundable(charge: Document) -> int:
    """Return what can still be refunded."""
    return int(charge["amount"]) - int(charge["amount_refunded"])


def _count(charge: Document, amount: int) -> None:
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] >= charge["amount"]


def _create(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    charge = _charge(account, params)
    before = dict(charge)
    reason = params.choice("reason", _REASONS)
    refund = new_refund(account, charge, _amount(params, charge))
    refund |= {"reason": reason, "metadata": params.metadata()}
    give_back(account, charge, refund)
    account.update("charges", "charge.refunded", before, charge)
    account.record_event("refund.created", refund)
    return refund


def _charge(account: Account, params: Params) -> Document:
    charge_id, intent_id = params.id("charge"), params.id("payment_intent")
    if charge_id is not None:
        charge = account.reference("charges", charge_id, "charge")
        if intent_id is not None and charge["payment_intent"] != intent_id:
            message = f"The charge {charge_id} does not belong to {intent_id[:100]}."
            raise Refusal(message, param="payment_intent")
        return charge
    if intent_id is None:
        message = "One of these params should be provided: payment_intent or charge."
        raise Refusal(message, code="parameter_missing")
    intent = account.reference("payment_intents", intent_id, "payment_intent")
    latest = account.find("charges", intent["latest_charge"] or "")
    if latest is None or latest["status"] != "succeeded":
        message = f"This PaymentIntent ({intent_id}) does not have a successful charge to refund."
        raise Conflict(message, code="payment_intent_unexpected_state", param="payment_intent")
    return latest


def _amount(params: Params, charge: Document) -> int:
    """Return what is to be given back. Raises Refusal where that is more than there is."""
    id, left = charge["id"], refundable(charge)
    if charge["status"] != "succeeded":
        raise Conflict(f"Charge {id} did not succeed, so there is nothing to refund.")
    if left <= 0:
        raise Conflict(f"Charge {id} has already been refunded.", code="charge_already_refunded")
    if not charge["captured"] and charge["payment_intent"]:
        message = f"Charge {id} is not captured: cancel {charge['payment_intent']} instead."
        raise Conflict(message, code="charge_not_refundable")
    amount = params.integer("amount", least=1) or left
    if amount > left:
        asked, most = (format_money(money, charge["currency"]) for money in (amount, left))
        message = f"Refund amount ({asked}) is greater than unrefunded amount on charge ({most})"
        raise Conflict(message, param="amount")
    if not charge["captured"] and amount < left:
        message = f"Charge {id} is not captured: it can only be refunded as a whole."
        raise Conflict(message, param="amount")
    return amount


def _update(account: Account, request: PaymentRequest) -> Document:
    before = account.fetch("refunds", request.id)
    refund = {**before, "metadata": request.params.metadata(before["metadata"])}
    return account.update("refunds", "refund.updated", before, refund)


OPERATIONS = [
    Operation("POST", "refunds", _create),
    Operation("GET", "refunds", listing("refunds", "charge", "payment_intent")),
    Operation("GET", "refunds/{id}", retrieve("refunds")),
    Operation("POST", "refunds/{id}", _update),
]
