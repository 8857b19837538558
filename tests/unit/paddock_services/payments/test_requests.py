"""What holds for every request: who may ask, what is refused and how, keys, pages, expansions."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from cases import for_each
from unit.paddock_services.payments.accounts import Account


def _basic(text: str) -> list[tuple[bytes, bytes]]:
    return [(b"Authorization", b"Basic " + base64.b64encode(text.encode()))]


@pytest.mark.parametrize(
    "auth",
    [
        _basic("sk_test_1:"),
        _basic("rk_test_1:x"),
        [(b"authorization", b"bearer sk_live_1")],
        [(b"authorization", b"Bearer paddock_STRIPE_KEY_0123456789ab")],
    ],
)
def test_a_secret_key_is_let_in(account: Account, auth: Any) -> None:
    assert account.send("GET", "/v1/customers", auth=auth).status == 200


@for_each(
    "auth",
    [
        [],
        [(b"Authorization", b"")],
        [(b"Authorization", b"Bearer ")],
        [(b"Authorization", b"Bearer pk_test_1")],
        [(b"Authorization", b"Bearer hello")],
        [(b"Authorization", b"Basic !!!")],
        _basic(":sk_test_1"),
        [(b"Authorization", b"Digest sk_test_1")],
    ],
)
def test_without_a_secret_key_nothing_is_done(account: Account, auth: Any) -> None:
    answer = account.send("POST", "/v1/customers", auth=auth)
    assert answer.status == 401
    assert answer.error["type"] == "invalid_request_error"
    assert account.store.count("customers") == 0


def test_wrong_key_is_not_repeated_in_full(account: Account) -> None:
    auth = [(b"Authorization", b"Bearer my-very-secret-password")]
    answer = account.send("GET", "/v1/balance", auth=auth)
    assert "very-secret" not in answer.error["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/unheard_of"),
        ("GET", "/"),
        ("PUT", "/v1/customers"),
        ("GET", "/v2/customers"),
        ("GET", "/v1/customers/{}/payment_methods/{}/more"),
        ("POST", "/v1/balance"),
        ("DELETE", "/v1/payment_intents/pi_1"),
    ],
)
def test_unknown_address_is_said_in_stripes_shape(account: Account, method: str, path: str) -> None:
    answer = account.send(method, path)
    assert answer.status == 404
    assert answer.error["message"].startswith(f"Unrecognized request URL ({method}: {path})")
    assert "code" not in answer.error


def test_answers_carry_a_request_id_and_a_version(account: Account) -> None:
    first = account.get("/v1/balance")
    second = account.send("GET", "/v1/balance", headers=[(b"Stripe-Version", b"2024-06-20")])
    assert first.headers["request-id"].startswith("req_")
    assert first.headers["request-id"] != second.headers["request-id"]
    assert first.headers["stripe-version"] == "2025-09-30.clover"
    assert second.headers["stripe-version"] == "2024-06-20"


def test_version_that_is_none_is_refused(account: Account) -> None:
    answer = account.send("GET", "/v1/balance", headers=[(b"Stripe-Version", b"newest")])
    assert answer.status == 400


def test_missing_thing_is_404_in_the_address_and_400_in_a_parameter(account: Account) -> None:
    address = account.get("/v1/customers/cus_none")
    assert (address.status, address.error["code"]) == (404, "resource_missing")
    assert address.error["message"] == "No such customer: 'cus_none'"
    assert address.error["doc_url"].endswith("/resource-missing")
    param = account.post("/v1/payment_intents", amount=100, currency="usd", customer="cus_none")
    assert (param.status, param.error["code"]) == (400, "resource_missing")
    assert param.error["param"] == "customer"


@for_each(
    ("params", "code", "param"),
    [
        ({"currency": "usd"}, "parameter_missing", "amount"),
        ({"amount": 100}, "parameter_missing", "currency"),
        ({"amount": "", "currency": "usd"}, "parameter_invalid_empty", "amount"),
        ({"amount": "12.5", "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": "1" * 30, "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": "٣٤٥", "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": -5, "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": 49, "currency": "usd"}, "amount_too_small", "amount"),
        ({"amount": 100_000_000, "currency": "usd"}, "amount_too_large", "amount"),
        ({"amount": 100, "currency": "xxx"}, None, "currency"),
        ({"amount": 100, "currency": "usd", "amout": 1}, "parameter_unknown", "amout"),
        ({"amount": 100, "currency": "usd", "confirm": "maybe"}, None, "confirm"),
        ({"amount": 100, "currency": "usd", "capture_method": "x"}, None, "capture_method"),
        ({"amount": 90, "currency": "usd", "receipt_email": "x"}, "email_invalid", "receipt_email"),
        ({"amount": 100, "currency": "usd", "customer": ""}, "parameter_invalid_empty", "customer"),
        ({"amount": 100, "currency": "usd", "shipping": "x"}, None, "shipping"),
        ({"amount__a": 100, "currency": "usd"}, None, "amount"),
    ],
)  # fmt: skip
def test_wrong_parameter_is_named(
    account: Account, params: dict[str, Any], code: str | None, param: str
) -> None:
    answer = account.post("/v1/payment_intents", **params)
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert (answer.error.get("code"), answer.error.get("param")) == (code, param)
    assert account.store.kinds() == []


@for_each(
    ("path", "params", "param"),
    [
        ("/v1/customers", {"invoice_prefix": "A"}, "invoice_prefix"),
        ("/v1/prices", {"product_data__name": "Hat", "currency": "usd"}, "product_data"),
    ],
)  # fmt: skip
def test_parameter_that_would_have_no_effect_here_is_refused_by_name(
    account: Account, path: str, params: dict[str, Any], param: str
) -> None:
    answer = account.post(path, **params)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert answer.error["message"] == f"This stand-in does not support {param}."
    assert account.store.kinds() == []


def test_prices_are_listed_by_their_lookup_keys(account: Account) -> None:
    product = account.post("/v1/products", name="Hat")["id"]
    terms = {"product": product, "currency": "usd", "unit_amount": 700}
    price = account.post("/v1/prices", lookup_key="hat", **terms)["id"]
    account.post("/v1/prices", **terms)
    assert [one["id"] for one in account.get("/v1/prices", "lookup_keys[]=hat")["data"]] == [price]
    assert account.get("/v1/products", "ids[]=other")["data"] == []


def test_body_that_is_no_form_is_refused(account: Account) -> None:
    request = [(b"content-type", b"application/json")]
    answer = account.send("POST", "/v1/customers", body=b"{}", headers=request)
    assert answer.status == 400
    assert account.store.count("customers") == 0


def test_body_that_is_too_large_is_refused_before_it_is_read(account: Account) -> None:
    answer = account.send("POST", "/v1/customers", body=b"name=" + b"a" * (1 << 20))
    assert answer.status == 413


def test_metadata_is_merged_and_deleted_by_an_empty_value(account: Account) -> None:
    id = account.post("/v1/customers", metadata__a=1, metadata__b=2)["id"]
    path = f"/v1/customers/{id}"
    assert account.post(path, metadata__b=3, metadata__c=4)["metadata"] == {
        "a": "1", "b": "3", "c": "4"
    }  # fmt: skip
    assert account.post(path, metadata__a="")["metadata"] == {"b": "3", "c": "4"}
    assert account.post(path, name="x")["metadata"] == {"b": "3", "c": "4"}
    assert account.post(path, metadata="")["metadata"] == {}


@pytest.mark.parametrize(
    "params",
    [
        {f"metadata__k{number}": "v" for number in range(51)},
        {"metadata__" + "k" * 41: "v"},
        {"metadata__k": "v" * 501},
        {"metadata__k__deeper": "v"},
    ],
)
def test_metadata_has_limits(account: Account, params: dict[str, Any]) -> None:
    assert account.post("/v1/customers", **params).status == 400


# Idempotency keys


def test_same_key_and_parameters_are_answered_and_not_done_again(account: Account) -> None:
    first = account.post("/v1/customers", key="k", name="A")
    again = account.post("/v1/customers", key="k", name="A")
    assert again.body == first.body
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["original-request"] == first.headers["request-id"]
    assert "idempotent-replayed" not in first.headers
    assert account.store.count("customers") == 1


def test_replay_is_the_answer_of_then_and_not_of_now(account: Account) -> None:
    first = account.post("/v1/customers", key="k", name="A")
    account.post(f"/v1/customers/{first['id']}", name="B")
    assert account.post("/v1/customers", key="k", name="A")["name"] == "A"


def test_same_key_for_other_parameters_is_an_error(account: Account) -> None:
    account.post("/v1/customers", key="k", name="A")
    other = account.post("/v1/customers", key="k", name="B")
    assert (other.status, other.error["type"]) == (400, "idempotency_error")
    elsewhere = account.post("/v1/products", key="k", name="A")
    assert (elsewhere.status, elsewhere.error["type"]) == (400, "idempotency_error")
    assert account.store.count("customers") == 1


def test_order_of_parameters_does_not_make_another_request(account: Account) -> None:
    account.post("/v1/customers", key="k", name="A", phone="1")
    again = account.post("/v1/customers", key="k", phone="1", name="A")
    assert again.headers["idempotent-replayed"] == "true"


def test_decline_is_kept_with_its_key(account: Account) -> None:
    terms = {"amount": 500, "currency": "usd", "confirm": "true"}
    bad = "pm_card_chargeDeclined"
    first = account.post("/v1/payment_intents", key="k", payment_method=bad, **terms)
    again = account.post("/v1/payment_intents", key="k", payment_method=bad, **terms)
    assert (first.status, again.status) == (402, 402)
    assert again.body == first.body
    assert account.store.count("charges") == 1


def test_request_that_was_never_begun_leaves_its_key_free(account: Account) -> None:
    assert account.post("/v1/customers", key="k", email="not a mail").status == 400
    assert account.post("/v1/customers", key="k", email="a@b.example").status == 200


def test_key_is_kept_in_the_store_and_forks_with_it(account: Account) -> None:
    first = account.post("/v1/customers", key="k", name="A")
    other = Account(account.store.path.with_name("fork.sqlite"))
    other.store.close()
    other.store.path.unlink()
    account.store.snapshot(other.store.path)
    other = Account(other.store.path)
    assert other.post("/v1/customers", key="k", name="A").body == first.body
    other.store.close()


def test_key_that_is_too_long_is_refused(account: Account) -> None:
    assert account.post("/v1/customers", key="k" * 256).error["type"] == "idempotency_error"


# Pages and filters


def test_pages_are_newest_first_and_reach_everything_once(account: Account) -> None:
    made = [account.post("/v1/customers", name=str(n))["id"] for n in range(7)]
    seen: list[str] = []
    query = "limit=3"
    while True:
        page = account.get("/v1/customers", query)
        seen += [one["id"] for one in page["data"]]
        if not page["has_more"]:
            break
        query = f"limit=3&starting_after={seen[-1]}"
    assert seen == made[::-1]


def test_page_before_something_ends_right_before_it(account: Account) -> None:
    made = [account.post("/v1/customers")["id"] for _ in range(6)]
    page = account.get("/v1/customers", f"limit=2&ending_before={made[1]}")
    assert [one["id"] for one in page["data"]] == [made[3], made[2]]
    assert page["has_more"] is True
    last = account.get("/v1/customers", f"limit=2&ending_before={made[3]}")
    assert [one["id"] for one in last["data"]] == [made[5], made[4]]
    assert last["has_more"] is False


@for_each(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("starting_after=cus_none", "starting_after"),
        ("starting_after=", "starting_after"),
        ("created[about]=3", "created[about]"),
        ("created[gte]=x", "created[gte]"),
        ("emial=x", "emial"),
    ],
)
def test_wrong_page_is_refused(account: Account, query: str, param: str) -> None:
    answer = account.get("/v1/customers", query)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_lists_are_filtered_by_time(account: Account) -> None:
    times = [account.post("/v1/customers")["created"] for _ in range(4)]

    def found(query: str) -> list[int]:
        return [one["created"] for one in account.get("/v1/customers", query)["data"]]

    assert found(f"created[gte]={times[2]}") == [times[3], times[2]]
    assert found(f"created[gt]={times[2]}") == [times[3]]
    assert found(f"created[lt]={times[1]}") == [times[0]]
    assert found(f"created[gt]={times[0]}&created[lte]={times[2]}&limit=1") == [times[2]]
    assert found(f"created={times[1]}") == [times[1]]


def test_filter_that_names_nothing_there_is_an_error(account: Account) -> None:
    answer = account.get("/v1/charges", "customer=cus_none")
    assert (answer.status, answer.error["code"]) == (400, "resource_missing")


def test_deleted_customer_is_in_no_list_and_says_that_it_is_deleted(account: Account) -> None:
    id = account.post("/v1/customers")["id"]
    assert account.send("DELETE", f"/v1/customers/{id}")["deleted"] is True
    assert account.get("/v1/customers")["data"] == []
    assert account.get(f"/v1/customers/{id}").body == {
        "id": id, "object": "customer", "deleted": True
    }  # fmt: skip
    assert account.post(f"/v1/customers/{id}", name="x").status == 404
    taken = account.post("/v1/payment_intents", amount=100, currency="usd", customer=id)
    assert taken.error["code"] == "resource_missing"


# Expansion


def test_ids_are_expanded_also_deeper_and_in_lists(account: Account) -> None:
    customer = account.post("/v1/customers", name="A")["id"]
    intent = account.paid(customer=customer)
    account.post("/v1/refunds", payment_intent=intent["id"], amount=100)
    query = "expand[]=latest_charge.balance_transaction&expand[]=customer"
    one = account.get(f"/v1/payment_intents/{intent['id']}", query)
    assert one["customer"]["name"] == "A"
    assert one["latest_charge"]["balance_transaction"]["fee"] == 88
    listed = account.get("/v1/charges", "expand[]=data.payment_intent.customer")
    assert listed["data"][0]["payment_intent"]["customer"]["name"] == "A"
    charge = account.get(f"/v1/charges/{intent['latest_charge']}", "expand[0]=refunds")
    assert [refund["amount"] for refund in charge["refunds"]["data"]] == [100]
    money = account.get("/v1/balance_transactions", "expand[]=data.source")
    assert {one["source"]["object"] for one in money["data"]} == {"charge", "refund"}


@pytest.mark.parametrize("path", ["amount", "nothing", "customer.nothing", "a.b.c.d.e"])
def test_what_cannot_be_expanded_is_refused(account: Account, path: str) -> None:
    customer = account.post("/v1/customers")["id"]
    id = account.paid(customer=customer)["id"]
    answer = account.get(f"/v1/payment_intents/{id}", f"expand[]={path}")
    assert (answer.status, answer.error["param"]) == (400, "expand")


def test_expansion_that_is_refused_undoes_the_write(account: Account) -> None:
    answer = account.post("/v1/customers", name="A", **{"expand__": "nothing"})
    assert answer.status == 400
    assert account.store.count("customers") == 0


def test_events_tell_of_each_change_with_what_was_before(account: Account) -> None:
    id = account.post("/v1/customers", key="k", name="A")["id"]
    account.post(f"/v1/customers/{id}", name="B")
    account.post(f"/v1/customers/{id}", name="B")
    updated, created = account.get("/v1/events")["data"]
    assert (updated["type"], created["type"]) == ("customer.updated", "customer.created")
    assert updated["data"]["previous_attributes"] == {"name": "A"}
    assert updated["data"]["object"]["name"] == "B"
    assert created["request"]["idempotency_key"] == "k"
    assert updated["request"]["idempotency_key"] is None
    only = account.get("/v1/events", "types[]=customer.updated&types[]=charge.*")["data"]
    assert [event["id"] for event in only] == [updated["id"]]
    assert account.get(f"/v1/events/{created['id']}").body == created
