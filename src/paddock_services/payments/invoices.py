"""Invoices and their items: drafted, finalized, paid, voided. There are no subscriptions."""

from __future__ import annotations

from typing import Any

from paddock.model.money import CURRENCIES
from paddock_services.payments import invoice_items, paying
from paddock_services.payments.books import Books
from paddock_services.payments.errors import Conflict, Refusal
from paddock_services.payments.lists import PAGING, list_object, listing
from paddock_services.payments.params import Params
from paddock_services.payments.routes import Asked, Route, route

_DAY_S = 86_400
_METHODS = ("charge_automatically", "send_invoice")
_UPDATE = {
    "account_tax_ids", "application_fee_amount", "auto_advance", "automatic_tax",
    "automatically_finalizes_at", "collection_method", "custom_fields", "days_until_due",
    "default_payment_method", "default_source", "default_tax_rates", "description", "discounts",
    "due_date", "effective_at", "footer", "issuer", "metadata", "number", "on_behalf_of",
    "payment_settings", "rendering", "shipping_cost", "shipping_details", "statement_descriptor",
    "transfer_data",
}  # fmt: skip
_CREATE = _UPDATE | {"currency", "customer", "customer_account", "from_invoice",
                     "pending_invoice_items_behavior", "subscription"}  # fmt: skip


