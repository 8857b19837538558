"""Invoices and their items: drafted, finalized, paid through an intent, or voided. There are no
subscriptions."""

from __future__ import annotations

from paddock_services.payments.account import Account, Document, empty, list_object
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.errors import Conflict, Declined, Refusal, missing_param
from paddock_services.payments.lists import listing, retrieve
from paddock_services.payments.money import MAX_AMOUNT
from paddock_services.payments.params import Params
from paddock_services.payments.payment_intents import choose_method, new_intent, pay
from paddock_services.payments.search import searching

_DAY_S = 86_400
_COLLECTION = ("charge_automatically", "send_invoice")
_MAX_ITEMS = 250
_FROM_ITEM = ("amount", "currency", "description", "invoice", "metadata", "period", "pricing",
              "quantity")  # fmt: skip


def new_invoice(account: Account, id: str, customer: Document, currency: str) -> Document:
    """Return a draft without items. It is not stored yet."""
    invoice = empty("invoice", id=id, created=account.time, currency=currency)
    invoice |= dict.fromkeys(("period_end", "period_start"), account.time)
    invoice["customer"] = customer["id"]
    for name in ("address", "email", "name", "phone", "shipping", "tax_exempt"):
        invoice[f"customer_{name}"] = customer[name]
    invoice["lines"] = list_object(f"/v1/invoices/{id}/lines", [])
    return invoice


def write_total(invoice: Document, total: int) -> None:
    """Write the sums of an invoice that nothing was paid of."""
    names = ("subtotal", "subtotal_excluding_tax", "total", "total_excluding_tax")
    invoice |= dict.fromkeys(names, total)
    invoice |= dict.fromkeys(("amount_due", "amount_remaining"), max(0, total))


