"""What an invoice is for: items that wait for one, or are in one."""

from __future__ import annotations

from typing import Any

from paddock_services.payments.books import Books
from paddock_services.payments.currency import currency_of
from paddock_services.payments.errors import Conflict, Refusal
from paddock_services.payments.lists import PAGING, Keeps, list_object, listing
from paddock_services.payments.params import Params, lacking
from paddock_services.payments.routes import Asked, Route, route

_MOST = 250
_MOST_AMOUNT = 99_999_999


def create(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    params.require("customer")
    customer = books.named("customers", params.text("customer") or "", "customer")
    invoice = _draft(books, params, customer["id"])
    item = _new(books, params, customer["id"], invoice)
    books.put("invoiceitems", item)
    books.tell("invoiceitem.created", item)
    if invoice is not None:
        add_up(books, invoice)
        books.put("invoices", invoice)
    return item


def _draft(books: Books, params: Params, customer: str) -> dict[str, Any] | None:
    id = params.filled("invoice")
    if id is None:
        return None
    invoice = books.named("invoices", id, "invoice")
    if invoice["customer"] != customer:
        raise Refusal(f"The invoice {id} is not one of {customer}.", param="invoice")
    if invoice["status"] != "draft":
        message = "This invoice is no longer editable."
        raise Conflict(message, code="invoice_not_editable", param="invoice")
    return invoice


def _new(
    books: Books, params: Params, customer: str, invoice: dict[str, Any] | None
) -> dict[str, Any]:
    quantity = params.whole("quantity", least=0)
    quantity = 1 if quantity is None else quantity
    amount, currency, price = _worth(books, params, quantity, invoice)
    id = books.new_id("ii_1")
    return {
        "id": id, "object": "invoiceitem", "amount": amount, "currency": currency,
        "customer": customer, "date": books.at, "description": params.text("description"),
        "discountable": params.flag("discountable") is not False, "discounts": [],
        "invoice": invoice["id"] if invoice else None, "livemode": False,
        "metadata": params.metadata(), "net_amount": amount, "parent": None,
        "period": {"end": books.at, "start": books.at}, "pricing": price, "proration": False,
        "quantity": quantity, "tax_rates": [], "test_clock": None,
    }  # fmt: skip


def _worth(
    books: Books, params: Params, quantity: int, invoice: dict[str, Any] | None
) -> tuple[int, str, dict[str, Any]]:
    pricing = params.table("pricing")
    price_id = pricing.filled("price") or params.filled("price")
    if price_id is not None:
        price = books.named("prices", price_id, "price")
        unit, currency, product = price["unit_amount"] or 0, price["currency"], price["product"]
        amount = unit * quantity
    else:
        given, each = params.whole("amount"), params.whole("unit_amount")
        if given is None and each is None and params.text("unit_amount_decimal") is None:
            raise lacking("amount")
        amount = given if given is not None else (each or 0) * quantity
        default = {"currency": invoice["currency"]} if invoice else {}
        currency, product = currency_of(Params({**default, **params.given})), None
        unit = each if each is not None else amount
    _check_amount(amount)
    if invoice and currency != invoice["currency"]:
        message = f"The invoice is in {invoice['currency']}, the item in {currency}."
        raise Refusal(message, param="currency")
    details = {"price": price_id, "product": product}
    return amount, currency, {
        "price_details": details, "type": "price_details", "unit_amount_decimal": str(unit),
    }  # fmt: skip


def _check_amount(amount: int) -> None:
    if abs(amount) > _MOST_AMOUNT:
        raise Refusal("Amount is too large.", code="amount_too_large", param="amount")


def take_pending(books: Books, customer: str, invoice: str, currency: str) -> None:
    """Items that wait for the customer's next invoice become part of this one."""
    where = {"customer": customer, "invoice": None, "currency": currency}
    for item in books.store.find("invoiceitems", where, limit=_MOST):
        books.put("invoiceitems", {**item, "invoice": invoice})


def add_up(books: Books, invoice: dict[str, Any]) -> None:
    """The lines and sums of a draft, from its items."""
    items = books.store.find("invoiceitems", {"invoice": invoice["id"]}, limit=_MOST)
    url = f"/v1/invoices/{invoice['id']}/lines"
    total = sum(item["amount"] for item in items)
    invoice["lines"] = list_object(url, [_line(books, item) for item in items])
    invoice |= {"subtotal": total, "subtotal_excluding_tax": total, "total": total}
    invoice |= {"total_excluding_tax": total, "amount_due": max(0, total)}
    invoice["amount_remaining"] = max(0, total)


def _line(books: Books, item: dict[str, Any]) -> dict[str, Any]:
    names = ("amount", "currency", "description", "discountable", "discounts", "invoice",
             "livemode", "metadata", "period", "pricing", "quantity")  # fmt: skip
    parent = {
        "invoice_item_details": {"invoice_item": item["id"], "proration": False},
        "subscription_item_details": None, "type": "invoice_item_details",
    }  # fmt: skip
    return {
        "id": "il_1" + books.derived(f"line/{item['id']}", 23), "object": "line_item",
        **{name: item[name] for name in names}, "discount_amounts": [], "parent": parent,
        "pretax_credit_amounts": [], "subtotal": item["amount"], "taxes": [],
    }  # fmt: skip


def retrieve(books: Books, asked: Asked) -> dict[str, Any]:
    return books.at_address("invoiceitems", asked.id)


def update(books: Books, asked: Asked) -> dict[str, Any]:
    before, params = books.at_address("invoiceitems", asked.id), asked.params
    invoice = _editable(books, before)
    item = {**before, "metadata": params.metadata(before["metadata"])}
    if "description" in params:
        item["description"] = params.text("description")
    if (amount := params.whole("amount")) is not None:
        _check_amount(amount)
        item |= {"amount": amount, "net_amount": amount}
    books.put("invoiceitems", item)
    if invoice is not None:
        add_up(books, invoice)
        books.put("invoices", invoice)
    return item


def delete(books: Books, asked: Asked) -> dict[str, Any]:
    item = books.at_address("invoiceitems", asked.id)
    invoice = _editable(books, item)
    books.store.delete("invoiceitems", asked.id)
    books.tell("invoiceitem.deleted", item)
    if invoice is not None:
        add_up(books, invoice)
        books.put("invoices", invoice)
    return {"id": asked.id, "object": "invoiceitem", "deleted": True}


def _editable(books: Books, item: dict[str, Any]) -> dict[str, Any] | None:
    if item["invoice"] is None:
        return None
    invoice = books.at_address("invoices", item["invoice"])
    if invoice["status"] != "draft":
        raise Conflict("This invoice is no longer editable.", code="invoice_not_editable")
    return invoice


def _pending(params: Params) -> Keeps:
    pending = params.flag("pending")
    return lambda item: pending is None or (item["invoice"] is None) == pending


_UPDATE = {"amount", "description", "discountable", "discounts", "metadata", "period", "pricing",
           "price", "price_data", "quantity", "quantity_decimal", "tax_behavior", "tax_code",
           "tax_rates", "unit_amount", "unit_amount_decimal"}  # fmt: skip
_CREATE = _UPDATE | {"currency", "customer", "customer_account", "invoice", "subscription"}
ROUTES: list[Route] = [
    route("POST", "invoiceitems", create, _CREATE),
    route("GET", "invoiceitems", listing("invoiceitems", "customer", "invoice", keeps=_pending),
          {"created", "customer", "customer_account", "invoice", "pending"} | PAGING),
    route("GET", "invoiceitems/{}", retrieve),
    route("POST", "invoiceitems/{}", update, _UPDATE),
    route("DELETE", "invoiceitems/{}", delete),
]  # fmt: skip
