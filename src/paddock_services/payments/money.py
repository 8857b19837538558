"""Amounts of money: whole numbers of a currency's smallest unit."""

from __future__ import annotations

from paddock.model.money import ZERO_DECIMAL
from paddock_services.payments.errors import Refusal

MAX_AMOUNT = 99_999_999
_LEAST = {"usd": 50, "eur": 50, "aud": 50, "cad": 50, "chf": 50, "gbp": 30, "jpy": 50, "mxn": 1000}
_SIGNS = {"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥"}


def check_amount(amount: int, currency: str) -> None:
    """Raise Refusal for an amount that cannot be charged."""
    least = _LEAST.get(currency, 1)
    if amount < least:
        message = f"Amount must be at least {format_money(least, currency)} {currency}"
        raise Refusal(message, code="amount_too_small", param="amount")
    if amount > MAX_AMOUNT:
        message = f"Amount must be no more than {format_money(MAX_AMOUNT, currency)}"
        raise Refusal(message, code="amount_too_large", param="amount")


def format_money(amount: int, currency: str) -> str:
    """Return an amount for people: `$12.50`."""
    sign = _SIGNS.get(currency, "")
    if currency in ZERO_DECIMAL:
        return f"{sign}{amount:,}"
    minus = "-" if amount < 0 else ""
    return f"{minus}{sign}{abs(amount) // 100:,}.{abs(amount) % 100:02d}"


def processing_fee(amount: int) -> int:
    """Return 2.9 % and 30, rounded half up."""
    return (amount * 29 + 500) // 1000 + 30
