"""Amounts of money: whole numbers of the smallest unit, and what a currency has of those."""

from __future__ import annotations

from paddock.world.services.payments.errors import Refusal
from paddock.world.services.payments.params import Params, lacking

MOST = 99_999_999
# fmt: off
ZERO_DECIMAL = frozenset({
    "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv",
    "xaf", "xof", "xpf",
})
CURRENCIES = ZERO_DECIMAL | {
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
