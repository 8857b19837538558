"""Payment methods (cards): made from a test number or a well-known name, attached to customers and
detached."""

from __future__ import annotations

from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.cards import Card, behaviour, card_named, read_card
from paddock_services.payments.errors import Conflict, Refusal, missing
from paddock_services.payments.lists import list_documents, listing, retrieve
from paddock_services.payments.params import Params

EXPIRY = 12, 2034  # of cards that are made by name
_BILLING = ("address", "email", "name", "phone", "tax_id")
_STATE = "payment_method_unexpected_state"
_USED = (
    "This PaymentMethod was used without being attached to a Customer, or was detached from one, "
    "and may not be used again."
)


def new_method(account: Account, card: Card, month: int, year: int) -> Document:
    """Return a payment method for a card, not stored yet."""
    method = empty("payment_method", id=account.new_id("pm_1"), created=account.time)
    method["card"] |= {
        "brand": card.brand,
        "display_brand": card.brand,
        "exp_month": month,
        "exp_year": year,
        "fingerprint": account.derive(f"fingerprint/{card.number}", 16),
        "funding": card.funding,
        "last4": card.number[-4:],
        "networks": {"available": [card.brand], "preferred": None},
    }
    return method


def make_method(account: Account, params: Params) -> Document:
    """Return a payment method out of parameters, stored."""
    type = params.required("type")
    if type != "card":
        message = f"The payment method type {type[:40]!r} is not activated for this account."
        raise Refusal(
            message, code="payment_method_invalid_parameter", param=params.full_name("type")
        )
    table = params.table("card")
    token = table.text("token")
    if token is None:
        card, month, year = read_card(table, account.time)
    else:
        named_card = card_named(token)
        if named_card is None:
            raise missing("token", token, table.full_name("token"))
        card, month, year = named_card, *EXPIRY
    method = new_method(account, card, month, year)
    method["metadata"] = params.metadata()
    _write_billing(method, params)
    account.put("payment_methods", method)
    return method


def usable_method(account: Account, id: str, param: str, customer: str | None) -> Document:
    """Return the method that a payment is to be made with. A well-known name makes a new one."""
    card = card_named(id)
    if card is not None:
        method = new_method(account, card, *EXPIRY)
        account.put("payment_methods", method)
        return method
    method = account.reference("payment_methods", id, param)
    owner = method["customer"]
    if owner is None and _is_spent(account, id):
        raise Refusal(_USED, code=_STATE, param=param)
    if owner is not None and customer is None:
        message = f"The PaymentMethod {id} belongs to the Customer {owner}: name it in `customer`."
        raise Refusal(message, param=param)
    if owner is not None and owner != customer:
        message = f"The customer does not have a payment method with the ID {id}."
        raise Refusal(message, code="resource_missing", param=param)
    return method


def attach_method(account: Account, id: str, customer: str) -> Document:
    """Give a method to a customer. A card that declines everything is declined here too."""
    account.reference("customers", customer, "customer")
    named = card_named(id)
    if named is None:
        method = account.fetch("payment_methods", id)
    else:
        method = new_method(account, named, *EXPIRY)
    if method["customer"] == customer:
        return method
    if method["customer"] is not None:
        message = "The payment method you provided has already been attached to a customer."
        raise Conflict(message, code=_STATE)
    if _is_spent(account, method["id"]):
        raise Conflict(_USED, code=_STATE)
    card = behaviour(method["card"])
    if card.decline is not None and not card.can_attach:
        raise card.decline.error(payment_method=method)
    method["customer"] = customer
    return account.save("payment_methods", "payment_method.attached", method)


def _is_spent(account: Account, id: str) -> bool:
    """Return whether a method that belongs to nobody has had its one use."""
    if account.store.has("detached", id):
        return True
    where = {"payment_method": id, "status": "succeeded"}
    return bool(account.store.find("charges", where, limit=1))


def _write_billing(method: Document, params: Params) -> None:
    table = params.table("billing_details")
    table.refuse_unknown(_BILLING)
    readers = {"address": Params.address, "email": Params.email}
    changes = {name: readers.get(name, Params.text)(table, name) for name in table.values}
    method["billing_details"] = {**method["billing_details"], **changes}


def _create(account: Account, request: PaymentRequest) -> Document:
    return make_method(account, request.params)


def _attach(account: Account, request: PaymentRequest) -> Document:
    return attach_method(account, request.id, request.params.required("customer"))


def _detach(account: Account, request: PaymentRequest) -> Document:
    before = account.fetch("payment_methods", request.id)
    if before["customer"] is None:
        message = "The payment method you provided is not attached to a customer."
        raise Conflict(message, code=_STATE)
    account.store.put("detached", request.id, {"id": request.id})
    customer = account.find("customers", before["customer"])
    settings = (customer or {}).get("invoice_settings", {})
    if customer is not None and settings.get("default_payment_method") == request.id:
        settings["default_payment_method"] = None
        account.put("customers", customer)
    method = {**before, "customer": None}
    return account.update("payment_methods", "payment_method.detached", before, method)


def _update(account: Account, request: PaymentRequest) -> Document:
    before = account.fetch("payment_methods", request.id)
    if before["customer"] is None:
        message = "You must save this PaymentMethod to a customer before you can update it."
        raise Conflict(message, code=_STATE)
    request.params.refuse_unsupported("card")
    method = {**before, "metadata": request.params.metadata(before["metadata"])}
    _write_billing(method, request.params)
    return account.update("payment_methods", "payment_method.updated", before, method)


def _list_of_customer(account: Account, request: PaymentRequest) -> Document:
    account.fetch("customers", request.id)
    where = {"customer": request.id, "type": request.params.id("type") or "card"}
    return list_documents(account, request, "payment_methods", where)


OPERATIONS = [
    Operation("POST", "payment_methods", _create),
    Operation("GET", "payment_methods", listing("payment_methods", "customer", "type")),
    Operation("GET", "payment_methods/{id}", retrieve("payment_methods")),
    Operation("POST", "payment_methods/{id}", _update),
    Operation("POST", "payment_methods/{id}/attach", _attach),
    Operation("POST", "payment_methods/{id}/detach", _detach),
    Operation("GET", "customers/{id}/payment_methods", _list_of_customer),
]
