"""Customers, and the cards that older programs keep with them as sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock_services.payments import sources
from paddock_services.payments.books import Books, refuse_deleted
from paddock_services.payments.lists import PAGING, listing
from paddock_services.payments.params import Params, Reader, write_into
from paddock_services.payments.payment_methods import attach_to
from paddock_services.payments.routes import Asked, Route, route

_TAX_EXEMPT = ("none", "exempt", "reverse")
_READERS: Mapping[str, Reader] = {
    "address": Params.address,
    "balance": lambda params, name: params.whole(name) or 0,
    "description": Params.text,
    "email": Params.email,
    "invoice_prefix": Params.text,
    "name": Params.text,
    "phone": Params.text,
    "preferred_locales": lambda params, name: params.texts(name),
    "shipping": Params.shipping,
    "tax_exempt": lambda params, name: params.one_of(name, _TAX_EXEMPT) or "none",
}
_CREATE = {*_READERS, "business_name", "cash_balance", "individual_name", "invoice_settings",
           "metadata", "next_invoice_sequence", "payment_method", "source", "tax", "tax_id_data",
           "test_clock", "validate"}  # fmt: skip
_UPDATE = (_CREATE - {"payment_method", "tax_id_data", "test_clock"}) | {
    "default_source", "default_alipay_account", "default_bank_account", "default_card"
}  # fmt: skip

_LOOK_IT_UP = {"payment_method", "source", "invoice_settings"}  # so it has to be there already


def blank(books: Books, id: str, created: int) -> dict[str, Any]:
    """A customer of whom nothing is known."""
    return {
        "id": id, "object": "customer", "address": None, "balance": 0, "created": created,
        "currency": None, "default_source": None, "delinquent": False, "description": None,
        "discount": None, "email": None,
        "invoice_prefix": books.derived(f"prefix/{id}", 8).upper(),
        "invoice_settings": _no_settings(), "livemode": False, "metadata": {}, "name": None,
        "next_invoice_sequence": 1, "phone": None, "preferred_locales": [], "shipping": None,
        "tax_exempt": "none", "test_clock": None,
    }  # fmt: skip


def create(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    customer = blank(books, books.new_id("cus_", 14), books.at)
    write_into(customer, params, _READERS)
    customer["metadata"] = params.metadata()
    if not _LOOK_IT_UP.isdisjoint(params.given):
        books.put("customers", customer)
    if method := params.filled("payment_method"):
        attach_to(books, method, customer["id"])
    _settings_and_source(books, customer, params)
    books.put("customers", customer)
    books.tell("customer.created", customer)
    return customer


def retrieve(books: Books, asked: Asked) -> dict[str, Any] | str:
    return asked.kept(books, "customers")


def update(books: Books, asked: Asked) -> dict[str, Any]:
    before = books.at_address("customers", asked.id)
    refuse_deleted(before, "customers")
    customer, params = dict(before), asked.params
    write_into(customer, params, _READERS)
    customer["metadata"] = params.metadata(before["metadata"])
    _settings_and_source(books, customer, params)
    if default := params.filled("default_source"):
        books.named("sources", default, "default_source")
        customer["default_source"] = default
    books.changed("customers", "customer.updated", before, customer)
    return customer


def delete(books: Books, asked: Asked) -> dict[str, Any]:
    """What is left can still be retrieved, and says that it is deleted."""
    before = books.at_address("customers", asked.id)
    refuse_deleted(before, "customers")
    for method in books.store.find("payment_methods", {"customer": asked.id}):
        books.store.put("detached", method["id"], {"id": method["id"]})
        books.put("payment_methods", {**method, "customer": None})
    gone = {"id": asked.id, "object": "customer", "deleted": True}
    books.put("customers", gone)
    books.tell("customer.deleted", before)
    return gone


def _no_settings() -> dict[str, Any]:
    return dict.fromkeys(("custom_fields", "default_payment_method", "footer", "rendering_options"))


def _settings_and_source(books: Books, customer: dict[str, Any], params: Params) -> None:
    settings = params.table("invoice_settings")
    settings.refuse_unknown(_no_settings())
    if default := settings.text("default_payment_method"):
        method = books.get("payment_methods", default)
        if method is None or method["customer"] != customer["id"]:
            default = attach_to(books, default, customer["id"])["id"]
    given = {name: settings.anything(name) for name in settings.given}
    if "default_payment_method" in given:
        given["default_payment_method"] = default
    customer["invoice_settings"] = (customer.get("invoice_settings") or _no_settings()) | given
    if source := params.filled("source"):
        card = sources.add(books, customer["id"], source, "source")
        customer["default_source"] = card["id"]


ROUTES: list[Route] = [
    route("POST", "customers", create, _CREATE),
    route("GET", "customers", listing("customers", "email"),
          {"email", "created", "test_clock"} | PAGING),
    route("GET", "customers/{}", retrieve),
    route("POST", "customers/{}", update, _UPDATE),
    route("DELETE", "customers/{}", delete),
]  # fmt: skip
