"""Intents, charges and refunds: every way that money comes and goes."""

from __future__ import annotations

from typing import Any

import pytest

from cases import for_each
from unit.paddock_services.payments.accounts import Account


def test_intent_goes_from_made_to_paid(account: Account) -> None:
    made = account.post("/v1/payment_intents", amount=2000, currency="USD")
    path = f"/v1/payment_intents/{made['id']}"
    assert (made["status"], made["currency"]) == ("requires_payment_method", "usd")
    assert made["client_secret"].startswith(f"{made['id']}_secret_")
    chosen = account.post(path, payment_method="pm_card_visa")
    assert chosen["status"] == "requires_confirmation"
    paid = account.post(f"{path}/confirm")
    assert (paid["status"], paid["amount_received"]) == ("succeeded", 2000)
    charge = account.get(f"/v1/charges/{paid['latest_charge']}")
    assert (charge["paid"], charge["captured"], charge["payment_intent"]) == (
        True,
        True,
        made["id"],
    )
    assert charge["payment_method_details"]["card"]["last4"] == "4242"
    assert account.event_types() == [
        "payment_intent.created", "charge.succeeded", "payment_intent.succeeded"
    ]  # fmt: skip


def test_paid_intent_cannot_be_paid_again(account: Account) -> None:
    id = account.paid()["id"]
    again = account.post(f"/v1/payment_intents/{id}/confirm", payment_method="pm_card_visa")
    assert (again.status, again.error["code"]) == (400, "payment_intent_unexpected_state")
    assert again.error["payment_intent"]["id"] == id
    assert account.store.count("charges") == 1


def test_intent_without_a_method_cannot_be_confirmed(account: Account) -> None:
    answer = account.post("/v1/payment_intents", amount=100, currency="usd", confirm="true")
    assert answer.error["code"] == "payment_intent_unexpected_state"
    assert account.store.kinds() == []


def test_authorized_money_waits_for_its_capture(account: Account) -> None:
    held = account.paid(capture_method="manual")
    assert (held["status"], held["amount_capturable"]) == ("requires_capture", 2000)
    assert account.get("/v1/balance")["pending"][0]["amount"] == 0
    path = f"/v1/payment_intents/{held['id']}/capture"
    more = account.post(path, amount_to_capture=2001)
    assert more.error["code"] == "amount_too_large"
    part = account.post(path, amount_to_capture=1500)
    assert (part["status"], part["amount_received"]) == ("succeeded", 1500)
    charge = account.get(f"/v1/charges/{held['latest_charge']}")
    assert (charge["amount_captured"], charge["amount_refunded"]) == (1500, 500)
    assert account.post(path).error["code"] == "payment_intent_unexpected_state"
    most = account.post("/v1/refunds", charge=charge["id"], amount=1501)
    assert most.status == 400
    assert account.post("/v1/refunds", charge=charge["id"])["amount"] == 1500


def test_canceled_intent_releases_what_was_held(account: Account) -> None:
    held = account.paid(capture_method="manual")
    path = f"/v1/payment_intents/{held['id']}"
    canceled = account.post(f"{path}/cancel", cancellation_reason="abandoned")
    assert (canceled["status"], canceled["amount_capturable"]) == ("canceled", 0)
    charge = account.get(f"/v1/charges/{held['latest_charge']}")
    assert (charge["refunded"], charge["captured"]) == (True, False)
    assert account.store.count("balance_transactions") == 0
    for verb in ("cancel", "capture", "confirm"):
        again = account.post(f"{path}/{verb}")
        assert again.error["code"] == "payment_intent_unexpected_state"


def test_paid_intent_cannot_be_canceled(account: Account) -> None:
    id = account.paid()["id"]
    assert account.post(f"/v1/payment_intents/{id}/cancel").status == 400


def test_amount_of_a_paid_intent_cannot_be_changed(account: Account) -> None:
    id = account.paid()["id"]
    answer = account.post(f"/v1/payment_intents/{id}", amount=1)
    assert answer.error["code"] == "payment_intent_unexpected_state"
    assert account.post(f"/v1/payment_intents/{id}", description="ok")["description"] == "ok"


