"""Customers."""

from __future__ import annotations

from collections.abc import Mapping

from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.lists import listing, retrieve
from paddock_services.payments.params import Params, Reader
from paddock_services.payments.payment_methods import attach_method
from paddock_services.payments.search import searching

_TAX_EXEMPT = ("none", "exempt", "reverse")
_ATTACHING = {"payment_method", "source", "invoice_settings"}
_SETTINGS = ("custom_fields", "default_payment_method", "footer", "rendering_options")
_READERS: Mapping[str, Reader] = {
    "address": Params.address,
    "balance": lambda params, name: params.integer(name) or 0,
    "description": Params.text,
    "email": Params.email,
    "name": Params.text,
    "phone": Params.text,
    "preferred_locales": Params.texts,
    "shipping": Params.shipping,
    "tax_exempt": lambda params, name: params.choice(name, _TAX_EXEMPT) or "none",
}


def new_customer(account: Account, id: str, created: int) -> Document:
    """Return a customer of whom nothing is known."""
    prefix = account.derive(f"prefix/{id}", 8).upper()
    return empty("customer", id=id, created=created, invoice_prefix=prefix)


def _create(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    customer = new_customer(account, account.new_id("cus_", 14), account.time)
    params.write_into(customer, _READERS)
    if not _ATTACHING.isdisjoint(params.values):
        account.put("customers", customer)  # a method is only attached to one that is there
    if method := params.id("payment_method"):
        attach_method(account, method, customer["id"])
    _write_settings(account, customer, params)
    return account.save("customers", "customer.created", customer)


def _update(account: Account, request: PaymentRequest) -> Document:
    before = account.fetch_live("customers", request.id)
    customer = dict(before)
    request.params.write_into(customer, _READERS)
    _write_settings(account, customer, request.params)
    return account.update("customers", "customer.updated", before, customer)


def _delete(account: Account, request: PaymentRequest) -> Document:
    """Delete a customer. What is left can still be retrieved, and says that it is deleted."""
    before = account.fetch_live("customers", request.id)
    for method in account.store.find("payment_methods", {"customer": request.id}):
        account.store.put("detached", method["id"], {"id": method["id"]})
        account.put("payment_methods", {**method, "customer": None})
    gone = {"id": request.id, "object": "customer", "deleted": True}
    account.put("customers", gone)
    account.record_event("customer.deleted", before)
    return gone


def _write_settings(account: Account, customer: Document, params: Params) -> None:
    """Write the default payment method; `source` is how older programs name it."""
    params.refuse_unsupported("default_source", "invoice_prefix", "next_invoice_sequence")
    settings = params.table("invoice_settings")
    settings.refuse_unknown(_SETTINGS)
    if "default_payment_method" not in settings and "source" not in params:
        return
    default = settings.text("default_payment_method") or params.id("source")
    if default is not None:
        default = attach_method(account, default, customer["id"])["id"]
    kept = customer["invoice_settings"]
    customer["invoice_settings"] = {**kept, "default_payment_method": default}


OPERATIONS = [
    Operation("POST", "customers", _create),
    Operation("GET", "customers", listing("customers", "email")),
    Operation("GET", "customers/search", searching("customers")),
    Operation("GET", "customers/{id}", retrieve("customers")),
    Operation("POST", "customers/{id}", _update),
    Operation("DELETE", "customers/{id}", _delete),
]
