"""Charges: one attempt each to take money from a card. Payment intents make them; older programs
make them directly, with `source=tok_visa`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.balance import record_capture
from paddock_services.payments.cards import FRAUDULENT, Card, Decline, behaviour
from paddock_services.payments.errors import Conflict, Declined, Refusal, missing_param
from paddock_services.payments.lists import listing, retrieve
from paddock_services.payments.money import format_money
from paddock_services.payments.params import Params, Reader
from paddock_services.payments.payment_methods import usable_method
from paddock_services.payments.refunds import release
from paddock_services.payments.search import searching

_READERS: Mapping[str, Reader] = {
    "description": Params.text,
    "receipt_email": Params.email,
    "shipping": Params.shipping,
    "statement_descriptor": Params.text,
    "statement_descriptor_suffix": Params.text,
    "transfer_group": Params.text,
}
_NOT_SHOWN = ("display_brand", "generated_from", "networks", "three_d_secure_usage")


def new_charge(id: str, amount: int, currency: str, created: int) -> Document:
    """Return a charge that nothing has come of yet."""
    return empty("charge", id=id, amount=amount, currency=currency, created=created)


def write_method(charge: Document, method: Mapping[str, Any]) -> None:
    """Write down what a charge says of the card that it is made with."""
    card = {name: value for name, value in method["card"].items() if name not in _NOT_SHOWN}
    card |= {"amount_authorized": charge["amount"], "network": card["brand"], "mandate": None}
    card |= {"installments": None, "three_d_secure": None}
    charge["payment_method"] = method["id"]
    charge["billing_details"] = method["billing_details"]
    charge["payment_method_details"] = {"card": card, "type": "card"}


def attempt(account: Account, charge: Document, card: Card, *, captures: bool) -> Decline | None:
    """Try to take the money, and store what comes of it. Return the decline if the bank says no."""
    decline = card.decline
    charge["outcome"] = outcome(decline)
    if decline is not None:
        charge |= {"status": "failed", "failure_code": decline.code}
        charge["failure_message"] = decline.message
        account.save("charges", "charge.failed", charge)
        return decline
    charge |= {"status": "succeeded", "paid": True}
    charge["receipt_url"] = f"https://pay.stripe.com/receipts/{account.derive(charge['id'], 32)}"
    if captures:
        _take(account, charge, charge["amount"], is_available_at_once=card.is_available_at_once)
    account.save("charges", "charge.succeeded", charge)
    return None


def outcome(decline: Decline | None) -> Document:
    """Return how the bank answered."""
    if decline is None:
        status, type, message = "approved_by_network", "authorized", "Payment complete."
    elif decline == FRAUDULENT:
        status, type, message = "not_sent_to_network", "blocked", "Payment blocked."
    else:
        status, type = "declined_by_network", "issuer_declined"
        message = "The bank declined the payment."
    is_blocked = type == "blocked"
    return {
        "network_status": status,
        "reason": None if decline is None else decline.reason or decline.code,
        "risk_level": "highest" if is_blocked else "normal",
        "risk_score": 90 if is_blocked else 20,
        "seller_message": message,
        "type": type,
    }


def capture_charge(account: Account, charge: Document, amount: int) -> None:
    """Capture a charge that was authorized earlier."""
    before = dict(charge)
    _take(account, charge, amount)
    account.update("charges", "charge.captured", before, charge)


def _take(
    account: Account, charge: Document, amount: int, *, is_available_at_once: bool = False
) -> None:
    """Bring the money to the balance. What is not captured is released."""
    charge |= {"captured": True, "amount_captured": amount}
    record_capture(account, charge, account.time, is_available_at_once=is_available_at_once)
    if amount < charge["amount"]:
        release(account, charge, charge["amount"] - amount)


def _create(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    currency = params.currency()
    amount = params.amount(currency)
    method = _method(account, params)
    charge = new_charge(account.new_id("ch_1"), amount, currency, account.time)
    params.write_into(charge, _READERS)
    charge["customer"] = params.id("customer")
    write_method(charge, method)
    captures = params.boolean("capture") is not False
    decline = attempt(account, charge, behaviour(method["card"]), captures=captures)
    if decline is not None:
        raise decline.error(charge=charge["id"])
    return charge


def _method(account: Account, params: Params) -> Document:
    """Return the card of `source`, or the customer's default one."""
    customer, source = params.id("customer"), params.id("source")
    if source is None and customer is None:
        raise missing_param("source")
    if customer is not None:
        settings = account.reference("customers", customer, "customer")["invoice_settings"]
        source = source or settings["default_payment_method"]
    if source is None:
        message = "Cannot charge a customer that has no active card"
        raise Declined(message, code="missing", param="card")
    return usable_method(account, source, "source", customer)


def _update(account: Account, request: PaymentRequest) -> Document:
    before, params = account.fetch("charges", request.id), request.params
    params.refuse_unsupported("fraud_details")
    charge = dict(before)
    params.write_into(charge, _READERS)
    customer = params.id("customer")
    if customer is not None:
        if before["customer"] not in (None, customer):
            raise Refusal("This charge already has a customer.", param="customer")
        charge["customer"] = account.reference("customers", customer, "customer")["id"]
    return account.update("charges", "charge.updated", before, charge)


def _capture(account: Account, request: PaymentRequest) -> Document:
    charge, params = account.fetch("charges", request.id), request.params
    id, intent = charge["id"], charge["payment_intent"]
    if intent is not None:
        message = f"This charge belongs to {intent}: capture the PaymentIntent."
        raise Conflict(message, code="charge_invalid_parameter")
    if charge["captured"]:
        raise Conflict(f"Charge {id} has already been captured.", code="charge_already_captured")
    if charge["refunded"]:
        raise Conflict(f"Charge {id} has already been refunded.", code="charge_already_refunded")
    if charge["status"] != "succeeded":
        raise Conflict(f"Charge {id} did not succeed, so it cannot be captured.")
    amount = params.integer("amount", least=1) or charge["amount"]
    if amount > charge["amount"]:
        most = format_money(charge["amount"], charge["currency"])
        message = f"The amount to capture cannot be greater than the amount authorized ({most})."
        raise Refusal(message, code="amount_too_large", param="amount")
    params.write_into(charge, _READERS)
    capture_charge(account, charge, amount)
    return charge


OPERATIONS = [
    Operation("POST", "charges", _create),
    Operation("GET", "charges", listing("charges", "customer", "payment_intent", "transfer_group")),
    Operation("GET", "charges/search", searching("charges")),
    Operation("GET", "charges/{id}", retrieve("charges")),
    Operation("POST", "charges/{id}", _update),
    Operation("POST", "charges/{id}/capture", _capture),
]
