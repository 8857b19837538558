"""How a payment intent moves on: confirmed, captured, canceled. Only here does its status change
after it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock_services.payments import cards, charges
from paddock_services.payments.books import Books
from paddock_services.payments.cards import AUTHENTICATION, Card, Decline
from paddock_services.payments.currency import money
from paddock_services.payments.errors import Conflict, Refusal
from paddock_services.payments.params import Params
from paddock_services.payments.payment_methods import make, usable
from paddock_services.payments.releases import left, release
from paddock_services.payments.routes import Asked

CONFIRM = ("allowed_payment_method_types", "amount_details", "amount_to_confirm", "capture_method",
           "confirmation_token", "error_on_requires_action", "excluded_payment_method_types",
           "hooks", "mandate", "mandate_data", "off_session", "payment_details", "payment_method",
           "payment_method_data", "payment_method_options", "payment_method_types",
           "radar_options", "receipt_email", "return_url", "setup_future_usage", "shipping",
           "use_stripe_sdk")  # fmt: skip
CAPTURE = ("amount_details", "amount_to_capture", "application_fee_amount", "final_capture",
           "hooks", "metadata", "payment_details", "statement_descriptor",
           "statement_descriptor_suffix", "transfer_data")  # fmt: skip
_CONFIRMABLE = ("requires_payment_method", "requires_confirmation", "requires_action")
_CANCELABLE = ("requires_payment_method", "requires_capture", "requires_confirmation",
               "requires_action", "processing")  # fmt: skip
_HANDED_ON = ("customer", "description", "metadata", "receipt_email", "shipping",
              "statement_descriptor", "statement_descriptor_suffix", "transfer_group")  # fmt: skip
_REASONS = ("duplicate", "fraudulent", "requested_by_customer", "abandoned")


def choose_method(books: Books, intent: dict[str, Any], params: Params) -> dict[str, Any] | None:
    """The method that the request names or describes, if any, becomes the intent's."""
    method = None
    if id := params.filled("payment_method"):
        method = usable(books, id, "payment_method", intent["customer"])
    elif "payment_method_data" in params:
        method = make(books, params.table("payment_method_data"))
        books.put("payment_methods", method)
    if method is not None:
        intent["payment_method"] = method["id"]
        intent["status"] = "requires_confirmation"
        intent["next_action"] = None
    return method


def confirm(books: Books, asked: Asked) -> dict[str, Any]:
    intent, params = books.at_address("payment_intents", asked.id), asked.params
    if intent["status"] == "succeeded":
        message = (
            "You cannot confirm this PaymentIntent because it has already succeeded after being "
            "previously confirmed."
        )
        raise Conflict(message, code="payment_intent_unexpected_state", payment_intent=intent)
    if intent["status"] not in _CONFIRMABLE:
        raise unexpected(intent, "confirmed", _CONFIRMABLE)
    method = choose_method(books, intent, params)
    for name, value in (
        ("receipt_email", params.email("receipt_email")),
        ("shipping", params.shipping("shipping")),
        ("setup_future_usage", params.one_of("setup_future_usage", ("off_session", "on_session"))),
        ("capture_method", params.one_of("capture_method", ("automatic", "automatic_async", "manual"))),  # noqa: E501
    ):  # fmt: skip
        if value is not None:
            intent[name] = value
    return go(books, intent, method, params)


def go(
    books: Books, intent: dict[str, Any], method: dict[str, Any] | None, params: Params
) -> dict[str, Any]:
    """Tries to pay. Raises Declined when the bank says no; the intent is kept as that leaves it."""
    if method is None and intent["payment_method"] is not None:
        method = usable(books, intent["payment_method"], "payment_method", intent["customer"])
    if method is None:
        message = (
            "You cannot confirm this PaymentIntent because it's missing a payment method. Update "
            "it with one, or give one with the confirmation."
        )
        raise Conflict(message, code="payment_intent_unexpected_state", payment_intent=intent)
    card = cards.behaviour(method.get("card") or {})
    if card.wants_authentication:
        return _authenticate(books, intent, method, params)
    return _charge(books, intent, method, card)


def capture(books: Books, asked: Asked) -> dict[str, Any]:
    intent, params = books.at_address("payment_intents", asked.id), asked.params
    if intent["status"] != "requires_capture":
        raise unexpected(intent, "captured", ("requires_capture",))
    given = params.whole("amount_to_capture", least=1)
    amount = intent["amount_capturable"] if given is None else given
    if amount > intent["amount_capturable"]:
        had = money(intent["amount_capturable"], intent["currency"])
        message = f"The amount to capture is greater than the amount that can be captured ({had})."
        raise Refusal(message, code="amount_too_large", param="amount_to_capture")
    charge = books.at_address("charges", intent["latest_charge"])
    charges.capture_kept(books, charge, amount)
    intent |= {"status": "succeeded", "amount_capturable": 0, "amount_received": amount}
    intent["metadata"] = params.metadata(intent["metadata"])
    books.put("payment_intents", intent)
    books.tell("payment_intent.succeeded", intent)
    return intent


