"""Refunds: of a charge or of an intent's charge, whole or in parts, never more than was taken."""

from __future__ import annotations

from typing import Any

from paddock_services.payments import releases
from paddock_services.payments.books import Books
from paddock_services.payments.currency import money
from paddock_services.payments.errors import Conflict, Refusal
from paddock_services.payments.lists import PAGING, answer, listing
from paddock_services.payments.params import Params
from paddock_services.payments.routes import Asked, Route, route

_REASONS = ("duplicate", "fraudulent", "requested_by_customer")
_CREATE = {"amount", "charge", "currency", "customer", "instructions_email", "metadata", "origin",
           "payment_intent", "reason", "refund_application_fee", "reverse_transfer"}  # fmt: skip


def create(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    charge = _charge(books, params)
    return _refund(books, params, charge)


def create_of_charge(books: Books, asked: Asked) -> dict[str, Any]:
    """The older address, below the charge."""
    return _refund(books, asked.params, books.at_address("charges", asked.id))


def _refund(books: Books, params: Params, charge: dict[str, Any]) -> dict[str, Any]:
    reason = params.one_of("reason", _REASONS)
    amount = _amount(params, charge)
    refund = releases.new(books, charge, amount)
    refund |= {"reason": reason, "metadata": params.metadata()}
    if params.email("instructions_email"):
        refund["instructions_email"] = params.email("instructions_email")
    before = dict(charge)
    if charge["captured"]:
        releases.give_back(books, charge, refund)
    else:
        charge |= {"amount_refunded": charge["amount"], "refunded": True}
    books.put("refunds", refund)
    books.changed("charges", "charge.refunded", before, charge)
    books.tell("refund.created", refund)
    return refund


def _charge(books: Books, params: Params) -> dict[str, Any]:
    charge_id, intent_id = params.filled("charge"), params.filled("payment_intent")
    if charge_id is not None:
        charge = books.named("charges", charge_id, "charge")
        if intent_id is not None and charge["payment_intent"] != intent_id:
            message = f"The charge {charge_id} does not belong to {intent_id[:100]}."
            raise Refusal(message, param="payment_intent")
        return charge
    if intent_id is None:
        message = "One of the following params should be provided for this request: payment_intent or charge."  # noqa: E501
        raise Refusal(message, code="parameter_missing")
    intent = books.named("payment_intents", intent_id, "payment_intent")
    found = books.get("charges", intent["latest_charge"] or "")
    if found is None or found["status"] != "succeeded":
        message = f"This PaymentIntent ({intent_id}) does not have a successful charge to refund."
        raise Conflict(message, code="payment_intent_unexpected_state", param="payment_intent")
    return found


def _amount(params: Params, charge: dict[str, Any]) -> int:
    """What is to be given back. Raises Refusal where that is more than there is."""
    id, left = charge["id"], releases.left(charge)
    if charge["status"] != "succeeded":
        raise Conflict(f"Charge {id} did not succeed, so there is nothing to refund.")
    if left <= 0:
        raise Conflict(f"Charge {id} has already been refunded.", code="charge_already_refunded")
    if not charge["captured"] and charge["payment_intent"]:
        message = f"Charge {id} is not captured: cancel {charge['payment_intent']} instead."
        raise Conflict(message, code="charge_not_refundable")
    given = params.whole("amount", least=1)
    amount = left if given is None else given
    if amount > left:
        asked, had = money(amount, charge["currency"]), money(left, charge["currency"])
        message = f"Refund amount ({asked}) is greater than unrefunded amount on charge ({had})"
        raise Conflict(message, param="amount")
    if not charge["captured"] and amount < left:
        message = f"Charge {id} is not captured: it can only be refunded as a whole."
        raise Conflict(message, param="amount")
    return amount


def retrieve(books: Books, asked: Asked) -> dict[str, Any] | str:
    return asked.kept(books, "refunds")


def update(books: Books, asked: Asked) -> dict[str, Any]:
    before = books.at_address("refunds", asked.id)
    refund = {**before, "metadata": asked.params.metadata(before["metadata"])}
    books.changed("refunds", "refund.updated", before, refund)
    return refund


def cancel(books: Books, asked: Asked) -> dict[str, Any]:
    refund = books.at_address("refunds", asked.id)
    message = (
        f"Refund {asked.id} has a status of {refund['status']}: only one that requires action can "
        "be canceled."
    )
    raise Conflict(message)


def of_charge(books: Books, asked: Asked) -> dict[str, Any]:
    books.at_address("charges", asked.id)
    return answer(books, asked, "refunds", {"charge": asked.id})


def one_of_charge(books: Books, asked: Asked) -> dict[str, Any]:
    return books.at_address("refunds", asked.ids[1])


_FIELDS = ("charge", "payment_intent")
ROUTES: list[Route] = [
    route("POST", "refunds", create, _CREATE),
    route("GET", "refunds", listing("refunds", *_FIELDS), {*_FIELDS, "created"} | PAGING),
    route("GET", "refunds/{}", retrieve),
    route("POST", "refunds/{}", update, ("metadata",)),
    route("POST", "refunds/{}/cancel", cancel),
    route("POST", "charges/{}/refunds", create_of_charge, _CREATE - {"charge", "payment_intent"}),
    route("POST", "charges/{}/refund", create_of_charge, _CREATE - {"charge", "payment_intent"}),
    route("GET", "charges/{}/refunds", of_charge, PAGING),
    route("GET", "charges/{}/refunds/{}", one_of_charge),
]
