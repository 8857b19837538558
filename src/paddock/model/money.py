"""Amounts of money as Stripe writes them: whole numbers of the smallest unit of a currency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# fmt: off
ZERO_DECIMAL = frozenset({  # the smallest unit is the currency itself
    "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv",
    "xaf", "xof", "xpf",
})
THREE_DECIMALS = frozenset({"bhd", "iqd", "jod", "kwd", "lyd", "omr", "tnd"})
CURRENCIES = ZERO_DECIMAL | THREE_DECIMALS | {
    "aed", "afn", "all", "amd", "ang", "aoa", "ars", "aud", "awg", "azn", "bam", "bbd", "bdt",
    "bgn", "bmd", "bnd", "bob", "brl", "bsd", "bwp", "byn", "bzd", "cad", "cdf", "chf", "cny",
    "cop", "crc", "cve", "czk", "dkk", "dop", "dzd", "egp", "etb", "eur", "fjd", "fkp", "gbp",
    "gel", "gip", "gmd", "gtq", "gyd", "hkd", "hnl", "htg", "huf", "idr", "ils", "inr", "isk",
    "jmd", "kes", "kgs", "khr", "kyd", "kzt", "lak", "lbp", "lkr", "lrd", "lsl", "mad", "mdl",
    "mkd", "mmk", "mnt", "mop", "mur", "mvr", "mwk", "mxn", "myr", "mzn", "nad", "ngn", "nio",
    "nok", "npr", "nzd", "pab", "pen", "pgk", "php", "pkr", "pln", "qar", "ron", "rsd", "rub",
    "sar", "sbd", "scr", "sek", "sgd", "shp", "sle", "sos", "srd", "std", "szl", "thb", "tjs",
    "top", "try", "ttd", "twd", "tzs", "uah", "usd", "uyu", "uzs", "wst", "xcd", "yer", "zar",
    "zmw",
}
# fmt: on
_MAX_DIGITS = 15


def money_text(amount: int, currency: str) -> str | None:
    """Return an amount for people, `20.00 EUR`; None for a currency that is not known."""
    if currency not in CURRENCIES:
        return None
    name, minus = currency.upper(), "-" if amount < 0 else ""
    if currency in ZERO_DECIMAL:
        return f"{amount:,} {name}"
    decimals = 3 if currency in THREE_DECIMALS else 2
    whole, rest = divmod(abs(amount), 10**decimals)
    return f"{minus}{whole:,}.{rest:0{decimals}d} {name}"


def money_in(values: Mapping[str, Any]) -> str | None:
    """Return what `amount` and `currency` of a value say, for people; None where it may mean
    something else. Stripe writes a whole number and the currency in lower case: another shape may
    count whole dollars, and must not be shown as cents."""
    amount, currency = _whole_number(values.get("amount")), values.get("currency")
    if amount is None or not isinstance(currency, str):
        return None
    return money_text(amount, currency)


def amount_text(arguments: Mapping[str, Any]) -> str:
    """Return the amount that a request is about: `20.00 EUR`, or `amount 2000` where it may not be
    money. Empty where its body, of JSON or a form, has none."""
    body = arguments.get("body")
    if not isinstance(body, Mapping):
        return ""
    amount = _whole_number(body.get("amount"))
    return "" if amount is None else money_in(body) or f"amount {amount}"


def _whole_number(value: Any) -> int | None:
    """Return a whole number of usual size; all values of a form are texts."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value) if len(value) <= _MAX_DIGITS else None
    return value if type(value) is int and abs(value) < 10**_MAX_DIGITS else None
