"""Amounts in the smallest unit of a currency, for people."""

from __future__ import annotations

from typing import Any

import pytest

from cases import for_each
from paddock.cli.render.calls import call_summary
from paddock.model.money import amount_text, money_in


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (2000, "eur", "20.00 EUR"),
        ("2000", "usd", "20.00 USD"),  # of a form
        (5, "usd", "0.05 USD"),
        (-1250, "gbp", "-12.50 GBP"),
        (123456789, "usd", "1,234,567.89 USD"),
        (2000, "jpy", "2,000 JPY"),
        (0, "krw", "0 KRW"),
        (1234, "kwd", "1.234 KWD"),
    ],
)
def test_whole_amount_of_a_known_currency_is_money(amount: Any, currency: str, shown: str) -> None:
    assert money_in({"amount": amount, "currency": currency}) == shown


@pytest.mark.parametrize(
    "values",
    [
        {"amount": 2000},
        {"currency": "eur"},
        {"amount": 2000, "currency": "zzz"},
        {"amount": 20, "currency": "EUR"},  # as those write it who count whole euros
        {"amount": 20.0, "currency": "eur"},
        {"amount": "20.00", "currency": "eur"},
        {"amount": True, "currency": "eur"},
        {"amount": 10**30, "currency": "eur"},
        {"amount": "\u0662\u0660", "currency": "eur"},
        {"amount": 2000, "currency": ["eur"]},
    ],
)
def test_what_may_mean_something_else_is_left_as_it_is(values: dict[str, Any]) -> None:
    assert money_in(values) is None


@for_each(
    ("body", "text"),
    [
        ({"amount": 2000, "currency": "eur"}, "20.00 EUR"),
        ({"amount": 2000}, "amount 2000"),
        ({"amount": 2000, "currency": "\x1b[2J"}, "amount 2000"),
        ({"amount": True, "currency": "eur"}, ""),
        ({"amount": "9" * 5000, "currency": "eur"}, ""),
        ({"amount": 1.5, "currency": "eur"}, ""),
        ([1], ""),
        (None, ""),
    ],
)
def test_amount_of_a_request_is_money_or_a_number(body: Any, text: str) -> None:
    assert amount_text({"body": body}) == text


def test_long_call_is_cut_before_its_amount() -> None:
    request = {"method": "POST", "host": "api.example", "port": 443, "path": "/" + "a" * 500,
               "body": {"amount": 2000, "currency": "eur"}}  # fmt: skip
    shown = call_summary("http", "POST api.example", request)
    assert len(shown) == 80
    assert shown.endswith("... 20.00 EUR")
