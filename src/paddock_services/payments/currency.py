"""Amounts of money: whole numbers of the smallest unit, and what a currency has of those."""

from __future__ import annotations

from paddock.model.money import CURRENCIES, ZERO_DECIMAL
from paddock_services.payments.errors import Refusal
from paddock_services.payments.params import Params, lacking

MOST = 99_999_999
_LEAST = {"usd": 50, "eur": 50, "aud": 50, "cad": 50, "chf": 50, "gbp": 30, "jpy": 50, "mxn": 1000}
_SIGNS = {"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥"}


def currency_of(params: Params) -> str:
    """Raises Refusal for one that there is not."""
    given = params.text("currency")
    if given is None:
        raise lacking(params.full("currency"))
    if given.lower() not in CURRENCIES:
        message = f"Invalid currency: {given[:20].lower()}"
        raise Refusal(message, param=params.full("currency"))
    return given.lower()


def amount_of(params: Params, currency: str) -> int:
    """An amount that can be charged."""
    params.require("amount")
    amount = params.whole("amount", least=1)
    assert amount is not None
    check_amount(amount, currency)
    return amount


def check_amount(amount: int, currency: str) -> None:
    least = _LEAST.get(currency, 1)
    if amount < least:
        message = f"Amount must be at least {money(least, currency)} {currency}"
        raise Refusal(message, code="amount_too_small", param="amount")
    if amount > MOST:
        message = f"Amount must be no more than {money(MOST, currency)}"
        raise Refusal(message, code="amount_too_large", param="amount")


def money(amount: int, currency: str) -> str:
    """For people: `$12.50`."""
    sign = _SIGNS.get(currency, "")
    if currency in ZERO_DECIMAL:
        return f"{sign}{amount:,}"
    minus = "-" if amount < 0 else ""
    return f"{minus}{sign}{abs(amount) // 100:,}.{abs(amount) % 100:02d}"


def fee_on(amount: int) -> int:
    """2.9 % and 30, rounded half up."""
    return (amount * 29 + 500) // 1000 + 30
