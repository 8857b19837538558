"""The test cards: numbers and names that are known to everybody, and how each behaves. No other
number is accepted, so that a real one cannot get in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock_services.payments.errors import Declined
from paddock_services.payments.params import Params, lacking


class Decline(msgspec.Struct, frozen=True):
    """What the bank says instead of yes."""

    code: str
    message: str
    reason: str | None = None  # the decline code
    is_blocked: bool = False  # refused before the bank was asked

    def error(self, **more: Any) -> Declined:
        return Declined(self.message, code=self.code, decline_code=self.reason, **more)


class Card(msgspec.Struct, frozen=True):
    """A test card."""

    number: str
    brand: str = "visa"
    funding: str = "credit"
    decline: Decline | None = None
    can_attach: bool = True
    wants_authentication: bool = False
    is_available_at_once: bool = False  # the money is not pending first


_NO = "Your card was declined."
GENERIC = Decline("card_declined", _NO, "generic_decline")
FUNDS = Decline("card_declined", "Your card has insufficient funds.", "insufficient_funds")
AUTHENTICATION = Decline(
    "authentication_required",
    "Your card was declined. This transaction requires authentication.",
    "authentication_required",
)
_LIVE_CARD = Decline(
    "card_declined",
    "Your card was declined. Your request was in test mode, but used a non test card.",
    "test_mode_live_card",
)
_NUMBER = Decline("incorrect_number", "Your card number is incorrect.")


def _declining(number: str, decline: Decline) -> Card:
    return Card(number, decline=decline, can_attach=False)


# By the part of the name that follows `pm_card_` and `tok_`.
BY_NAME: Mapping[str, Card] = {
    "visa": Card("4242424242424242"),
    "visa_debit": Card("4000056655665556", funding="debit"),
    "mastercard": Card("5555555555554444", "mastercard"),
    "mastercard_debit": Card("5200828282828210", "mastercard", "debit"),
    "mastercard_prepaid": Card("5105105105105100", "mastercard", "prepaid"),
    "amex": Card("378282246310005", "amex"),
    "discover": Card("6011111111111117", "discover"),
    "diners": Card("3056930009020004", "diners"),
    "jcb": Card("3566002020360505", "jcb"),
    "unionpay": Card("6200000000000005", "unionpay"),
    "bypassPending": Card("4000000000000077", is_available_at_once=True),
    "chargeDeclined": _declining("4000000000000002", GENERIC),
    "chargeDeclinedInsufficientFunds": _declining("4000000000009995", FUNDS),
    "chargeDeclinedLostCard": _declining(
        "4000000000009987", Decline("card_declined", _NO, "lost_card")
    ),
    "chargeDeclinedStolenCard": _declining(
        "4000000000009979", Decline("card_declined", _NO, "stolen_card")
    ),
    "chargeDeclinedExpiredCard": _declining(
        "4000000000000069", Decline("expired_card", "Your card has expired.", "expired_card")
    ),
    "chargeDeclinedIncorrectCvc": _declining(
        "4000000000000127",
        Decline("incorrect_cvc", "Your card's security code is incorrect.", "incorrect_cvc"),
    ),
    "chargeDeclinedProcessingError": _declining(
        "4000000000000119",
        Decline(
            "processing_error",
            "An error occurred while processing your card. Try again in a little bit.",
            "processing_error",
        ),
    ),
    "chargeDeclinedVelocityLimitExceeded": _declining(
        "4000000000006975", Decline("card_declined", _NO, "card_velocity_exceeded")
    ),
    "chargeDeclinedFraudulent": Card(
        "4100000000000019", decline=Decline("card_declined", _NO, "fraudulent", is_blocked=True)
    ),
    "chargeCustomerFail": Card("4000000000000341", decline=GENERIC),
    "authenticationRequired": Card("4000002760003184", wants_authentication=True),
    "authenticationRequiredOnSetup": Card("4000002500003155", wants_authentication=True),
    "authenticationRequiredChargeDeclinedInsufficientFunds": Card(
        "4000008260003178", decline=FUNDS, wants_authentication=True
    ),
    "threeDSecure2Required": Card("4000000000003220", wants_authentication=True),
    "threeDSecureRequired": Card("4000000000003063", wants_authentication=True),
}
_OTHER_NAMES = {"radarBlock": "chargeDeclinedFraudulent"}
_BY_NUMBER = {card.number: card for card in BY_NAME.values()}
_BY_LOOKS = {(card.brand, card.number[-4:]): card for card in BY_NAME.values()}
_ORDINARY = Card("")
_FIELDS = ("number", "exp_month", "exp_year", "cvc", "name", "networks", "token", "currency")
_ADDRESS = ("line1", "line2", "city", "state", "zip", "country")
FIELDS = frozenset(_FIELDS) | {f"address_{part}" for part in _ADDRESS}


def named(name: str, prefix: str) -> Card | None:
    """The card of `pm_card_visa` or `tok_visa`."""
    if not name.startswith(prefix):
        return None
    short = name[len(prefix) :]
    short = _OTHER_NAMES.get(short, short)
    return BY_NAME.get(short) or BY_NAME.get(short.removeprefix("visa_"))


def behaviour(details: Mapping[str, Any]) -> Card:
    """How a card that was kept behaves. One that is no test card came with the seed: it pays."""
    looks = str(details.get("brand")), str(details.get("last4"))
    return _BY_LOOKS.get(looks, _ORDINARY)


def read_card(params: Params, now: int) -> tuple[Card, int, int]:
    """The card, and its month and year. Raises Declined for what a bank would not take."""
    params.refuse_unknown(FIELDS)
    for name in ("number", "exp_month", "exp_year"):
        if params.text(name) is None:
            raise lacking(params.full(name))
    number = (params.text("number") or "").replace(" ", "").replace("-", "")
    month, year = params.whole("exp_month") or 0, params.whole("exp_year") or 0
    _check_expiry(params, month, year + 2000 if 0 <= year < 100 else year, now)
    cvc = params.text("cvc")
    if cvc is not None and not (cvc.isascii() and cvc.isdigit() and 3 <= len(cvc) <= 4):
        code = Decline("invalid_cvc", "Your card's security code is invalid.")
        raise code.error(param=params.full("cvc"))
    return _known(number, params), month, year + 2000 if year < 100 else year


def _known(number: str, params: Params) -> Card:
    if not (number.isascii() and number.isdigit() and 12 <= len(number) <= 19 and _luhn(number)):
        raise _NUMBER.error(param=params.full("number"))
    card = _BY_NUMBER.get(number)
    if card is None:
        raise _LIVE_CARD.error(param=params.full("number"))
    return card


def _check_expiry(params: Params, month: int, year: int, now: int) -> None:
    if not 1 <= month <= 12:
        decline = Decline("invalid_expiry_month", "Your card's expiration month is invalid.")
        raise decline.error(param=params.full("exp_month"))
    this_year, this_month = _year_and_month(now)
    if not (this_year, this_month) <= (year, month) or year > this_year + 50:
        decline = Decline("invalid_expiry_year", "Your card's expiration year is invalid.")
        raise decline.error(param=params.full("exp_year"))


def _year_and_month(now: int) -> tuple[int, int]:
    import time

    moment = time.gmtime(now)
    return moment.tm_year, moment.tm_mon


def _luhn(number: str) -> bool:
    digits = [int(digit) for digit in reversed(number)]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
