"""The test cards: numbers and names that are public, and how each behaves. No other number is
accepted, so that a real one cannot get in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock_services.payments.errors import Declined, missing_param
from paddock_services.payments.params import Params


class Decline(msgspec.Struct, frozen=True):
    """A refusal by the bank."""

    code: str
    reason: str | None = None  # the decline code
    message: str = "Your card was declined."

    def error(self, **details: Any) -> Declined:
        """Return it as the answer to a request."""
        return Declined(self.message, code=self.code, decline_code=self.reason, **details)


class Card(msgspec.Struct, frozen=True):
    """A test card."""

    number: str
    brand: str = "visa"
    funding: str = "credit"
    decline: Decline | None = None
    can_attach: bool = True  # to a customer
    wants_authentication: bool = False
    is_available_at_once: bool = False  # the money is not pending first


GENERIC = Decline("card_declined", "generic_decline")
FRAUDULENT = Decline("card_declined", "fraudulent")  # refused before the bank is asked
AUTHENTICATION = Decline(
    "authentication_required",
    "authentication_required",
    "Your card was declined. This transaction requires authentication.",
)
_LIVE_CARD = Decline(
    "card_declined",
    "test_mode_live_card",
    "Your card was declined. Your request was in test mode, but used a non test card.",
)
_FUNDS = Decline("card_declined", "insufficient_funds", "Your card has insufficient funds.")
_EXPIRED = Decline("expired_card", "expired_card", "Your card has expired.")
_CVC = Decline("incorrect_cvc", "incorrect_cvc", "Your card's security code is incorrect.")
_PROCESSING = Decline(
    "processing_error",
    "processing_error",
    "An error occurred while processing your card. Try again in a little bit.",
)


def _declining(number: str, decline: Decline) -> Card:
    return Card(number, decline=decline, can_attach=False)


# By the part of the name that follows `pm_card_` and `tok_`.
BY_NAME: Mapping[str, Card] = {
    "visa": Card("4242424242424242"),
    "visa_debit": Card("4000056655665556", funding="debit"),
    "mastercard": Card("5555555555554444", "mastercard"),
    "amex": Card("378282246310005", "amex"),
    "discover": Card("6011111111111117", "discover"),
    "diners": Card("3056930009020004", "diners"),
    "jcb": Card("3566002020360505", "jcb"),
    "unionpay": Card("6200000000000005", "unionpay"),
    "bypassPending": Card("4000000000000077", is_available_at_once=True),
    "chargeDeclined": _declining("4000000000000002", GENERIC),
    "chargeDeclinedInsufficientFunds": _declining("4000000000009995", _FUNDS),
    "chargeDeclinedLostCard": _declining("4000000000009987", Decline("card_declined", "lost_card")),
    "chargeDeclinedStolenCard": _declining(
        "4000000000009979", Decline("card_declined", "stolen_card")
    ),
    "chargeDeclinedExpiredCard": _declining("4000000000000069", _EXPIRED),
    "chargeDeclinedIncorrectCvc": _declining("4000000000000127", _CVC),
    "chargeDeclinedProcessingError": _declining("4000000000000119", _PROCESSING),
    "chargeDeclinedVelocityLimitExceeded": _declining(
        "4000000000006975", Decline("card_declined", "card_velocity_exceeded")
    ),
    "radarBlock": Card("4100000000000019", decline=FRAUDULENT),
    "chargeCustomerFail": Card("4000000000000341", decline=GENERIC),
    "authenticationRequired": Card("4000002760003184", wants_authentication=True),
}
_BY_NUMBER = {card.number: card for card in BY_NAME.values()}
_BY_LOOKS = {(card.brand, card.number[-4:]): card for card in BY_NAME.values()}
_ORDINARY = Card("")
_FIELDS = ("number", "exp_month", "exp_year", "cvc", "networks", "token")


def card_named(name: str) -> Card | None:
    """Return the card of `pm_card_visa` or `tok_visa`."""
    for prefix in ("pm_card_", "tok_"):
        if name.startswith(prefix):
            short = name.removeprefix(prefix)
            return BY_NAME.get(short) or BY_NAME.get(short.removeprefix("visa_"))
    return None


def behaviour(details: Mapping[str, Any]) -> Card:
    """Return how a stored card behaves. One that is no test card came with the seed: it pays."""
    looks = str(details.get("brand")), str(details.get("last4"))
    return _BY_LOOKS.get(looks, _ORDINARY)


def read_card(params: Params, now: int) -> tuple[Card, int, int]:
    """Return the card, its month and its year. Raises Declined for what a bank would not take."""
    params.refuse_unknown(_FIELDS)
    for name in ("number", "exp_month", "exp_year"):
        if params.text(name) is None:
            raise missing_param(params.full_name(name))
    month, year = params.integer("exp_month") or 0, params.integer("exp_year") or 0
    if 0 <= year < 100:
        year += 2000
    this_year, this_month, *_ = time.gmtime(now)
    if not 1 <= month <= 12:
        message = "Your card's expiration month is invalid."
        raise _invalid(params, "exp_month", "invalid_expiry_month", message)
    if not (this_year, this_month) <= (year, month) or year > this_year + 50:
        message = "Your card's expiration year is invalid."
        raise _invalid(params, "exp_year", "invalid_expiry_year", message)
    cvc = params.text("cvc") or "000"
    if not (cvc.isascii() and cvc.isdigit() and 3 <= len(cvc) <= 4):
        raise _invalid(params, "cvc", "invalid_cvc", "Your card's security code is invalid.")
    number = (params.text("number") or "").replace(" ", "").replace("-", "")
    if not _has_valid_checksum(number):
        raise _invalid(params, "number", "incorrect_number", "Your card number is incorrect.")
    if number not in _BY_NUMBER:
        raise _LIVE_CARD.error(param=params.full_name("number"))
    return _BY_NUMBER[number], month, year


def _invalid(params: Params, name: str, code: str, message: str) -> Declined:
    return Declined(message, code=code, param=params.full_name(name))


def _has_valid_checksum(number: str) -> bool:
    """Return whether the last digit fits the others (Luhn's algorithm)."""
    if not (number.isascii() and number.isdigit() and 12 <= len(number) <= 19):
        return False
    digits = [int(digit) for digit in reversed(number)]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