def cancel(books: Books, asked: Asked) -> dict[str, Any]:
    intent = books.at_address("payment_intents", asked.id)
    reason = asked.params.one_of("cancellation_reason", _REASONS)
    if intent["status"] not in _CANCELABLE:
        raise unexpected(intent, "canceled", _CANCELABLE)
    if intent["status"] == "requires_capture":
        charge = books.at_address("charges", intent["latest_charge"])
        before = dict(charge)
        release(books, charge, left(charge))
        books.changed("charges", "charge.refunded", before, charge)
    intent |= {"status": "canceled", "canceled_at": books.at, "cancellation_reason": reason}
    intent |= {"amount_capturable": 0, "next_action": None}
    books.put("payment_intents", intent)
    books.tell("payment_intent.canceled", intent)
    return intent


def unexpected(intent: dict[str, Any], verb: str, wanted: Sequence[str]) -> Conflict:
    """The intent is not in a state for this."""
    message = (
        f"This PaymentIntent could not be {verb} because it has a status of {intent['status']}. "
        f"Only a PaymentIntent with one of the following statuses may be {verb}: "
        f"{', '.join(wanted)}."
    )
    return Conflict(message, code="payment_intent_unexpected_state", payment_intent=intent)


def _charge(
    books: Books, intent: dict[str, Any], method: dict[str, Any], card: Card
) -> dict[str, Any]:
    captures = intent["capture_method"] != "manual"
    charge = _new_charge(books, intent, method)
    decline = charges.attempt(books, charge, card, captures=captures)
    intent["latest_charge"] = charge["id"]
    if decline is not None:
        raise _failed(books, intent, method, decline, charge["id"])
    intent |= {"last_payment_error": None, "next_action": None}
    if captures:
        intent |= {"status": "succeeded", "amount_received": intent["amount"]}
    else:
        intent |= {"status": "requires_capture", "amount_capturable": intent["amount"]}
    books.put("payment_intents", intent)
    happened = "succeeded" if captures else "amount_capturable_updated"
    books.tell(f"payment_intent.{happened}", intent)
    _keep_for_later(books, intent, method)
    return intent


def _new_charge(books: Books, intent: dict[str, Any], method: dict[str, Any]) -> dict[str, Any]:
    charge = charges.blank(books.new_id("ch_3"), intent["amount"], intent["currency"], books.at)
    for name in _HANDED_ON:
        charge[name] = intent[name]
    charge |= {"payment_intent": intent["id"], "payment_method": method["id"]}
    charge["billing_details"] = method["billing_details"]
    charge["payment_method_details"] = charges.details_of_method(method, intent["amount"])
    return charge


def _authenticate(
    books: Books, intent: dict[str, Any], method: dict[str, Any], params: Params
) -> dict[str, Any]:
    """Only a person at a browser can do what the bank wants, and nobody is there."""
    is_alone = params.given.get("off_session") not in (None, "", "false", "False")
    if is_alone or params.flag("error_on_requires_action"):
        raise _failed(books, intent, method, AUTHENTICATION, None)
    intent |= {"status": "requires_action", "payment_method": method["id"]}
    url = params.text("return_url")
    page = f"https://hooks.stripe.com/3d_secure_2/authenticate/{books.derived(intent['id'], 16)}"
    if url is None:
        intent["next_action"] = {"type": "use_stripe_sdk", "use_stripe_sdk": {
            "type": "three_d_secure_redirect", "stripe_js": page,
        }}  # fmt: skip
    else:
        redirect = {"return_url": url, "url": page}
        intent["next_action"] = {"type": "redirect_to_url", "redirect_to_url": redirect}
    books.put("payment_intents", intent)
    books.tell("payment_intent.requires_action", intent)
    return intent


def _failed(
    books: Books,
    intent: dict[str, Any],
    method: dict[str, Any],
    decline: Decline,
    charge: str | None,
) -> Exception:
    """Keeps the intent as a decline leaves it: it wants another method."""
    error = decline.error(charge=charge, payment_method=method)
    intent |= {"status": "requires_payment_method", "payment_method": None, "next_action": None}
    intent["last_payment_error"] = dict(error.error)
    books.put("payment_intents", intent)
    books.tell("payment_intent.payment_failed", intent)
    error.error["payment_intent"] = intent
    return error


def _keep_for_later(books: Books, intent: dict[str, Any], method: dict[str, Any]) -> None:
    customer = intent["customer"]
    if intent["setup_future_usage"] and customer and method["customer"] is None:
        method = {**method, "customer": customer}
        books.put("payment_methods", method)
        books.tell("payment_method.attached", method)
