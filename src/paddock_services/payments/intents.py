"""Payment intents: made, looked at, changed. How they move on is in `confirming`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock_services.payments import confirming
from paddock_services.payments.books import Books
from paddock_services.payments.confirming import unexpected
from paddock_services.payments.currency import amount_of, currency_of
from paddock_services.payments.errors import Refusal
from paddock_services.payments.lists import PAGING, listing
from paddock_services.payments.params import Params, Reader, write_into
from paddock_services.payments.routes import Asked, Route, route

_OPEN = ("requires_payment_method", "requires_confirmation", "requires_action")
_TERMS = ("amount", "currency", "customer", "payment_method", "payment_method_data",
          "capture_method", "setup_future_usage")  # fmt: skip
_CAPTURE_METHODS = ("automatic", "automatic_async", "manual")
_READERS: Mapping[str, Reader] = {
    "application_fee_amount": lambda params, name: params.whole(name, least=0),
    "capture_method": lambda params, name: params.one_of(name, _CAPTURE_METHODS) or "automatic",
    "confirmation_method": lambda params, name: params.one_of(name, ("automatic", "manual")) or "automatic",  # noqa: E501
    "description": lambda params, name: params.text(name, 1000),
    "on_behalf_of": Params.text,
    "receipt_email": Params.email,
    "setup_future_usage": lambda params, name: params.one_of(name, ("off_session", "on_session")),
    "shipping": Params.shipping,
    "statement_descriptor": lambda params, name: params.text(name, 22),
    "statement_descriptor_suffix": lambda params, name: params.text(name, 22),
    "transfer_data": Params.anything,
    "transfer_group": Params.text,
}  # fmt: skip
_CREATE = {*_READERS, "allowed_payment_method_types", "amount", "amount_details",
           "automatic_payment_methods", "confirm", "confirmation_token", "currency", "customer",
           "customer_account", "error_on_requires_action", "excluded_payment_method_types",
           "hooks", "mandate", "mandate_data", "metadata", "off_session", "payment_details",
           "payment_method", "payment_method_configuration", "payment_method_data",
           "payment_method_options", "payment_method_types", "radar_options", "return_url",
           "use_stripe_sdk"}  # fmt: skip
_UPDATE = _CREATE - {"confirm", "confirmation_method", "confirmation_token", "on_behalf_of",
                     "automatic_payment_methods", "error_on_requires_action", "off_session",
                     "mandate", "mandate_data", "radar_options", "return_url",
                     "use_stripe_sdk"}  # fmt: skip


def blank(books: Books, id: str, amount: int, currency: str, created: int) -> dict[str, Any]:
    return {
        "id": id, "object": "payment_intent", "amount": amount, "amount_capturable": 0,
        "amount_details": {"tip": {}}, "amount_received": 0, "application": None,
        "application_fee_amount": None, "automatic_payment_methods": None, "canceled_at": None,
        "cancellation_reason": None, "capture_method": "automatic_async",
        "client_secret": f"{id}_secret_{books.derived(f'secret/{id}', 25)}",
        "confirmation_method": "automatic", "created": created, "currency": currency,
        "customer": None, "description": None, "last_payment_error": None, "latest_charge": None,
        "livemode": False, "metadata": {}, "next_action": None, "on_behalf_of": None,
        "payment_method": None, "payment_method_configuration_details": None,
        "payment_method_options": {"card": {
            "installments": None, "mandate_options": None, "network": None,
            "request_three_d_secure": "automatic",
        }}, "payment_method_types": ["card"], "processing": None, "receipt_email": None,
        "review": None, "setup_future_usage": None, "shipping": None, "source": None,
        "statement_descriptor": None, "statement_descriptor_suffix": None,
        "status": "requires_payment_method", "transfer_data": None, "transfer_group": None,
    }  # fmt: skip


def create(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    params.require("amount")
    currency = currency_of(params)
    amount = amount_of(params, currency)
    intent = blank(books, books.new_id("pi_3"), amount, currency, books.at)
    write_into(intent, params, _READERS)
    intent["metadata"] = params.metadata()
    _ways_to_pay(intent, params)
    if customer := params.filled("customer"):
        intent["customer"] = books.named("customers", customer, "customer")["id"]
    _only_with_confirm(params)
    method = confirming.choose_method(books, intent, params)
    books.tell("payment_intent.created", intent)
    if params.flag("confirm"):
        return confirming.go(books, intent, method, params)
    books.put("payment_intents", intent)
    return intent


def retrieve(books: Books, asked: Asked) -> dict[str, Any] | str:
    return asked.kept(books, "payment_intents")


def update(books: Books, asked: Asked) -> dict[str, Any]:
    before, params = books.at_address("payment_intents", asked.id), asked.params
    if before["status"] not in _OPEN:
        for name in _TERMS:
            if name in params:
                raise unexpected(before, f"updated ({name})", _OPEN)
    intent = dict(before)
    write_into(intent, params, _READERS)
    if "currency" in params:
        intent["currency"] = currency_of(params)
    if "amount" in params or "currency" in params:
        given = Params({"amount": str(before["amount"]), **params.given})
        intent["amount"] = amount_of(given, intent["currency"])
    if customer := params.filled("customer"):
        if before["customer"] not in (None, customer):
            message = "The customer of a PaymentIntent cannot be changed."
            raise Refusal(message, param="customer")
        intent["customer"] = books.named("customers", customer, "customer")["id"]
    intent["metadata"] = params.metadata(before["metadata"])
    confirming.choose_method(books, intent, params)
    if intent != before:
        books.put("payment_intents", intent)
    return intent


def _ways_to_pay(intent: dict[str, Any], params: Params) -> None:
    types = params.texts("payment_method_types")
    table = params.table("automatic_payment_methods")
    table.refuse_unknown(("enabled", "allow_redirects"))
    if types and table.flag("enabled"):
        message = "You may only specify one of these parameters: automatic_payment_methods, payment_method_types."  # noqa: E501
        raise Refusal(message)
    if types:
        if "card" not in types:
            message = f"The payment method type {types[0][:40]!r} is not activated here; cards are."
            raise Refusal(message, code="payment_intent_invalid_parameter", param="payment_method_types")  # fmt: skip  # noqa: E501
        intent["payment_method_types"] = types
    elif table.flag("enabled") is not False:
        redirects = table.one_of("allow_redirects", ("always", "never")) or "always"
        intent["automatic_payment_methods"] = {"allow_redirects": redirects, "enabled": True}


def _only_with_confirm(params: Params) -> None:
    if params.flag("confirm"):
        return
    for name in ("off_session", "error_on_requires_action", "return_url", "mandate_data"):
        if name in params:
            message = f"`{name}` can only be given together with confirm=true."
            raise Refusal(message, code="parameter_missing", param="confirm")


_FIELDS = ("customer",)
_INTENT = "payment_intents/{}"
ROUTES: list[Route] = [
    route("POST", "payment_intents", create, _CREATE),
    route("GET", "payment_intents", listing("payment_intents", *_FIELDS),
          {*_FIELDS, "created", "customer_account"} | PAGING),
    route("GET", _INTENT, retrieve, ("client_secret",)),
    route("POST", _INTENT, update, _UPDATE),
    route("POST", f"{_INTENT}/confirm", confirming.confirm, confirming.CONFIRM),
    route("POST", f"{_INTENT}/capture", confirming.capture, confirming.CAPTURE),
    route("POST", f"{_INTENT}/cancel", confirming.cancel, ("cancellation_reason",)),
]  # fmt: skip