@for_each(
    ("name", "code", "reason"),
    [
        ("chargeDeclined", "card_declined", "generic_decline"),
        ("visa_chargeDeclined", "card_declined", "generic_decline"),
        ("visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
        ("visa_chargeDeclinedLostCard", "card_declined", "lost_card"),
        ("visa_chargeDeclinedStolenCard", "card_declined", "stolen_card"),
        ("chargeDeclinedExpiredCard", "expired_card", "expired_card"),
        ("chargeDeclinedIncorrectCvc", "incorrect_cvc", "incorrect_cvc"),
        ("chargeDeclinedProcessingError", "processing_error", "processing_error"),
        ("chargeDeclinedVelocityLimitExceeded", "card_declined", "card_velocity_exceeded"),
        ("radarBlock", "card_declined", "fraudulent"),
        ("chargeCustomerFail", "card_declined", "generic_decline"),
    ],
)
def test_declining_card_declines_with_its_code(
    account: Account, name: str, code: str, reason: str
) -> None:
    answer = account.paid(payment_method=f"pm_card_{name}")
    error = answer.error
    assert (answer.status, error["type"]) == (402, "card_error")
    assert (error["code"], error["decline_code"]) == (code, reason)
    intent = account.get(f"/v1/payment_intents/{error['payment_intent']['id']}")
    assert (intent["status"], intent["payment_method"]) == ("requires_payment_method", None)
    assert intent["last_payment_error"]["code"] == code
    charge = account.get(f"/v1/charges/{error['charge']}")
    assert (charge["status"], charge["paid"], charge["failure_code"]) == ("failed", False, code)
    assert account.event_types()[-1] == "payment_intent.payment_failed"


def test_intent_that_was_declined_can_be_paid_with_another_card(account: Account) -> None:
    id = account.paid(payment_method="pm_card_chargeDeclined").error["payment_intent"]["id"]
    paid = account.post(f"/v1/payment_intents/{id}/confirm", payment_method="pm_card_visa")
    assert (paid["status"], paid["last_payment_error"]) == ("succeeded", None)
    charges = account.get("/v1/charges", f"payment_intent={id}")["data"]
    assert [one["status"] for one in charges] == ["succeeded", "failed"]


def test_card_that_wants_a_person_waits_or_is_declined_off_session(account: Account) -> None:
    card = "pm_card_authenticationRequired"
    waiting = account.paid(payment_method=card, return_url="https://shop.example/back")
    assert waiting["status"] == "requires_action"
    assert waiting["next_action"]["type"] == "redirect_to_url"
    alone = account.paid(payment_method=card, off_session="true")
    assert (alone.status, alone.error["code"]) == (402, "authentication_required")
    assert account.store.count("charges") == 0


@pytest.mark.parametrize(
    ("card", "code"),
    [
        ({"number": "4242424242424241"}, "incorrect_number"),
        ({"number": "4012888888881881"}, "card_declined"),
        ({"number": "abc"}, "incorrect_number"),
        ({"exp_month": "13"}, "invalid_expiry_month"),
        ({"exp_year": "2020"}, "invalid_expiry_year"),
        ({"exp_month": "12", "exp_year": "2025"}, "invalid_expiry_year"),
        ({"cvc": "1"}, "invalid_cvc"),
    ],
)
def test_card_that_no_bank_would_take_makes_no_method(
    account: Account, card: dict[str, str], code: str
) -> None:
    given = {
        "number": "4242424242424242",
        "exp_month": "1",
        "exp_year": "2030",
        "cvc": "123",
    } | card
    params = {f"card__{name}": value for name, value in given.items()}
    answer = account.post("/v1/payment_methods", type="card", **params)
    assert (answer.status, answer.error["code"]) == (402, code)
    assert account.store.count("payment_methods") == 0


def test_number_of_a_card_is_kept_nowhere(account: Account) -> None:
    params = {"card__number": "4242 4242 4242 4242", "card__exp_month": 1, "card__exp_year": 30}
    method = account.post("/v1/payment_methods", key="k", type="card", **params)
    assert method["card"]["exp_year"] == 2030
    account.store.snapshot(copy := account.store.path.with_name("copy.sqlite"))
    assert b"424242424242" not in copy.read_bytes()


def test_method_belongs_to_one_customer_and_is_used_with_it(account: Account) -> None:
    one, other = (account.post("/v1/customers")["id"] for _ in range(2))
    attached = account.post("/v1/payment_methods/pm_card_visa/attach", customer=one)
    id = attached["id"]
    assert attached["customer"] == one
    assert account.post(f"/v1/payment_methods/{id}/attach", customer=other).status == 400
    assert account.paid(payment_method=id).status == 400
    assert account.paid(payment_method=id, customer=other).status == 400
    assert account.paid(payment_method=id, customer=one)["status"] == "succeeded"
    assert account.paid(payment_method=id, customer=one)["status"] == "succeeded"
    listed = account.get(f"/v1/customers/{one}/payment_methods", "type=card")["data"]
    assert [method["id"] for method in listed] == [id]
    assert account.post(f"/v1/payment_methods/{id}/detach")["customer"] is None
    assert account.paid(payment_method=id).status == 400
    assert account.get("/v1/payment_methods", f"customer={one}")["data"] == []


def test_method_of_nobody_is_used_once(account: Account) -> None:
    used = account.paid()["payment_method"]
    assert account.paid(payment_method=used).error["code"] == "payment_method_unexpected_state"


def test_method_is_kept_for_later_when_that_was_asked_for(account: Account) -> None:
    customer = account.post("/v1/customers")["id"]
    paid = account.paid(customer=customer, setup_future_usage="off_session")
    method = account.get(f"/v1/payment_methods/{paid['payment_method']}")
    assert method["customer"] == customer
    again = account.paid(customer=customer, payment_method=method["id"], off_session="true")
    assert again["status"] == "succeeded"


def test_declining_card_cannot_be_attached_but_the_one_made_for_that_can(account: Account) -> None:
    customer = account.post("/v1/customers")["id"]
    path = "/v1/payment_methods/pm_card_{}/attach"
    assert account.post(path.format("chargeDeclined"), customer=customer).status == 402
    later = account.post(path.format("chargeCustomerFail"), customer=customer)["id"]
    assert account.paid(customer=customer, payment_method=later).status == 402


def test_charge_is_made_directly_from_a_token(account: Account) -> None:
    charge = account.post("/v1/charges", amount=999, currency="usd", source="tok_mastercard")
    card = charge["payment_method_details"]["card"]
    assert (charge["status"], card["brand"], card["last4"]) == ("succeeded", "mastercard", "4444")
    bad = account.post("/v1/charges", amount=999, currency="usd", source="tok_chargeDeclined")
    assert (bad.status, bad.error["code"]) == (402, "card_declined")
    assert account.get(f"/v1/charges/{bad.error['charge']}")["status"] == "failed"
    assert account.post("/v1/charges", amount=999, currency="usd").error["param"] == "source"


def test_charge_is_made_from_a_customers_card(account: Account) -> None:
    bare = account.post("/v1/customers")["id"]
    none = account.post("/v1/charges", amount=999, currency="usd", customer=bare)
    assert (none.status, none.error["code"]) == (402, "missing")
    customer = account.post("/v1/customers", source="tok_visa")
    charge = account.post("/v1/charges", amount=999, currency="usd", customer=customer["id"])
    method = customer["invoice_settings"]["default_payment_method"]
    assert charge["payment_method"] == method
    assert account.get(f"/v1/payment_methods/{method}")["customer"] == customer["id"]


def test_charge_is_captured_later_once(account: Account) -> None:
    terms = {"amount": 999, "currency": "usd", "source": "tok_visa", "capture": "false"}
    id = account.post("/v1/charges", **terms)["id"]
    assert account.post(f"/v1/charges/{id}/capture", amount=900)["amount_captured"] == 900
    again = account.post(f"/v1/charges/{id}/capture")
    assert again.error["code"] == "charge_already_captured"


def test_refunds_never_exceed_their_charge(account: Account) -> None:
    intent = account.paid(1000)
    first = account.post("/v1/refunds", payment_intent=intent["id"], amount=400)
    assert (first["status"], first["charge"]) == ("succeeded", intent["latest_charge"])
    more = account.post("/v1/refunds", charge=intent["latest_charge"], amount=601)
    assert more.status == 400
    assert more.error["message"] == (
        "Refund amount ($6.01) is greater than unrefunded amount on charge ($6.00)"
    )
    assert more.error["param"] == "amount"
    rest = account.post("/v1/refunds", charge=intent["latest_charge"], reason="duplicate")
    assert rest["amount"] == 600
    again = account.post("/v1/refunds", charge=intent["latest_charge"])
    assert again.error["code"] == "charge_already_refunded"
    charge = account.get(f"/v1/charges/{intent['latest_charge']}")
    assert (charge["refunded"], charge["amount_refunded"]) == (True, 1000)
    listed = account.get("/v1/refunds", f"charge={charge['id']}")["data"]
    assert [one["amount"] for one in listed] == [600, 400]


@pytest.mark.parametrize("params", [{}, {"amount": 0}, {"amount": -5}, {"reason": "bored"}])
def test_refund_that_makes_no_sense_is_refused(account: Account, params: dict[str, Any]) -> None:
    charge = {"charge": account.paid()["latest_charge"]} if params else {}
    assert account.post("/v1/refunds", **charge, **params).status == 400
    assert account.store.count("refunds") == 0


def test_what_did_not_succeed_cannot_be_refunded(account: Account) -> None:
    failed = account.paid(payment_method="pm_card_chargeDeclined").error
    assert account.post("/v1/refunds", charge=failed["charge"]).status == 400
    open = account.post("/v1/payment_intents", amount=100, currency="usd")["id"]
    assert account.post("/v1/refunds", payment_intent=open).status == 400


def test_balance_is_what_transactions_add_up_to(account: Account) -> None:
    intent = account.paid(10_000)
    account.post("/v1/refunds", payment_intent=intent["id"], amount=1000)
    account.paid(5000, currency="eur")
    account.paid(2000, payment_method="pm_card_bypassPending")
    balance = account.get("/v1/balance")
    pending = {one["currency"]: one["amount"] for one in balance["pending"]}
    available = {one["currency"]: one["amount"] for one in balance["available"]}
    assert pending == {"usd": 10_000 - 320 - 1000, "eur": 5000 - 175}
    assert available == {"usd": 2000 - 88, "eur": 0}
    listed = account.get("/v1/balance_transactions", "type=refund")["data"]
    assert [(one["amount"], one["fee"], one["net"]) for one in listed] == [(-1000, 0, -1000)]


def test_invoice_is_drafted_finalized_and_paid(account: Account) -> None:
    customer = account.post("/v1/customers", email="a@b.example")["id"]
    invoice = account.post("/v1/invoices", customer=customer)["id"]
    account.post(
        "/v1/invoiceitems", customer=customer, invoice=invoice, amount=1500, currency="usd"
    )
    path = f"/v1/invoices/{invoice}"
    final = account.post(f"{path}/finalize")
    assert (final["status"], final["amount_due"]) == ("open", 1500)
    assert final["lines"]["data"][0]["amount"] == 1500
    assert account.post(f"{path}/pay").status == 400
    declined = account.post(f"{path}/pay", payment_method="pm_card_chargeDeclined")
    assert declined.status == 402
    assert account.get(path)["status"] == "open"
    paid = account.post(f"{path}/pay", payment_method="pm_card_visa")
    assert (paid["status"], paid["amount_paid"], paid["amount_remaining"]) == ("paid", 1500, 0)
    assert account.post(f"{path}/pay", payment_method="pm_card_visa").status == 400
    assert account.store.count("charges", {"status": "succeeded"}) == 1


def test_product_with_prices_is_sold_by_invoice(account: Account) -> None:
    product = account.post("/v1/products", name="Hat", default_price_data__currency="usd",
                           default_price_data__unit_amount=700)  # fmt: skip
    price = product["default_price"]
    assert account.get(f"/v1/prices/{price}")["unit_amount"] == 700
    customer = account.post("/v1/customers")["id"]
    account.post("/v1/invoiceitems", customer=customer, pricing__price=price, quantity=3)
    invoice = account.post(
        "/v1/invoices", customer=customer, pending_invoice_items_behavior="include"
    )
    assert invoice["total"] == 2100
    only = account.get("/v1/prices", f"product={product['id']}&active=true")["data"]
    assert [one["id"] for one in only] == [price]
