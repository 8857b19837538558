"""Tokens and card sources: the older way to keep a card with a customer."""

from __future__ import annotations

from typing import Any

from paddock_services.payments import cards
from paddock_services.payments.books import Books, refuse_deleted
from paddock_services.payments.cards import Card
from paddock_services.payments.errors import missing
from paddock_services.payments.lists import PAGING, answer
from paddock_services.payments.params import Params, lacking
from paddock_services.payments.payment_methods import spend_token
from paddock_services.payments.routes import Asked, Route, route

_EXPIRY = 12, 2034


def create_token(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    if "card" not in params:
        raise lacking("card")
    table = params.table("card")
    card, month, year = cards.read_card(table, books.at)
    token = {
        "id": books.new_id("tok_1"), "object": "token",
        "card": card_source(books, card, month, year) | _owner(table),
        "client_ip": None, "created": books.at, "livemode": False, "type": "card", "used": False,
    }  # fmt: skip
    books.put("tokens", token)
    return token


def retrieve_token(books: Books, asked: Asked) -> dict[str, Any]:
    return books.at_address("tokens", asked.id)


def card_source(
    books: Books, card: Card, month: int, year: int, customer: str | None = None
) -> dict[str, Any]:
    return {
        "id": books.new_id("card_1"), "object": "card", "address_city": None,
        "address_country": None, "address_line1": None, "address_line1_check": None,
        "address_line2": None, "address_state": None, "address_zip": None,
        "address_zip_check": None, "brand": _BRANDS.get(card.brand, card.brand), "country": "US",
        "customer": customer, "cvc_check": "pass", "dynamic_last4": None, "exp_month": month,
        "exp_year": year, "fingerprint": books.derived(f"fingerprint/{card.number}", 16),
        "funding": card.funding, "last4": card.number[-4:], "metadata": {}, "name": None,
        "tokenization_method": None, "wallet": None,
    }  # fmt: skip


def of_token(books: Books, id: str, param: str, customer: str | None = None) -> dict[str, Any]:
    """A new card out of a token or a well-known name."""
    card = cards.named(id, "tok_") or cards.named(id, "pm_card_")
    if card is not None:
        return card_source(books, card, *_EXPIRY, customer)
    if not id.startswith("tok_"):
        raise missing("source", id[:200], param)
    details = dict(spend_token(books, id, param))
    return {**details, "customer": customer}


def add(books: Books, customer: str, token: str, param: str) -> dict[str, Any]:
    """Keeps the card of a token with a customer."""
    source = of_token(books, token, param, customer)
    card = behaviour(source)
    if card.decline is not None and not card.can_attach:
        raise card.decline.error(param=param)
    books.put("sources", source)
    books.tell("customer.source.created", source)
    return source


def behaviour(source: dict[str, Any]) -> Card:
    return cards.behaviour({"brand": brand(source), "last4": source.get("last4")})


def brand(source: dict[str, Any]) -> str:
    """As payment methods spell it."""
    written = str(source.get("brand"))
    return _SPELT.get(written, written.lower())


def create(books: Books, asked: Asked) -> dict[str, Any]:
    customer = books.at_address("customers", asked.id)
    refuse_deleted(customer, "customers")
    asked.params.require("source")
    source = add(books, asked.id, asked.params.text("source") or "", "source")
    if customer["default_source"] is None:
        books.put("customers", {**customer, "default_source": source["id"]})
    return source


def retrieve(books: Books, asked: Asked) -> dict[str, Any]:
    source = books.get("sources", asked.ids[1])
    if source is None or source["customer"] != asked.id:
        raise missing("source", asked.ids[1][:200], "id", status=404)
    return source


def listed(books: Books, asked: Asked) -> dict[str, Any]:
    books.at_address("customers", asked.id)
    return answer(books, asked, "sources", {"customer": asked.id})


def delete(books: Books, asked: Asked) -> dict[str, Any]:
    source = retrieve(books, asked)
    books.store.delete("sources", source["id"])
    customer = books.at_address("customers", asked.id)
    if customer.get("default_source") == source["id"]:
        left = books.store.find("sources", {"customer": asked.id}, limit=1, newest_first=True)
        books.put("customers", {**customer, "default_source": left[0]["id"] if left else None})
    books.tell("customer.source.deleted", source)
    return {"id": source["id"], "object": "card", "deleted": True}


def _owner(table: Params) -> dict[str, Any]:
    names = [name for name in table.given if name == "name" or name.startswith("address_")]
    return {name: table.text(name) for name in names}


_BRANDS = {
    "visa": "Visa", "mastercard": "MasterCard", "amex": "American Express",
    "discover": "Discover", "diners": "Diners Club", "jcb": "JCB", "unionpay": "UnionPay",
}  # fmt: skip
_SPELT = {written: name for name, written in _BRANDS.items()}
_SOURCE = "customers/{}/sources"
ROUTES: list[Route] = [
    route("POST", "tokens", create_token,
          ("card", "customer", "bank_account", "pii", "account", "person", "cvc_update")),
    route("GET", "tokens/{}", retrieve_token),
    route("POST", _SOURCE, create, ("source", "metadata", "validate")),
    route("GET", _SOURCE, listed, {"object"} | PAGING),
    route("GET", f"{_SOURCE}/{{}}", retrieve),
    route("DELETE", f"{_SOURCE}/{{}}", delete),
]  # fmt: skip