def create(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    params.require("customer")
    customer = books.named("customers", params.text("customer") or "", "customer")
    if "subscription" in params:
        raise Refusal("There are no subscriptions here.", param="subscription")
    id = books.new_id("in_1")
    currency = params.text("currency") or customer["currency"] or "usd"
    if currency not in CURRENCIES:
        raise Refusal(f"Invalid currency: {currency[:20]}", param="currency")
    invoice = blank(books, id, customer, currency)
    _write(books, invoice, params)
    takes = params.one_of("pending_invoice_items_behavior", ("include", "exclude"))
    if takes == "include":
        invoice_items.take_pending(books, customer["id"], id, currency)
    invoice_items.add_up(books, invoice)
    books.put("invoices", invoice)
    books.tell("invoice.created", invoice)
    return invoice


def blank(books: Books, id: str, customer: dict[str, Any], currency: str) -> dict[str, Any]:
    return {
        "id": id, "object": "invoice", "account_country": "US", "account_name": "Paddock",
        "account_tax_ids": None, "amount_due": 0, "amount_overpaid": 0, "amount_paid": 0,
        "amount_remaining": 0, "amount_shipping": 0, "application": None, "attempt_count": 0,
        "attempted": False, "auto_advance": False,
        "automatic_tax": {"enabled": False, "liability": None, "status": None},
        "automatically_finalizes_at": None, "billing_reason": "manual",
        "collection_method": "charge_automatically", "created": books.at, "currency": currency,
        "custom_fields": None, "customer": customer["id"],
        "customer_address": customer["address"], "customer_email": customer["email"],
        "customer_name": customer["name"], "customer_phone": customer["phone"],
        "customer_shipping": customer["shipping"], "customer_tax_exempt": customer["tax_exempt"],
        "customer_tax_ids": [], "default_payment_method": None, "default_source": None,
        "default_tax_rates": [], "description": None, "discounts": [], "due_date": None,
        "effective_at": None, "ending_balance": None, "footer": None, "from_invoice": None,
        "hosted_invoice_url": None, "invoice_pdf": None, "issuer": {"type": "self"},
        "last_finalization_error": None, "latest_revision": None,
        "lines": list_object(f"/v1/invoices/{id}/lines", []), "livemode": False, "metadata": {},
        "next_payment_attempt": None, "number": None, "on_behalf_of": None, "parent": None,
        "payment_settings": {
            "default_mandate": None, "payment_method_options": None, "payment_method_types": None,
        },
        "period_end": books.at, "period_start": books.at, "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0, "receipt_number": None, "rendering": None,
        "shipping_cost": None, "shipping_details": None, "starting_balance": 0,
        "statement_descriptor": None, "status": "draft",
        "status_transitions": dict.fromkeys(
            ("finalized_at", "marked_uncollectible_at", "paid_at", "voided_at")
        ),
        "subtotal": 0, "subtotal_excluding_tax": 0, "test_clock": None, "total": 0,
        "total_discount_amounts": [], "total_excluding_tax": 0, "total_pretax_credit_amounts": [],
        "total_taxes": [], "webhooks_delivered_at": None,
    }  # fmt: skip


def _write(books: Books, invoice: dict[str, Any], params: Params) -> None:
    for name in ("description", "footer", "statement_descriptor"):
        if name in params:
            invoice[name] = params.text(name)
    if method := params.one_of("collection_method", _METHODS):
        invoice["collection_method"] = method
    if "auto_advance" in params:
        invoice["auto_advance"] = bool(params.flag("auto_advance"))
    days = params.whole("days_until_due", least=0)
    due = params.whole("due_date") if days is None else books.at + days * _DAY_S
    if due is not None:
        if invoice["collection_method"] != "send_invoice":
            message = "A due date needs collection_method=send_invoice."
            raise Refusal(message, param="days_until_due" if days is not None else "due_date")
        invoice["due_date"] = due
    if id := params.text("default_payment_method"):
        books.named("payment_methods", id, "default_payment_method")
        invoice["default_payment_method"] = id
    invoice["metadata"] = params.metadata(invoice["metadata"])


def retrieve(books: Books, asked: Asked) -> dict[str, Any] | str:
    return asked.kept(books, "invoices")


def update(books: Books, asked: Asked) -> dict[str, Any]:
    before = books.at_address("invoices", asked.id)
    if before["status"] != "draft" and not set(asked.params.given) <= {"metadata", "expand"}:
        raise Conflict("Finalized invoices can't be updated in this way")
    invoice = dict(before)
    _write(books, invoice, asked.params)
    books.changed("invoices", "invoice.updated", before, invoice)
    return invoice


def delete(books: Books, asked: Asked) -> dict[str, Any]:
    invoice = books.at_address("invoices", asked.id)
    if invoice["status"] != "draft":
        message = "You can only delete draft invoices. Void this one instead."
        raise Conflict(message, code="invoice_not_editable")
    for item in books.store.find("invoiceitems", {"invoice": asked.id}):
        books.store.delete("invoiceitems", item["id"])
    books.store.delete("invoices", asked.id)
    books.tell("invoice.deleted", invoice)
    return {"id": asked.id, "object": "invoice", "deleted": True}


def finalize(books: Books, asked: Asked) -> dict[str, Any]:
    invoice = books.at_address("invoices", asked.id)
    if invoice["status"] != "draft":
        message = "This invoice is already finalized, you can't re-finalize a non-draft invoice."
        raise Conflict(message, code="invoice_not_editable")
    return paying.finalize(books, invoice)


def pay(books: Books, asked: Asked) -> dict[str, Any]:
    invoice = books.at_address("invoices", asked.id)
    if invoice["status"] == "paid":
        raise Conflict("Invoice is already paid", code="invoice_already_paid")
    if invoice["status"] == "draft":
        invoice = paying.finalize(books, invoice)
    if invoice["status"] == "paid":
        return invoice
    if invoice["status"] != "open":
        raise Conflict(f"An invoice with a status of {invoice['status']} cannot be paid.")
    return paying.pay(books, invoice, asked.params)


def send(books: Books, asked: Asked) -> dict[str, Any]:
    """Finalizes; the event is all there is of a mail."""
    invoice = books.at_address("invoices", asked.id)
    if invoice["status"] == "draft":
        invoice = paying.finalize(books, invoice)
    books.tell("invoice.sent", invoice)
    return invoice


def void(books: Books, asked: Asked) -> dict[str, Any]:
    return _close(books, asked, "void", "voided_at", "voided")


def mark_uncollectible(books: Books, asked: Asked) -> dict[str, Any]:
    return _close(books, asked, "uncollectible", "marked_uncollectible_at", "marked_uncollectible")


def _close(books: Books, asked: Asked, status: str, moment: str, event: str) -> dict[str, Any]:
    invoice = books.at_address("invoices", asked.id)
    if invoice["status"] not in ("open", "uncollectible"):
        message = f"You can only pass in open invoices. This invoice isn't open: {asked.id}"
        raise Conflict(message)
    before = dict(invoice)
    invoice = {**invoice, "status": status}
    invoice["status_transitions"] = {**before["status_transitions"], moment: books.at}
    books.changed("invoices", f"invoice.{event}", before, invoice)
    return invoice


def lines(books: Books, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = books.at_address("invoices", asked.id)["lines"]
    return found


_INVOICE = "invoices/{}"
_LIST = {"collection_method", "created", "customer", "customer_account", "due_date", "status",
         "subscription"} | PAGING  # fmt: skip
_PAY = ("forgive", "mandate", "off_session", "paid_out_of_band", "payment_method", "source")
ROUTES: list[Route] = [
    route("POST", "invoices", create, _CREATE),
    route("GET", "invoices",
          listing("invoices", "customer", "status", "collection_method", "subscription"), _LIST),
    route("GET", _INVOICE, retrieve),
    route("POST", _INVOICE, update, _UPDATE),
    route("DELETE", _INVOICE, delete),
    route("GET", f"{_INVOICE}/lines", lines, PAGING),
    route("POST", f"{_INVOICE}/finalize", finalize, ("auto_advance",)),
    route("POST", f"{_INVOICE}/pay", pay, _PAY),
    route("POST", f"{_INVOICE}/send", send),
    route("POST", f"{_INVOICE}/void", void),
    route("POST", f"{_INVOICE}/mark_uncollectible", mark_uncollectible),
]  # fmt: skip
