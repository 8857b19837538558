from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock_services.payments.errors import Refusal
from paddock_services.payments.search import parse_query
from unit.paddock_services.payments.accounts import Account


def _names(account: Account, query: str, more: str = "") -> list[str]:
    path = "/v1/customers/search"
    found = account.get(path, f"query={quote(query)}{more}")["data"]
    return [one["name"] for one in found]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("email:'a@x.example'", ["A"]),
        ('email:"A@X.EXAMPLE"', ["A"]),
        ("email~'x.exam'", ["B", "A"]),
        ("metadata['order']:'7'", ["B"]),
        ("-metadata['order']:'7'", ["It's", "A"]),
        ("metadata['order']:null", ["It's", "A"]),
        ("name:'A' OR name:'B'", ["B", "A"]),
        ("email~'x.example' AND -name:'A'", ["B"]),
        ("email~'x.example' name:'B'", ["B"]),
        (r"name:'It\'s'", ["It's"]),
        ("created>1767225601", ["It's", "B"]),
        ("created<=1767225601", ["A"]),
        ("name:'nobody'", []),
    ],
)
def test_search_finds_what_the_query_says(account: Account, query: str, names: list[str]) -> None:
    account.post("/v1/customers", name="A", email="a@x.example")
    account.post("/v1/customers", name="B", email="b@x.example", metadata__order=7)
    account.post("/v1/customers", name="It's")
    assert _names(account, query) == names


def test_search_goes_on_at_its_next_page(account: Account) -> None:
    for number in range(5):
        account.post("/v1/customers", name=str(number), phone="1")
    first = account.get("/v1/customers/search", "query=phone:'1'&limit=3")
    assert (first["object"], first["has_more"]) == ("search_result", True)
    rest = _names(account, "phone:'1'", f"&limit=3&page={first['next_page']}")
    assert [one["name"] for one in first["data"]] + rest == ["4", "3", "2", "1", "0"]


def test_payments_are_found_by_status(account: Account) -> None:
    account.paid(3000)
    account.paid(500, payment_method="pm_card_chargeDeclined")
    found = account.get("/v1/payment_intents/search", "query=status:'succeeded' AND amount>1000")
    assert [one["amount"] for one in found["data"]] == [3000]
    failed = account.get("/v1/charges/search", "query=status:'failed'")["data"]
    assert [one["amount"] for one in failed] == [500]


@for_each(
    "query",
    ["", "email", "email:", "email:'a", "a b c", "salary:'1'", "name:'a' AND", "AND name:'a'",
     "name:'a' AND name:'b' OR name:'c'", "name:'a' " * 20, "name:'" + "\\" * 1999],
)  # fmt: skip
def test_query_that_cannot_be_read_is_refused(account: Account, query: str) -> None:
    assert account.get("/v1/customers/search", f"query={quote(query)}").status == 400


@given(st.text(alphabet="name:'\"\\[]-~ANDOR <>=1", max_size=200))
def test_any_query_is_read_or_refused(query: str) -> None:
    try:
        assert parse_query(query, ("name",))({"name": "a"}) in (True, False)
    except Refusal as refusal:
        assert refusal.reply.status == 400
