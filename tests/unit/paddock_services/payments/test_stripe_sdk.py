"""The official SDK, as it comes, against the stand-in on loopback."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stripe
import uvicorn

from cases import for_each
from paddock_services.payments.service import OPERATIONS
from unit.paddock_services.payments.accounts import Account

_OF_THE_CLIENT = {"api_key", "stripe_version", "stripe_account", "stripe_context",
                  "max_network_retries", "idempotency_key", "content_type", "headers"}  # fmt: skip
_WAIT_S = 10.0


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    account = Account(tmp_path / "payments.sqlite")
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(account.app, lifespan="off", log_level="warning", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    monkeypatch.setattr(stripe, "api_key", "sk_test_123")
    monkeypatch.setattr(stripe, "api_base", f"http://127.0.0.1:{listener.getsockname()[1]}")
    monkeypatch.setattr(stripe, "max_network_retries", 0)
    yield account
    if stripe.default_http_client is not None:
        stripe.default_http_client.close()
    monkeypatch.setattr(stripe, "default_http_client", None)
    server.should_exit = True
    thread.join(_WAIT_S)
    listener.close()
    assert not thread.is_alive()
    assert account.service.invariants() == []
    account.store.close()


def test_customers_live_and_die(served: Account) -> None:
    customer = stripe.Customer.create(
        email="zoe@shop.example", name="Zoë 🐎", metadata={"order": "7"},
        address={"line1": "1 Road", "city": "Town"}, preferred_locales=["fr", "en"],
    )  # fmt: skip
    assert customer.address is not None
    assert (customer.name, customer.address.city) == ("Zoë 🐎", "Town")
    assert customer.preferred_locales == ["fr", "en"]
    changed = stripe.Customer.modify(customer.id, metadata={"order": "", "note": "x"})
    assert changed.metadata is not None
    assert changed.metadata.to_dict() == {"note": "x"}
    assert stripe.Customer.list(email="zoe@shop.example").data[0].id == customer.id
    assert stripe.Customer.search(query="email:'ZOE@shop.example'").data[0].id == customer.id
    assert stripe.Customer.delete(customer.id).deleted
    assert stripe.Customer.retrieve(customer.id).deleted


def test_client_pages_through_everything(served: Account) -> None:
    made = [stripe.Customer.create(name=str(n)).id for n in range(7)]
    seen = [one.id for one in stripe.Customer.list(limit=2).auto_paging_iter()]
    assert seen == made[::-1]


def test_payment_is_taken_held_captured_and_refunded(served: Account) -> None:
    customer = stripe.Customer.create(payment_method="pm_card_visa")
    methods = stripe.Customer.list_payment_methods(customer.id, type="card")
    method = methods.data[0]
    assert method.card is not None
    assert method.card.last4 == "4242"
    held = stripe.PaymentIntent.create(
        amount=2000, currency="usd", customer=customer.id, payment_method=method.id, confirm=True,
        capture_method="manual", off_session=True, expand=["latest_charge", "customer"],
        automatic_payment_methods={"enabled": True, "allow_redirects": "never"},
    )  # fmt: skip
    assert held.status == "requires_capture"
    assert isinstance(held.latest_charge, stripe.Charge)
    taken = stripe.PaymentIntent.capture(held.id, amount_to_capture=1800)
    assert (taken.status, taken.amount_received) == ("succeeded", 1800)
    refund = stripe.Refund.create(payment_intent=held.id, amount=300, reason="duplicate")
    assert refund.status == "succeeded"
    balance = stripe.Balance.retrieve()
    assert balance.pending[0].amount == 1800 - 82 - 300
    money = stripe.BalanceTransaction.list(type="charge").data[0]
    assert (money.amount, money.fee, money.net) == (1800, 82, 1718)
    types = [event.type for event in stripe.Event.list(limit=100).auto_paging_iter()]
    assert {"charge.captured", "charge.refunded", "payment_intent.succeeded"} <= set(types)


def test_intent_is_changed_and_canceled(served: Account) -> None:
    intent = stripe.PaymentIntent.create(amount=500, currency="eur", metadata={"a": "1"})
    intent = stripe.PaymentIntent.modify(intent.id, amount=700)
    assert (intent.amount, intent.status) == (700, "requires_payment_method")
    with pytest.raises(stripe.CardError) as declined:
        stripe.PaymentIntent.confirm(intent.id, payment_method="pm_card_chargeDeclinedLostCard")
    assert declined.value.error is not None
    assert declined.value.error.payment_intent is not None
    assert (declined.value.code, declined.value.error.decline_code) == (
        "card_declined", "lost_card"
    )  # fmt: skip
    assert stripe.PaymentIntent.cancel(intent.id).status == "canceled"
    assert stripe.PaymentIntent.list(limit=1).data[0].id == intent.id


def test_charges_of_older_programs_work(served: Account) -> None:
    charge = stripe.Charge.create(amount=900, currency="usd", source="tok_visa", capture=False)
    assert not charge.captured
    assert stripe.Charge.capture(charge.id).captured
    assert stripe.Charge.modify(charge.id, description="hat").description == "hat"
    stripe.Refund.create(charge=charge.id)
    with pytest.raises(stripe.InvalidRequestError) as again:
        stripe.Refund.create(charge=charge.id)
    assert again.value.code == "charge_already_refunded"
    customer = stripe.Customer.create(source="tok_visa")
    assert stripe.Charge.create(amount=900, currency="usd", customer=customer.id).paid


def test_methods_are_made_attached_and_detached(served: Account) -> None:
    customer = stripe.Customer.create()
    card = {"number": "5555555555554444", "exp_month": 1, "exp_year": 2031, "cvc": "123"}
    method = stripe.PaymentMethod.create(type="card", card=card)  # type: ignore[arg-type]
    assert stripe.PaymentMethod.attach(method.id, customer=customer.id).customer == customer.id
    default = {"default_payment_method": method.id}
    changed = stripe.Customer.modify(customer.id, invoice_settings=default)  # type: ignore[arg-type]
    assert changed.invoice_settings is not None
    assert changed.invoice_settings.default_payment_method == method.id
    assert stripe.PaymentMethod.detach(method.id).customer is None


def test_things_are_sold_by_invoice(served: Account) -> None:
    product = stripe.Product.create(name="Hat")
    price = stripe.Price.create(product=product.id, unit_amount=1500, currency="usd")
    customer = stripe.Customer.create(email="a@b.example")
    invoice = stripe.Invoice.create(
        customer=customer.id, collection_method="send_invoice", days_until_due=30
    )
    stripe.InvoiceItem.create(
        customer=customer.id, invoice=invoice.id, pricing={"price": price.id}, quantity=2
    )
    assert invoice.id is not None
    assert stripe.Invoice.finalize_invoice(invoice.id).total == 3000
    assert stripe.Invoice.pay(invoice.id, payment_method="pm_card_visa").status == "paid"
    assert [one.id for one in stripe.Price.list(product=product.id).data] == [price.id]


def test_errors_arrive_as_the_clients_own(served: Account) -> None:
    with pytest.raises(stripe.InvalidRequestError) as missing:
        stripe.Charge.retrieve("ch_none")
    assert (missing.value.http_status, missing.value.code) == (404, "resource_missing")
    assert missing.value.request_id is not None
    stripe.Customer.create(name="A", idempotency_key="k")
    with pytest.raises(stripe.IdempotencyError):
        stripe.Customer.create(name="B", idempotency_key="k")
    with pytest.raises(stripe.AuthenticationError):
        stripe.Customer.create(api_key="pk_test_1")


def test_client_object_works_like_the_module(served: Account) -> None:
    client = stripe.StripeClient("sk_test_1", base_addresses={"api": stripe.api_base})
    customer = client.v1.customers.create({"name": "A", "metadata": {"a": "b"}})
    assert client.v1.customers.retrieve(customer.id).name == "A"
    again = client.v1.customers.create({"name": "B"}, {"idempotency_key": "k"})
    assert client.v1.customers.create({"name": "B"}, {"idempotency_key": "k"}).id == again.id


_CREATORS = [
    ("customers", "_customer_create_params"),
    ("customers/{id}", "_customer_update_params"),
    ("payment_intents", "_payment_intent_create_params"),
    ("payment_intents/{id}/confirm", "_payment_intent_confirm_params"),
    ("payment_intents/{id}/capture", "_payment_intent_capture_params"),
    ("payment_intents/{id}/cancel", "_payment_intent_cancel_params"),
    ("charges", "_charge_create_params"),
    ("charges/{id}", "_charge_modify_params"),
    ("refunds", "_refund_create_params"),
    ("prices", "_price_create_params"),
    ("products", "_product_create_params"),
    ("invoices", "_invoice_create_params"),
    ("invoiceitems", "_invoice_item_create_params"),
]


@for_each(("address", "module"), _CREATORS)
def test_no_parameter_of_the_client_is_called_unknown(address: str, module: str) -> None:
    try:
        found: Any = importlib.import_module(f"stripe.params.{module}")
    except ModuleNotFoundError:
        pytest.fail(f"the SDK has no {module}")
    main = next(
        one for name, one in inspect.getmembers(found, inspect.isclass)
        if name.lower() == module.replace("_", "").lower()
    )  # fmt: skip
    known = next(
        one.parameters for one in OPERATIONS if (one.method, one.path) == ("POST", address)
    )
    assert set(main.__annotations__) - _OF_THE_CLIENT - known == set()
