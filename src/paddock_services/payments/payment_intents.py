"""Payment intents, from their making to the end.

    requires_payment_method --method--> requires_confirmation --confirm--> succeeded
            ^                                   |    |
            +------------- declined ------------+    +--> requires_action (nobody is there to act)
                                                     +--> requires_capture --capture--> succeeded

All but a succeeded one can be canceled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.cards import AUTHENTICATION, Card, Decline, behaviour
from paddock_services.payments.charges import attempt, capture_charge, new_charge, write_method
from paddock_services.payments.errors import Conflict, Declined, Refusal
from paddock_services.payments.lists import listing, retrieve
from paddock_services.payments.money import check_amount, format_money
from paddock_services.payments.params import Params, Reader
from paddock_services.payments.payment_methods import make_method, usable_method
from paddock_services.payments.refunds import refundable, release
from paddock_services.payments.search import searching

_OPEN = ("requires_payment_method", "requires_confirmation", "requires_action")
_CANCELABLE = (*_OPEN, "requires_capture", "processing")
_STATE = "payment_intent_unexpected_state"
# What cannot be changed any more once the money was asked for.
_TERMS = ("amount", "currency", "customer", "payment_method", "payment_method_data",
          "capture_method", "setup_future_usage")  # fmt: skip
_CAPTURE_METHODS = ("automatic", "automatic_async", "manual")
_USAGES = ("off_session", "on_session")
_REASONS = ("duplicate", "fraudulent", "requested_by_customer", "abandoned")
_READERS: Mapping[str, Reader] = {
    "capture_method": lambda params, name: params.choice(name, _CAPTURE_METHODS) or "automatic",
    "description": lambda params, name: params.text(name, 1000),
    "receipt_email": Params.email,
    "setup_future_usage": lambda params, name: params.choice(name, _USAGES),
    "shipping": Params.shipping,
    "statement_descriptor": lambda params, name: params.text(name, 22),
    "statement_descriptor_suffix": lambda params, name: params.text(name, 22),
    "transfer_group": Params.text,
}
# What a charge takes over from its intent.
_HANDED_ON = ("customer", "description", "metadata", "receipt_email", "shipping",
              "statement_descriptor", "statement_descriptor_suffix", "transfer_group")  # fmt: skip


def new_intent(
    account: Account, amount: int, currency: str, *, id: str | None = None, created: int = 0
) -> Document:
    """Return an intent that has no method yet. It is not stored yet."""
    id = id or account.new_id("pi_3")
    intent = empty("payment_intent", id=id, amount=amount, currency=currency)
    intent["created"] = created or account.time
    intent["client_secret"] = f"{id}_secret_{account.derive(f'secret/{id}', 25)}"
    return intent


def pay(account: Account, intent: Document, method: Document | None, params: Params) -> Document:
    """Try to pay. Raises Declined when the bank says no; the intent is stored as that leaves it."""
    if method is None and intent["payment_method"] is not None:
        id, customer = intent["payment_method"], intent["customer"]
        method = usable_method(account, id, "payment_method", customer)
    if method is None:
        message = (
            "You cannot confirm this PaymentIntent because it's missing a payment method. Update "
            "it with one, or give one with the confirmation."
        )
        raise Conflict(message, code=_STATE, payment_intent=intent)
    intent["payment_method"] = method["id"]
    card = behaviour(method["card"])
    if card.wants_authentication:
        return _ask_for_authentication(account, intent, method, params)
    return _charge(account, intent, method, card)


def _charge(account: Account, intent: Document, method: Document, card: Card) -> Document:
    charge = new_charge(account.new_id("ch_3"), intent["amount"], intent["currency"], account.time)
    charge |= {name: intent[name] for name in _HANDED_ON}
    charge["payment_intent"] = intent["id"]
    write_method(charge, method)
    captures = intent["capture_method"] != "manual"
    decline = attempt(account, charge, card, captures=captures)
    intent["latest_charge"] = charge["id"]
    if decline is not None:
        raise _fail(account, intent, method, decline, charge["id"])
    intent |= {"last_payment_error": None, "next_action": None}
    if captures:
        intent |= {"status": "succeeded", "amount_received": intent["amount"]}
        account.save("payment_intents", "payment_intent.succeeded", intent)
    else:
        intent |= {"status": "requires_capture", "amount_capturable": intent["amount"]}
        account.save("payment_intents", "payment_intent.amount_capturable_updated", intent)
    if intent["setup_future_usage"] and intent["customer"] and method["customer"] is None:
        attached = {**method, "customer": intent["customer"]}
        account.save("payment_methods", "payment_method.attached", attached)
    return intent


def _ask_for_authentication(
    account: Account, intent: Document, method: Document, params: Params
) -> Document:
    """Leave the intent waiting: only a person at a browser could do what the bank wants."""
    is_off_session = params.values.get("off_session") not in (None, "", "false", "False")
    if is_off_session or params.boolean("error_on_requires_action"):
        raise _fail(account, intent, method, AUTHENTICATION, None)
    page = f"https://hooks.stripe.com/3d_secure_2/authenticate/{account.derive(intent['id'], 16)}"
    return_url = params.text("return_url")
    if return_url is None:
        sdk = {"type": "three_d_secure_redirect", "stripe_js": page}
        intent["next_action"] = {"type": "use_stripe_sdk", "use_stripe_sdk": sdk}
    else:
        redirect = {"return_url": return_url, "url": page}
        intent["next_action"] = {"type": "redirect_to_url", "redirect_to_url": redirect}
    intent["status"] = "requires_action"
    return account.save("payment_intents", "payment_intent.requires_action", intent)


def _fail(
    account: Account, intent: Document, method: Document, decline: Decline, charge: str | None
) -> Declined:
    """Store the intent as a decline leaves it: it wants another method. Return the error."""
    error = decline.error(charge=charge, payment_method=method)
    intent |= {"status": "requires_payment_method", "payment_method": None, "next_action": None}
    intent["last_payment_error"] = dict(error.error)
    account.save("payment_intents", "payment_intent.payment_failed", intent)
    error.error["payment_intent"] = intent
    return error


def choose_method(account: Account, intent: Document, params: Params) -> Document | None:
    """Make the method that the request names or describes, if any, the intent's."""
    id = params.id("payment_method")
    if id is not None:
        method = usable_method(account, id, "payment_method", intent["customer"])
    elif "payment_method_data" in params:
        method = make_method(account, params.table("payment_method_data"))
    else:
        return None
    intent |= {"payment_method": method["id"], "status": "requires_confirmation"}
    intent["next_action"] = None
    return method


