"""Requests that nobody should send. Each gets an answer, and none harms the books."""

from __future__ import annotations

import random
from urllib.parse import quote

import pytest

from paddock_services.payments.service import OPERATIONS
from unit.paddock_services.payments.accounts import Account

_VALUES = ["", "x", "-1", "0", "1", "9" * 20, "true", "\x00", "null", "cus_none", "usd", "card",
           "💥" * 10, "a" * 6000, "' OR 1=1 --", "pm_card_visa", "tok_visa", "2030"]  # fmt: skip
_BRACKETS = ["", "", "", "[]", "[a]", "[0][b]", "[enabled]", "[number]", "[price]", "[gte]"]


@pytest.mark.parametrize("seed", range(3))
def test_nonsense_to_every_address_is_answered(account: Account, seed: int) -> None:
    ids = _things(account)
    chance = random.Random(seed)
    for operation in [one for one in OPERATIONS if one.method != "DELETE"] * 2:
        kind = operation.path.split("/")[0]
        first = chance.choice([ids.get(kind, "x"), ids.get(kind, "x"), "none", "a%00b", "{}"])
        path = f"/v1/{operation.path.replace('{id}', first)}"
        known = sorted(operation.parameters)
        names = chance.sample(known, min(len(known), chance.randint(0, 6)))
        values = [*_VALUES, *ids.values()]
        form = "&".join(
            f"{name}{chance.choice(_BRACKETS)}={quote(chance.choice(values))}" for name in names
        )
        is_read = operation.method == "GET"
        query, body = (form, b"") if is_read else ("", form.encode())
        answer = account.send(operation.method, path, query=query, body=body)
        assert answer.status in (200, 400, 402, 404), (operation, path, form)


def _things(account: Account) -> dict[str, str]:
    """One of each kind, as it was made."""
    customer = account.post("/v1/customers", source="tok_visa")["id"]
    intent = account.paid(customer=customer)
    method = account.post("/v1/payment_methods/pm_card_visa/attach", customer=customer)["id"]
    invoice = account.post("/v1/invoices", customer=customer)["id"]
    item = account.post("/v1/invoiceitems", customer=customer, invoice=invoice, amount=100)["id"]
    product = account.post("/v1/products", name="Hat", default_price_data__currency="usd",
                           default_price_data__unit_amount=700)  # fmt: skip
    return {
        "customers": customer, "payment_intents": intent["id"], "charges": intent["latest_charge"],
        "payment_methods": method, "invoices": invoice, "invoiceitems": item,
        "products": product["id"], "prices": product["default_price"],
    }  # fmt: skip


def test_invoice_of_a_deleted_customer_cannot_be_finalized(account: Account) -> None:
    things = _things(account)
    account.send("DELETE", f"/v1/customers/{things['customers']}")
    for verb in ("finalize", "pay"):
        answer = account.post(f"/v1/invoices/{things['invoices']}/{verb}")
        assert (answer.status, answer.error["code"]) == (400, "resource_missing")


@pytest.mark.parametrize("path", ["/v1/customers/{}", "/v1/charges/{}/refunds", "/v1/customers//"])
def test_braces_in_an_address_are_an_id_like_any_other(account: Account, path: str) -> None:
    assert account.get(path).status in (200, 404)


def test_product_is_not_replaced_by_one_with_the_same_id(account: Account) -> None:
    account.post("/v1/products", id="hat", name="Hat")
    answer = account.post("/v1/products", id="hat", name="Other")
    assert answer.error["code"] == "resource_already_exists"
    assert account.get("/v1/products/hat")["name"] == "Hat"


def test_refund_of_another_intents_charge_is_refused(account: Account) -> None:
    one, other = account.paid(), account.paid()
    answer = account.post("/v1/refunds", charge=one["latest_charge"], payment_intent=other["id"])
    assert answer.status == 400
    assert account.store.count("refunds") == 0


def test_key_is_not_a_way_around_the_checks_of_another_request(account: Account) -> None:
    id = account.paid(1000)["id"]
    account.post("/v1/refunds", key="k", payment_intent=id, amount=600)
    again = account.post("/v1/refunds", key="k", payment_intent=id, amount=600)
    assert again.headers["idempotent-replayed"] == "true"
    assert account.post("/v1/refunds", key="other", payment_intent=id, amount=600).status == 400
    assert account.store.count("refunds") == 1
