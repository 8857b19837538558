"""How an invoice is finalized and paid: through an intent, like every other payment."""

from __future__ import annotations

from typing import Any

from paddock_services.payments import confirming, intents
from paddock_services.payments.books import Books
from paddock_services.payments.errors import Declined, Refusal
from paddock_services.payments.params import Params


def finalize(books: Books, invoice: dict[str, Any]) -> dict[str, Any]:
    """A draft gets its number and cannot be changed any more. One over nothing is paid at once."""
    customer = books.named("customers", invoice["customer"], "customer")
    sequence = customer["next_invoice_sequence"]
    books.put("customers", {**customer, "next_invoice_sequence": sequence + 1})
    page = f"https://invoice.stripe.com/i/{books.derived(invoice['id'], 32)}"
    invoice |= {
        "status": "open", "number": f"{customer['invoice_prefix']}-{sequence:04d}",
        "hosted_invoice_url": page, "invoice_pdf": f"{page}/pdf", "effective_at": books.at,
    }  # fmt: skip
    _moment(books, invoice, "finalized_at")
    books.put("invoices", invoice)
    books.tell("invoice.finalized", invoice)
    return invoice if invoice["amount_due"] else _paid(books, invoice)


def pay(books: Books, invoice: dict[str, Any], params: Params) -> dict[str, Any]:
    """Raises Declined when the bank says no; the invoice stays open."""
    if params.flag("paid_out_of_band"):
        return _paid(books, invoice)
    method = _method(books, invoice, params)
    intent = intents.blank(
        books, books.new_id("pi_3"), invoice["amount_remaining"], invoice["currency"], books.at
    )
    intent |= {"customer": invoice["customer"], "description": f"Invoice {invoice['number']}"}
    chosen = confirming.choose_method(books, intent, Params({"payment_method": method}))
    books.tell("payment_intent.created", intent)
    invoice |= {"attempted": True, "attempt_count": invoice["attempt_count"] + 1}
    terms = Params({"off_session": "true", "error_on_requires_action": "true"})
    try:
        confirming.go(books, intent, chosen, terms)
    except Declined:
        books.put("invoices", invoice)
        books.tell("invoice.payment_failed", invoice)
        raise
    return _paid(books, invoice)


def _method(books: Books, invoice: dict[str, Any], params: Params) -> str:
    customer = books.named("customers", invoice["customer"], "customer")
    settings = customer.get("invoice_settings") or {}
    method = (
        params.filled("payment_method")
        or invoice["default_payment_method"]
        or settings.get("default_payment_method")
    )
    if method is None:
        message = (
            "There is no `default_payment_method` set on this Customer or Invoice. Set one, or "
            "give a `payment_method`."
        )
        raise Refusal(message, code="missing")
    return str(method)


def _paid(books: Books, invoice: dict[str, Any]) -> dict[str, Any]:
    due = invoice["amount_due"]
    invoice |= {"status": "paid", "amount_paid": due, "amount_remaining": 0, "attempted": True}
    _moment(books, invoice, "paid_at")
    books.put("invoices", invoice)
    books.tell("invoice.paid", invoice)
    if due:
        books.tell("invoice.payment_succeeded", invoice)
    return invoice


def _moment(books: Books, invoice: dict[str, Any], name: str) -> None:
    invoice["status_transitions"] = {**invoice["status_transitions"], name: books.at}