def _create(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    params.required("amount")
    currency = params.currency()
    intent = new_intent(account, params.amount(currency), currency)
    params.write_into(intent, _READERS)
    _write_method_types(intent, params)
    _write_customer(account, intent, params)
    is_confirmed = params.boolean("confirm")
    for name in ("off_session", "error_on_requires_action", "return_url", "mandate_data"):
        if name in params and not is_confirmed:
            message = f"`{name}` can only be given together with confirm=true."
            raise Refusal(message, code="parameter_missing", param="confirm")
    method = choose_method(account, intent, params)
    account.record_event("payment_intent.created", intent)
    if is_confirmed:
        return pay(account, intent, method, params)
    account.put("payment_intents", intent)
    return intent


def _update(account: Account, request: PaymentRequest) -> Document:
    before, params = account.fetch("payment_intents", request.id), request.params
    for name in _TERMS:
        if name in params and before["status"] not in _OPEN:
            raise _unexpected_state(before, f"updated ({name})", _OPEN)
    intent = dict(before)
    params.write_into(intent, _READERS)
    if "currency" in params:
        intent["currency"] = params.currency()
    if "amount" in params:
        intent["amount"] = params.amount(intent["currency"])
    check_amount(intent["amount"], intent["currency"])
    _write_customer(account, intent, params)
    choose_method(account, intent, params)
    if intent != before:
        account.put("payment_intents", intent)
    return intent


def _write_customer(account: Account, intent: Document, params: Params) -> None:
    customer = params.id("customer")
    if customer is None:
        return
    if intent["customer"] not in (None, customer):
        raise Refusal("The customer of a PaymentIntent cannot be changed.", param="customer")
    intent["customer"] = account.reference("customers", customer, "customer")["id"]


def _write_method_types(intent: Document, params: Params) -> None:
    types = params.texts("payment_method_types")
    automatic = params.table("automatic_payment_methods")
    automatic.refuse_unknown(("enabled", "allow_redirects"))
    is_automatic = automatic.boolean("enabled")
    if types and is_automatic:
        raise Refusal(
            "You may only specify one of these parameters: automatic_payment_methods, "
            "payment_method_types."
        )
    if types and "card" not in types:
        message = f"The payment method type {types[0][:40]!r} is not activated here; cards are."
        raise Refusal(
            message, code="payment_intent_invalid_parameter", param="payment_method_types"
        )
    if types:
        intent["payment_method_types"] = types
    elif is_automatic is not False:
        redirects = automatic.choice("allow_redirects", ("always", "never")) or "always"
        intent["automatic_payment_methods"] = {"allow_redirects": redirects, "enabled": True}


def _confirm(account: Account, request: PaymentRequest) -> Document:
    intent, params = account.fetch("payment_intents", request.id), request.params
    if intent["status"] not in _OPEN:
        raise _unexpected_state(intent, "confirmed", _OPEN)
    method = choose_method(account, intent, params)
    params.write_into(intent, _READERS)
    return pay(account, intent, method, params)


def _capture(account: Account, request: PaymentRequest) -> Document:
    intent, params = account.fetch("payment_intents", request.id), request.params
    if intent["status"] != "requires_capture":
        raise _unexpected_state(intent, "captured", ("requires_capture",))
    most = intent["amount_capturable"]
    amount = params.integer("amount_to_capture", least=1) or most
    if amount > most:
        shown = format_money(most, intent["currency"])
        message = f"The amount to capture is greater than what can be captured ({shown})."
        raise Refusal(message, code="amount_too_large", param="amount_to_capture")
    capture_charge(account, account.fetch("charges", intent["latest_charge"]), amount)
    intent |= {"status": "succeeded", "amount_capturable": 0, "amount_received": amount}
    intent["metadata"] = params.metadata(intent["metadata"])
    return account.save("payment_intents", "payment_intent.succeeded", intent)


def _cancel(account: Account, request: PaymentRequest) -> Document:
    intent = account.fetch("payment_intents", request.id)
    if intent["status"] not in _CANCELABLE:
        raise _unexpected_state(intent, "canceled", _CANCELABLE)
    reason = request.params.choice("cancellation_reason", _REASONS)
    if intent["status"] == "requires_capture":
        before = account.fetch("charges", intent["latest_charge"])
        charge = dict(before)
        release(account, charge, refundable(charge))
        account.update("charges", "charge.refunded", before, charge)
    intent |= {"status": "canceled", "canceled_at": account.time, "cancellation_reason": reason}
    intent |= {"amount_capturable": 0, "next_action": None}
    return account.save("payment_intents", "payment_intent.canceled", intent)


def _unexpected_state(intent: Document, verb: str, allowed: Sequence[str]) -> Conflict:
    message = (
        f"This PaymentIntent could not be {verb} because it has a status of {intent['status']}. "
        f"Only a PaymentIntent with one of the following statuses may be {verb}: "
        f"{', '.join(allowed)}."
    )
    return Conflict(message, code=_STATE, payment_intent=intent)


OPERATIONS = [
    Operation("POST", "payment_intents", _create),
    Operation("GET", "payment_intents", listing("payment_intents", "customer")),
    Operation("GET", "payment_intents/search", searching("payment_intents")),
    Operation("GET", "payment_intents/{id}", retrieve("payment_intents")),
    Operation("POST", "payment_intents/{id}", _update),
    Operation("POST", "payment_intents/{id}/confirm", _confirm),
    Operation("POST", "payment_intents/{id}/capture", _capture),
    Operation("POST", "payment_intents/{id}/cancel", _cancel),
]
