"""The seed, the invariants, what is shown, and that a run can be had again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.world.registry import load_service
from paddock_services.payments import Payments
from unit.paddock_services.payments.accounts import Account


def test_it_is_the_service_that_the_file_calls_payments() -> None:
    assert load_service("payments") is Payments
    assert Payments.name == "payments"


@pytest.mark.parametrize(
    "options", [{"api_version": "new"}, {"currency": "xxx"}, {"leave_out_unusable": "yes"}]
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Account(tmp_path / "x.sqlite", **options)


# The seed


def test_lean_seed_becomes_full_documents_that_fit_together(account: Account) -> None:
    account.service.seed(
        {
            "customers": [
                {"email": "a@b.example", "name": "A", "notes": "pays late"},
                {"id": "c2"},
            ],
            "payment_intents": [
                {"amount": 700, "customer": "c2"},
                {"amount": 800, "status": "requires_capture"},
                {"amount": 900, "status": "requires_payment_method"},
            ],
            "charges": [
                {"customer": "a@b.example", "amount": 5000},
                {"amount": 900, "amount_refunded": 300},
                {"amount": 100, "refunded": True, "currency": "EUR"},
                {"amount": 60, "status": "failed"},
                {"id": "ch_x", "amount": 1000, "amount_captured": 600, "amount_refunded": 500},
            ],
            "refunds": [{"charge": "ch_x", "amount": 50}],
            "products": [{"id": "p", "name": "Hat"}],
            "prices": [{"product": "p", "unit_amount": 700}],
            "invoices": [{"customer": "c2", "amount": 1200}, {"customer": "c2", "status": "paid"}],
        }
    )
    assert account.service.invariants() == []
    customer = account.get("/v1/customers", "email=a@b.example")["data"][0]
    assert customer["metadata"] == {"notes": "pays late"}
    charge = account.get("/v1/charges", f"customer={customer['id']}&expand[]=data.customer")
    assert charge["data"][0]["customer"]["name"] == "A"
    open = account.get("/v1/invoices", "status=open")["data"]
    assert [one["amount_remaining"] for one in open] == [1200]
    half = account.get("/v1/charges/ch_x")
    assert (half["amount_captured"], half["amount_refunded"]) == (600, 500)
    states = [one["status"] for one in account.store.find("payment_intents")]
    assert sorted(states) == ["requires_capture", "requires_payment_method", "succeeded"]
    net = sum(one["net"] for one in account.store.find("balance_transactions", {"currency": "usd"}))
    available = {one["currency"]: one["amount"] for one in account.get("/v1/balance")["available"]}
    assert available["usd"] == net


def test_seeded_charge_can_be_refunded_like_any_other(account: Account) -> None:
    account.service.seed({"charges": [{"id": "ch_a", "amount": 500, "amount_refunded": 200}]})
    assert account.post("/v1/refunds", charge="ch_a", amount=301).status == 400
    assert account.post("/v1/refunds", charge="ch_a")["amount"] == 300


def test_full_documents_of_an_account_are_taken_over(account: Account) -> None:
    intent = account.paid(2000, description="x")
    account.post("/v1/refunds", payment_intent=intent["id"], amount=100)
    kinds = ("customers", "payment_methods", "payment_intents", "charges", "refunds")
    documents = {kind: account.store.find(kind) for kind in kinds}
    other = Account(account.store.path.with_name("other.sqlite"))
    other.service.seed(documents)
    assert other.service.invariants() == []
    assert other.store.find("payment_intents") == documents["payment_intents"]
    made = {"balance_transaction": None}  # anew, since none were in the seed
    charges = [[charge | made for charge in one.store.find("charges")] for one in (account, other)]
    assert charges[0] == charges[1]
    other.store.close()


@for_each(
    ("kind", "document"),
    [
        ("charges", {"amount": 0}),
        ("charges", {"amount": "100"}),
        ("charges", {"amount": True}),
        ("charges", {}),
        ("charges", {"amount": 100, "customer": "nobody"}),
        ("charges", {"amount": 100, "payment_intent": "pi_none"}),
        ("charges", {"amount": 100, "amount_refunded": 101}),
        ("charges", {"amount": 100, "currency": "xxx"}),
        ("charges", {"amount": 100, "status": "lost"}),
        ("refunds", {"charge": "ch_none"}),
        ("payment_intents", {"amount": 100, "status": "odd"}),
        ("prices", {"product": "none", "unit_amount": 1}),
        ("payment_methods", {"card": "library"}),
        ("events", {"type": "customer.created"}),
        ("invoices", {"amount": 7}),
        ("invoices", {"customer": "c", "status": "odd"}),
        ("horses", {"id": "h"}),
    ],
)
def test_seed_that_cannot_be_is_refused_whole(
    account: Account, kind: str, document: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        account.service.seed({"customers": [{"id": "c"}], kind: [document]})
    assert account.store.kinds() == []


def test_what_no_account_can_have_is_left_out_on_request(tmp_path: Path) -> None:
    account = Account(tmp_path / "x.sqlite", leave_out_unusable=True)
    account.service.seed(
        {"charges": [{"amount": -1}, {"amount": 100}, {"amount": 9, "customer": "?"}]}
    )
    assert account.store.count("charges") == 1
    assert account.service.invariants() == []


# Invariants


def _change(kind: str, **fields: Any) -> Callable[[Account], None]:
    def change(account: Account) -> None:
        document = account.store.find(kind, newest_first=True)[0]
        account.store.put(kind, document["id"], document | fields)

    return change


def _second_charge(account: Account) -> None:
    charge = account.store.find("charges")[0]
    account.store.put("charges", "ch_again", charge | {"id": "ch_again", "amount_refunded": 0})


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_change("charges", amount_refunded=0), "add up to"),
        (_change("refunds", amount=9999), "were refunded"),
        (_change("charges", customer="cus_none"), "names customer cus_none"),
        (_change("charges", payment_intent="pi_none"), "names payment_intent pi_none"),
        (_change("payment_intents", amount_received=1), "were received"),
        (_change("payment_intents", latest_charge="ch_none"), "names latest_charge"),
        (_change("balance_transactions", net=1), "the balance has"),
        (_change("balance_transactions", amount=1), "is over 1"),
        (_change("refunds", charge="ch_none"), "which is not there"),
        (_second_charge, "paid twice"),
    ],
)
def test_harm_to_the_books_is_found(
    tmp_path: Path, harm: Callable[[Account], None], words: str
) -> None:
    account = Account(tmp_path / "x.sqlite")
    id = account.paid(1000)["id"]
    account.post("/v1/refunds", payment_intent=id, amount=300)
    assert account.service.invariants() == []
    harm(account)
    assert any(words in sentence for sentence in account.service.invariants())
    account.store.close()


_AMOUNTS = st.integers(-5, 3000)
_CARDS = st.sampled_from(
    ["pm_card_visa", "pm_card_chargeDeclined", "pm_card_authenticationRequired"]
)
_WISHES = st.one_of(
    st.tuples(st.just("pay"), _AMOUNTS, _CARDS, st.sampled_from(["automatic", "manual"])),
    st.tuples(st.sampled_from(["confirm", "capture", "cancel"]), _AMOUNTS, st.integers(0, 3)),
    st.tuples(st.just("refund"), _AMOUNTS, st.integers(0, 3)),
    st.tuples(st.just("refund intent"), _AMOUNTS, st.integers(0, 3)),
    st.tuples(st.just("charge"), _AMOUNTS, st.sampled_from(["true", "false"])),
    st.tuples(st.just("capture charge"), _AMOUNTS, st.integers(0, 3)),
)


@given(st.lists(_WISHES, max_size=12))
def test_no_order_of_requests_breaks_the_books(
    tmp_path_factory: pytest.TempPathFactory, wishes: list[tuple[Any, ...]]
) -> None:
    account = Account(tmp_path_factory.mktemp("books") / "x.sqlite")
    for wish in wishes:
        _ask(account, *wish)
        assert account.service.invariants() == []
    account.store.close()


def _ask(account: Account, what: str, amount: int, *more: Any) -> None:
    def at(kind: str, number: int) -> str:
        ids = account.store.ids(kind)
        return ids[number % len(ids)] if ids else "none"

    terms = {"amount": amount, "currency": "usd"}
    match what, more:
        case "pay", (card, method):
            account.paid(amount, payment_method=card, capture_method=method)
        case "charge", (captures,):
            account.post("/v1/charges", source="tok_visa", capture=captures, **terms)
        case "refund", (number,):
            account.post("/v1/refunds", charge=at("charges", number), amount=amount)
        case "refund intent", (number,):
            account.post("/v1/refunds", payment_intent=at("payment_intents", number))
        case "capture charge", (number,):
            account.post(f"/v1/charges/{at('charges', number)}/capture", amount=amount)
        case verb, (number,):
            params = {"confirm": {"payment_method": "pm_card_visa"}, "cancel": {}}
            path = f"/v1/payment_intents/{at('payment_intents', number)}/{verb}"
            account.post(path, **params.get(verb, {"amount_to_capture": amount}))


# The same again


def _work(account: Account) -> None:
    customer = account.post("/v1/customers", name="Zoë")["id"]
    account.get("/v1/customers")
    account.get("/v1/customers/none")
    intent = account.paid(1000, customer=customer)
    account.paid(payment_method="pm_card_chargeDeclined")
    account.post("/v1/refunds", payment_intent=intent["id"], amount=5000)
    account.post("/v1/refunds", payment_intent=intent["id"], amount=10)


def test_same_requests_end_in_the_same_state(tmp_path: Path) -> None:
    digests = set()
    for number in range(3):
        account = Account(tmp_path / f"{number}.sqlite")
        account.service.seed({"customers": [{"name": "A"}], "charges": [{"amount": 100}]})
        _work(account)
        digests.add(account.store.digest())
        account.store.close()
    assert len(digests) == 1


def test_reads_and_refusals_leave_no_trace(account: Account) -> None:
    _work(account)
    before = account.store.digest()
    account.get("/v1/events")
    account.get("/v1/charges/search", "query=status:'failed'")
    account.post("/v1/refunds", charge="none")
    account.post("/v1/payment_intents", amount=1, currency="usd")
    assert account.store.digest() == before


def test_reset_account_does_the_same_again(account: Account) -> None:
    account.service.seed({"customers": [{"name": "A"}]})
    account.store.seal()
    _work(account)
    after = account.store.digest()
    account.store.reset()
    _work(account)
    assert account.store.digest() == after


def test_client_that_makes_up_its_keys_changes_only_what_is_kept_of_keys(tmp_path: Path) -> None:
    states = []
    for key in ("one", "other"):
        account = Account(tmp_path / f"{key}.sqlite")
        account.post("/v1/customers", key=key, name="A")
        assert account.store.ids(".idempotency_keys") == [key]
        states.append(account.store.digest())
        account.store.close()
    assert states[0] == states[1]


def test_people_are_shown_sums_and_the_latest(account: Account) -> None:
    intent = account.paid(1250)
    account.paid(500, payment_method="pm_card_chargeDeclined")
    account.post("/v1/refunds", payment_intent=intent["id"], amount=50)
    shown = account.service.show()
    assert shown["charges"]["succeeded"] == {"count": 1, "amount": {"usd": 1250}}
    assert shown["charges"]["failed"]["count"] == 1
    assert shown["balance"]["usd"]["pending"] == "$11.34"
    assert shown["last_refunds"][0]["amount"] == "$0.50"
