"""Charges: one attempt each to take money from a card. Intents make them; older programs make them
directly, from a token or a customer's card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock_services.payments import ledger, sources
from paddock_services.payments.books import Books
from paddock_services.payments.cards import Card, Decline
from paddock_services.payments.currency import amount_of, currency_of, money
from paddock_services.payments.errors import Conflict, Declined, Refusal, missing
from paddock_services.payments.lists import PAGING, listing
from paddock_services.payments.params import Params, Reader, lacking, write_into
from paddock_services.payments.payment_methods import empty_address
from paddock_services.payments.releases import release
from paddock_services.payments.routes import Asked, Route, route

_READERS: Mapping[str, Reader] = {
    "description": Params.text,
    "receipt_email": Params.email,
    "shipping": Params.shipping,
    "transfer_group": Params.text,
    "statement_descriptor": Params.text,
    "statement_descriptor_suffix": Params.text,
}
_CREATE = {*_READERS, "amount", "application_fee", "application_fee_amount", "capture", "currency",
           "customer", "destination", "metadata", "on_behalf_of", "radar_options", "source",
           "transfer_data", "card"}  # fmt: skip
_UPDATE = {"customer", "description", "fraud_details", "metadata", "receipt_email", "shipping",
           "transfer_group"}  # fmt: skip
_CAPTURE = ("amount", "application_fee", "application_fee_amount", "receipt_email",
            "statement_descriptor", "statement_descriptor_suffix", "transfer_data",
            "transfer_group")  # fmt: skip


def blank(id: str, amount: int, currency: str, created: int) -> dict[str, Any]:
    """A charge that nothing has come of yet."""
    return {
        "id": id, "object": "charge", "amount": amount, "amount_captured": 0,
        "amount_refunded": 0, "application": None, "application_fee": None,
        "application_fee_amount": None, "balance_transaction": None,
        "billing_details": {
            "address": empty_address(), "email": None, "name": None, "phone": None, "tax_id": None,
        },
        "calculated_statement_descriptor": "PADDOCK", "captured": False, "created": created,
        "currency": currency, "customer": None, "description": None, "disputed": False,
        "failure_balance_transaction": None, "failure_code": None, "failure_message": None,
        "fraud_details": {}, "livemode": False, "metadata": {}, "on_behalf_of": None,
        "outcome": None, "paid": False, "payment_intent": None, "payment_method": None,
        "payment_method_details": None, "radar_options": {}, "receipt_email": None,
        "receipt_number": None, "receipt_url": None, "refunded": False, "review": None,
        "shipping": None, "source": None, "source_transfer": None, "statement_descriptor": None,
        "statement_descriptor_suffix": None, "status": "pending", "transfer_data": None,
        "transfer_group": None,
    }  # fmt: skip


def attempt(books: Books, charge: dict[str, Any], card: Card, *, captures: bool) -> Decline | None:
    """Tries to take the money, and keeps what comes of it. The decline, if the bank says no."""
    decline = card.decline
    if decline is not None:
        charge |= {"status": "failed", "failure_code": decline.code}
        charge |= {"failure_message": decline.message, "outcome": declined_outcome(decline)}
        books.put("charges", charge)
        books.tell("charge.failed", charge)
        return decline
    charge |= {"status": "succeeded", "paid": True, "outcome": authorized_outcome()}
    charge["receipt_url"] = f"https://pay.stripe.com/receipts/{books.derived(charge['id'], 32)}"
    if captures:
        take(books, charge, charge["amount"], is_available_at_once=card.is_available_at_once)
    books.put("charges", charge)
    books.tell("charge.succeeded", charge)
    return None


def take(
    books: Books, charge: dict[str, Any], amount: int, *, is_available_at_once: bool = False
) -> None:
    """Captures: the money comes to the balance. What is not captured is released."""
    charge |= {"captured": True, "amount_captured": amount}
    taken = ledger.taken(charge, amount, books.at, is_available_at_once=is_available_at_once)
    charge["balance_transaction"] = ledger.enter(books, taken)
    if amount < charge["amount"]:
        release(books, charge, charge["amount"] - amount)


def capture_kept(books: Books, charge: dict[str, Any], amount: int) -> None:
    """Captures a charge that was authorized earlier."""
    before = dict(charge)
    take(books, charge, amount)
    books.changed("charges", "charge.captured", before, charge)


def create(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    currency = currency_of(params)
    amount = amount_of(params, currency)
    source = _source(books, params)
    charge = blank(books.new_id("ch_1"), amount, currency, books.at)
    write_into(charge, params, _READERS)
    charge |= {"metadata": params.metadata(), "source": source, "payment_method": source["id"]}
    charge["customer"] = params.filled("customer")
    charge["payment_method_details"] = _details_of_source(source)
    captures = params.flag("capture") is not False
    decline = attempt(books, charge, _card(source), captures=captures)
    if decline is not None:
        raise decline.error(charge=charge["id"])
    return charge


def retrieve(books: Books, asked: Asked) -> dict[str, Any] | str:
    return asked.kept(books, "charges")


def update(books: Books, asked: Asked) -> dict[str, Any]:
    before = books.at_address("charges", asked.id)
    charge, params = dict(before), asked.params
    write_into(charge, params, _READERS)
    charge["metadata"] = params.metadata(before["metadata"])
    if "fraud_details" in params:
        reports = ("fraudulent", "safe")
        table = params.table("fraud_details")
        report = table.one_of("user_report", reports)
        charge["fraud_details"] = {"user_report": report} if report else {}
    if customer := params.filled("customer"):
        if before["customer"] not in (None, customer):
            raise Refusal("This charge already has a customer.", param="customer")
        charge["customer"] = books.named("customers", customer, "customer")["id"]
    books.changed("charges", "charge.updated", before, charge)
    return charge


def capture(books: Books, asked: Asked) -> dict[str, Any]:
    charge, params = books.at_address("charges", asked.id), asked.params
    if charge["payment_intent"] is not None:
        message = f"This charge belongs to {charge['payment_intent']}: capture the PaymentIntent."
        raise Conflict(message, code="charge_invalid_parameter")
    check_capturable(charge)
    given = params.whole("amount", least=1)
    amount = charge["amount"] if given is None else given
    if amount > charge["amount"]:
        had = money(charge["amount"], charge["currency"])
        message = f"The amount to capture cannot be greater than the amount authorized ({had})."
        raise Refusal(message, code="amount_too_large", param="amount")
    write_into(charge, params, _READERS)
    capture_kept(books, charge, amount)
    return charge


def check_capturable(charge: Mapping[str, Any]) -> None:
    id = charge["id"]
    if charge["captured"]:
        raise Conflict(f"Charge {id} has already been captured.", code="charge_already_captured")
    if charge["refunded"]:
        raise Conflict(f"Charge {id} has already been refunded.", code="charge_already_refunded")
    if charge["status"] != "succeeded":
        raise Conflict(f"Charge {id} did not succeed, so it cannot be captured.")


def details_of_method(method: Mapping[str, Any], amount: int) -> dict[str, Any]:
    """What a charge says of the card that it was made with."""
    card = dict(method.get("card") or {})
    for name in ("display_brand", "generated_from", "networks", "three_d_secure_usage"):
        card.pop(name, None)
    return {"card": {
        "amount_authorized": amount, "authorization_code": None, **card,
        "extended_authorization": {"status": "disabled"},
        "incremental_authorization": {"status": "unavailable"}, "installments": None,
        "mandate": None, "multicapture": {"status": "unavailable"}, "network": card.get("brand"),
        "network_token": {"used": False}, "overcapture": {
            "maximum_amount_capturable": amount, "status": "unavailable",
        }, "three_d_secure": None,
    }, "type": "card"}  # fmt: skip


def authorized_outcome() -> dict[str, Any]:
    return {
        "advice_code": None, "network_advice_code": None, "network_decline_code": None,
        "network_status": "approved_by_network", "reason": None, "risk_level": "normal",
        "risk_score": 20, "seller_message": "Payment complete.", "type": "authorized",
    }  # fmt: skip


def declined_outcome(decline: Decline) -> dict[str, Any]:
    blocked = decline.is_blocked
    return {
        "advice_code": None, "network_advice_code": None,
        "network_decline_code": None if blocked else "05",
        "network_status": "not_sent_to_network" if blocked else "declined_by_network",
        "reason": "highest_risk_level" if blocked else decline.reason or decline.code,
        "risk_level": "highest" if blocked else "normal", "risk_score": 90 if blocked else 20,
        "seller_message": "Payment blocked." if blocked else "The bank declined the payment.",
        "type": "blocked" if blocked else "issuer_declined",
    }  # fmt: skip


def _source(books: Books, params: Params) -> dict[str, Any]:
    """The card that a direct charge is for: of a token, or of the customer."""
    customer_id, given = params.filled("customer"), params.anything("source")
    customer = books.named("customers", customer_id, "customer") if customer_id else None
    if isinstance(given, dict):
        raise Refusal("Card numbers go into a token first: POST /v1/tokens.", param="source")
    if customer is None and given is None:
        raise lacking("source")
    if customer is None:
        return sources.of_token(books, str(given), "source")
    id = given or customer["default_source"]
    if id is None:
        message = "Cannot charge a customer that has no active card"
        raise Declined(message, code="missing", param="card")
    source = books.get("sources", id)
    if source is None or source["customer"] != customer["id"]:
        raise missing("source", str(id)[:200], "source")
    return source


def _card(source: dict[str, Any]) -> Card:
    return sources.behaviour(source)


def _details_of_source(source: dict[str, Any]) -> dict[str, Any]:
    names = ("country", "exp_month", "exp_year", "fingerprint", "funding", "last4")
    brand = sources.brand(source)
    card = {"brand": brand, **{name: source[name] for name in names}, "network": brand}
    return {"card": card, "type": "card"}


_FIELDS = ("customer", "payment_intent", "transfer_group")
ROUTES: list[Route] = [
    route("POST", "charges", create, _CREATE),
    route("GET", "charges", listing("charges", *_FIELDS), {*_FIELDS, "created"} | PAGING),
    route("GET", "charges/{}", retrieve),
    route("POST", "charges/{}", update, _UPDATE),
    route("POST", "charges/{}/capture", capture, _CAPTURE),
]