def _create(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    customer = account.reference("customers", params.required("customer"), "customer")
    params.refuse_unsupported("subscription", "from_invoice", "due_date")
    currency = Params({"currency": customer["currency"] or "usd", **params.values}).currency()
    invoice = new_invoice(account, account.new_id("in_1"), customer, currency)
    invoice["description"] = params.text("description")
    invoice["metadata"] = params.metadata()
    invoice["auto_advance"] = bool(params.boolean("auto_advance"))
    invoice["collection_method"] = params.choice("collection_method", _COLLECTION) or _COLLECTION[0]
    days = params.integer("days_until_due", least=0)
    if days is not None:
        if invoice["collection_method"] != "send_invoice":
            message = "A due date needs collection_method=send_invoice."
            raise Refusal(message, param="days_until_due")
        invoice["due_date"] = account.time + days * _DAY_S
    if params.choice("pending_invoice_items_behavior", ("include", "exclude")) == "include":
        where = {"customer": customer["id"], "invoice": None, "currency": currency}
        for item in account.store.find("invoiceitems", where, limit=_MAX_ITEMS):
            account.put("invoiceitems", {**item, "invoice": invoice["id"]})
    _add_up(account, invoice)
    return account.save("invoices", "invoice.created", invoice)


def _add_up(account: Account, invoice: Document) -> None:
    """Write the lines and sums of a draft from its items."""
    items = account.store.find("invoiceitems", {"invoice": invoice["id"]}, limit=_MAX_ITEMS)
    lines = []
    for item in items:
        line = {"id": "il_1" + account.derive(f"line/{item['id']}", 23), "object": "line_item"}
        lines.append(line | {name: item[name] for name in _FROM_ITEM})
    invoice["lines"] = list_object(f"/v1/invoices/{invoice['id']}/lines", lines)
    write_total(invoice, sum(item["amount"] for item in items))


def _finalize(account: Account, request: PaymentRequest) -> Document:
    invoice = account.fetch("invoices", request.id)
    if invoice["status"] != "draft":
        message = "This invoice is already finalized, you can't re-finalize a non-draft invoice."
        raise Conflict(message, code="invoice_not_editable")
    return _close_draft(account, invoice)


def _close_draft(account: Account, invoice: Document) -> Document:
    """Give a draft its number. One over nothing is paid at once."""
    customer = account.reference("customers", invoice["customer"], "customer")
    sequence = customer["next_invoice_sequence"]
    account.put("customers", {**customer, "next_invoice_sequence": sequence + 1})
    page = f"https://invoice.stripe.com/i/{account.derive(invoice['id'], 32)}"
    invoice |= {"status": "open", "number": f"{customer['invoice_prefix']}-{sequence:04d}"}
    invoice |= {"hosted_invoice_url": page, "invoice_pdf": f"{page}/pdf"}
    invoice["status_transitions"]["finalized_at"] = invoice["effective_at"] = account.time
    account.save("invoices", "invoice.finalized", invoice)
    return invoice if invoice["amount_due"] else _mark_paid(account, invoice)


def _pay(account: Account, request: PaymentRequest) -> Document:
    """Pay an invoice. Raises Declined when the bank says no; the invoice stays open."""
    invoice, params = account.fetch("invoices", request.id), request.params
    params.refuse_unsupported("forgive", "paid_out_of_band", "source")
    if invoice["status"] == "draft":
        invoice = _close_draft(account, invoice)
        if invoice["status"] == "paid":
            return invoice
    if invoice["status"] == "paid":
        raise Conflict("Invoice is already paid", code="invoice_already_paid")
    if invoice["status"] != "open":
        raise Conflict(f"An invoice with a status of {invoice['status']} cannot be paid.")
    customer = account.reference("customers", invoice["customer"], "customer")
    default = customer["invoice_settings"]["default_payment_method"]
    method = params.id("payment_method") or default
    if method is None:
        message = "There is no default_payment_method set on this Customer. Give a payment_method."
        raise Refusal(message, code="missing")
    intent = new_intent(account, invoice["amount_remaining"], invoice["currency"])
    intent |= {"customer": customer["id"], "description": f"Invoice {invoice['number']}"}
    chosen = choose_method(account, intent, Params({"payment_method": method}))
    account.record_event("payment_intent.created", intent)
    invoice |= {"attempted": True, "attempt_count": invoice["attempt_count"] + 1}
    try:
        pay(account, intent, chosen, Params({"off_session": "true"}))
    except Declined:
        account.save("invoices", "invoice.payment_failed", invoice)
        raise
    return _mark_paid(account, invoice)


def _mark_paid(account: Account, invoice: Document) -> Document:
    invoice |= {"status": "paid", "amount_paid": invoice["amount_due"], "amount_remaining": 0}
    invoice["status_transitions"]["paid_at"] = account.time
    return account.save("invoices", "invoice.paid", invoice)


def _void(account: Account, request: PaymentRequest) -> Document:
    invoice = account.fetch("invoices", request.id)
    if invoice["status"] != "open":
        message = f"You can only pass in open invoices. This invoice isn't open: {request.id}"
        raise Conflict(message)
    invoice["status"] = "void"
    invoice["status_transitions"]["voided_at"] = account.time
    return account.save("invoices", "invoice.voided", invoice)


def _create_item(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    customer = account.reference("customers", params.required("customer"), "customer")
    invoice = _draft(account, params, customer["id"])
    item = empty("invoiceitem", id=account.new_id("ii_1"), customer=customer["id"])
    item |= {"date": account.time, "period": {"start": account.time, "end": account.time}}
    item |= {"description": params.text("description"), "metadata": params.metadata()}
    _write_price(account, item, params, invoice)
    if invoice is not None:
        item["invoice"] = invoice["id"]
    account.save("invoiceitems", "invoiceitem.created", item)
    if invoice is not None:
        _add_up(account, invoice)
        account.put("invoices", invoice)
    return item


def _draft(account: Account, params: Params, customer: str) -> Document | None:
    id = params.id("invoice")
    if id is None:
        return None
    invoice = account.reference("invoices", id, "invoice")
    if invoice["customer"] != customer:
        raise Refusal(f"The invoice {id} is not one of {customer}.", param="invoice")
    if invoice["status"] != "draft":
        message = "This invoice is no longer editable."
        raise Conflict(message, code="invoice_not_editable", param="invoice")
    return invoice


def _write_price(
    account: Account, item: Document, params: Params, invoice: Document | None
) -> None:
    """Write what an item costs: an amount, or a price times a quantity."""
    params.refuse_unsupported("price", "price_data", "unit_amount", "unit_amount_decimal")
    quantity = params.integer("quantity", least=0)
    item["quantity"] = 1 if quantity is None else quantity
    price_id = params.table("pricing").id("price")
    if price_id is not None:
        price = account.reference("prices", price_id, "price")
        item |= {"currency": price["currency"], "amount": price["unit_amount"] * item["quantity"]}
        details = {"price": price_id, "product": price["product"]}
        item["pricing"] = {"price_details": details, "type": "price_details"}
    else:
        amount = params.integer("amount")
        if amount is None:
            raise missing_param("amount")
        default = {} if invoice is None else {"currency": invoice["currency"]}
        item |= {"currency": Params({**default, **params.values}).currency(), "amount": amount}
    item["net_amount"] = item["amount"]
    if abs(item["amount"]) > MAX_AMOUNT:
        raise Refusal("Amount is too large.", code="amount_too_large", param="amount")
    if invoice is not None and item["currency"] != invoice["currency"]:
        message = f"The invoice is in {invoice['currency']}, the item in {item['currency']}."
        raise Refusal(message, param="currency")


OPERATIONS = [
    Operation("POST", "invoices", _create),
    Operation("GET", "invoices", listing("invoices", "customer", "status", "collection_method")),
    Operation("GET", "invoices/search", searching("invoices")),
    Operation("GET", "invoices/{id}", retrieve("invoices")),
    Operation("POST", "invoices/{id}/finalize", _finalize),
    Operation("POST", "invoices/{id}/pay", _pay),
    Operation("POST", "invoices/{id}/void", _void),
    Operation("POST", "invoiceitems", _create_item),
    Operation("GET", "invoiceitems", listing("invoiceitems", "customer", "invoice")),
    Operation("GET", "invoiceitems/{id}", retrieve("invoiceitems")),
]
