"""Payment methods (cards): made from a test number, a token or a well-known name, attached to
customers and detached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock_services.payments import cards
from paddock_services.payments.books import Books
from paddock_services.payments.cards import Card
from paddock_services.payments.errors import Conflict, Refusal, missing
from paddock_services.payments.lists import PAGING, answer, listing
from paddock_services.payments.params import Params
from paddock_services.payments.routes import Asked, Route, route

_COUNTRY = "US"
_EXPIRY = 12, 2034  # of cards that are made by name
_BILLING = ("address", "email", "name", "phone", "tax_id")
_CREATE = ("allow_redisplay", "billing_details", "card", "customer", "metadata", "payment_method",
           "radar_options", "type")  # fmt: skip
_UPDATE = ("allow_redisplay", "billing_details", "card", "metadata", "payto", "us_bank_account")
_USED = (
    "This PaymentMethod was used without being attached to a Customer, or was detached from one, "
    "and may not be used again."
)


def create(books: Books, asked: Asked) -> dict[str, Any]:
    method = make(books, asked.params)
    books.put("payment_methods", method)
    return method


def make(books: Books, params: Params) -> dict[str, Any]:
    """A new payment method out of parameters, not kept yet."""
    params.require("type")
    type = params.text("type")
    if type != "card":
        message = f"The payment method type {str(type)[:40]!r} is not activated for this account."
        raise Refusal(message, code="payment_method_invalid_parameter", param=params.full("type"))
    table = params.table("card")
    if "token" in table:
        card, month, year = _of_token(books, table.text("token") or "", table.full("token"))
    else:
        card, month, year = cards.read_card(table, books.at)
    method = new_method(books, card, month, year)
    method["billing_details"] = billing_details(params)
    method["metadata"] = params.metadata()
    method["allow_redisplay"] = params.text("allow_redisplay") or "unspecified"
    return method


def new_method(books: Books, card: Card, month: int, year: int) -> dict[str, Any]:
    return {
        "id": books.new_id("pm_1"), "object": "payment_method", "allow_redisplay": "unspecified",
        "billing_details": dict.fromkeys(_BILLING) | {"address": empty_address()},
        "card": card_details(books, card, month, year), "created": books.at, "customer": None,
        "livemode": False, "metadata": {}, "type": "card",
    }  # fmt: skip


def card_details(books: Books, card: Card, month: int, year: int) -> dict[str, Any]:
    return {
        "brand": card.brand,
        "checks": {
            "address_line1_check": None, "address_postal_code_check": None, "cvc_check": "pass",
        },
        "country": _COUNTRY, "display_brand": card.brand, "exp_month": month, "exp_year": year,
        "fingerprint": books.derived(f"fingerprint/{card.number}", 16), "funding": card.funding,
        "generated_from": None, "last4": card.number[-4:],
        "networks": {"available": [card.brand], "preferred": None},
        "regulated_status": "unregulated",
        "three_d_secure_usage": {"supported": True}, "wallet": None,
    }  # fmt: skip


def empty_address() -> dict[str, None]:
    return dict.fromkeys(("city", "country", "line1", "line2", "postal_code", "state"))


def billing_details(params: Params) -> dict[str, Any]:
    table = params.table("billing_details")
    table.refuse_unknown(_BILLING)
    return {
        "address": table.address("address") or empty_address(),
        "email": table.email("email"),
        "name": table.text("name"),
        "phone": table.text("phone"),
        "tax_id": table.text("tax_id"),
    }


def usable(books: Books, id: str, param: str, customer: str | None) -> dict[str, Any]:
    """The method that a payment is to be made with. A well-known name makes a new one."""
    card = cards.named(id, "pm_card_")
    if card is not None:
        method = new_method(books, card, *_EXPIRY)
        books.put("payment_methods", method)
        return method
    method = books.named("payment_methods", id, param)
    owner = method["customer"]
    if owner is None and is_spent(books, id):
        raise Refusal(_USED, code="payment_method_unexpected_state", param=param)
    if owner is not None and customer is None:
        message = f"The PaymentMethod {id} belongs to the Customer {owner}: name it in `customer`."
        raise Refusal(message, param=param)
    if owner is not None and owner != customer:
        message = f"The customer does not have a payment method with the ID {id}."
        raise Refusal(message, code="resource_missing", param=param)
    return method


def is_spent(books: Books, id: str) -> bool:
    """Whether a method that belongs to nobody has had its one use."""
    if books.store.has("detached", id):
        return True
    where = {"payment_method": id, "status": "succeeded"}
    return bool(books.store.find("charges", where, limit=1))


def attach(books: Books, asked: Asked) -> dict[str, Any]:
    asked.params.require("customer")
    customer = asked.params.text("customer") or ""
    return attach_to(books, asked.id, customer)


def attach_to(books: Books, id: str, customer: str) -> dict[str, Any]:
    """Gives a method to a customer. Cards that decline everything are declined here too."""
    books.named("customers", customer, "customer")
    method = _at_address(books, id)
    if method["customer"] == customer:
        return method
    if method["customer"] is not None:
        raise Conflict(
            "The payment method you provided has already been attached to a customer.",
            code="payment_method_unexpected_state",
        )
    if is_spent(books, method["id"]):
        raise Conflict(_USED, code="payment_method_unexpected_state")
    card = cards.behaviour(method["card"])
    if card.decline is not None and not card.can_attach:
        raise card.decline.error(payment_method=method)
    method["customer"] = customer
    books.put("payment_methods", method)
    books.tell("payment_method.attached", method)
    return method


def detach(books: Books, asked: Asked) -> dict[str, Any]:
    method = books.at_address("payment_methods", asked.id)
    if method["customer"] is None:
        raise Conflict(
            "The payment method you provided is not attached to a customer so detachment is "
            "impossible.",
            code="payment_method_unexpected_state",
        )
    before = dict(method)
    method["customer"] = None
    books.store.put("detached", method["id"], {"id": method["id"]})
    _forget_default(books, before["customer"], method["id"])
    books.changed("payment_methods", "payment_method.detached", before, method)
    return method


def update(books: Books, asked: Asked) -> dict[str, Any]:
    before = books.at_address("payment_methods", asked.id)
    if before["customer"] is None:
        message = "You must save this PaymentMethod to a customer before you can update it."
        raise Conflict(message, code="payment_method_unexpected_state")
    params, method = asked.params, {**before, "card": dict(before["card"])}
    if "billing_details" in params:
        given = billing_details(params)
        table = params.table("billing_details")
        method["billing_details"] = before["billing_details"] | {n: given[n] for n in table.given}
    table = params.table("card")
    table.refuse_unknown(("exp_month", "exp_year", "networks"))
    for name in ("exp_month", "exp_year"):
        if name in table:
            method["card"][name] = table.whole(name, least=1)
    method["allow_redisplay"] = params.text("allow_redisplay") or before["allow_redisplay"]
    method["metadata"] = params.metadata(before["metadata"])
    books.changed("payment_methods", "payment_method.updated", before, method)
    return method


def retrieve(books: Books, asked: Asked) -> dict[str, Any]:
    return books.at_address("payment_methods", asked.id)


def of_customer(books: Books, asked: Asked) -> dict[str, Any]:
    customer = books.at_address("customers", asked.id)
    where = {"customer": customer["id"]} | _type(asked.params)
    return answer(books, asked, "payment_methods", where)


def one_of_customer(books: Books, asked: Asked) -> dict[str, Any]:
    books.at_address("customers", asked.id)
    method = books.at_address("payment_methods", asked.ids[1])
    if method["customer"] != asked.id:
        raise missing("PaymentMethod", method["id"], "payment_method", status=404)
    return method


def _type(params: Params) -> dict[str, str]:
    type = params.filled("type")
    return {} if type is None else {"type": type}


def _at_address(books: Books, id: str) -> dict[str, Any]:
    card = cards.named(id, "pm_card_")
    if card is None:
        return books.at_address("payment_methods", id)
    return new_method(books, card, *_EXPIRY)


def _of_token(books: Books, id: str, param: str) -> tuple[Card, int, int]:
    card = cards.named(id, "tok_")
    if card is not None:
        return card, *_EXPIRY
    details = spend_token(books, id, param)
    return cards.behaviour(details), details["exp_month"], details["exp_year"]


def spend_token(books: Books, id: str, param: str) -> Mapping[str, Any]:
    """The card of a token, which can be used once."""
    found = books.named("tokens", id, param)
    if found["used"]:
        message = f"You cannot use a token more than once: {id}."
        raise Refusal(message, code="token_already_used", param=param)
    books.put("tokens", {**found, "used": True})
    details: Mapping[str, Any] = found["card"]
    return details


def _forget_default(books: Books, customer: str, id: str) -> None:
    found = books.get("customers", customer)
    if found and found.get("invoice_settings", {}).get("default_payment_method") == id:
        found["invoice_settings"]["default_payment_method"] = None
        books.put("customers", found)


ROUTES: list[Route] = [
    route("POST", "payment_methods", create, _CREATE),
    route("GET", "payment_methods", listing("payment_methods", "customer", "type"),
          {"customer", "type", "allow_redisplay", "customer_account"} | PAGING),
    route("GET", "payment_methods/{}", retrieve),
    route("POST", "payment_methods/{}", update, _UPDATE),
    route("POST", "payment_methods/{}/attach", attach, ("customer", "customer_account")),
    route("POST", "payment_methods/{}/detach", detach),
    route("GET", "customers/{}/payment_methods", of_customer, {"type", "allow_redisplay"} | PAGING),
    route("GET", "customers/{}/payment_methods/{}", one_of_customer),
]  # fmt: skip
