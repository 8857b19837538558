"""The kinds of documents that can be made up, and what their fields are, so that the right ones
can be made odd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.world.seeds import phrases
from paddock.world.seeds.documents import Document
from paddock.world.seeds.maker import Maker, iso


class FieldRoles(msgspec.Struct, frozen=True):
    """Which fields are what. A field may be below another: `address.postal_code`."""

    names: tuple[str, ...] = ()  # of people and things
    texts: tuple[str, ...] = ()  # that somebody wrote
    dates: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    digits: tuple[str, ...] = ()  # where a leading zero means something
    references: Mapping[str, str] = {}  # to which kind
    is_person: bool = False


class SeedShape(msgspec.Struct, frozen=True):
    """How a document of a kind is made."""

    prefix: str  # of its ids
    make: Callable[[Maker], Document]
    roles: FieldRoles


def _customer(maker: Maker) -> Document:
    name = maker.person()
    return {
        "name": name,
        "email": maker.email(name),
        "phone": maker.fake.phone_number(),
        "company": maker.fake.company() if maker.often(0.4) else None,
        "address": address(maker),
        "tier": maker.one_of("standard", "standard", "standard", "gold", "platinum"),
        "notes": maker.one_of(*phrases.CUSTOMER_NOTES),
        "created_at": iso(maker.moment()),
    }


def address(maker: Maker) -> Document:
    return {
        "line1": maker.fake.street_address(),
        "city": maker.fake.city(),
        "postal_code": maker.fake.postcode(),
        "country": maker.country(),
    }


def _user(maker: Maker) -> Document:
    name = maker.person()
    email = maker.email(name)
    return {
        "name": name,
        "username": email.partition("@")[0],
        "email": email,
        "title": maker.fake.job(),
        "role": maker.one_of("member", "member", "member", "admin", "viewer"),
        "is_active": maker.often(0.95),
        "created_at": iso(maker.moment()),
    }


def _product(maker: Maker) -> Document:
    name = f"{maker.one_of(*phrases.ADJECTIVES)} {maker.one_of(*phrases.THINGS)}"
    return {
        "name": name,
        "sku": f"{maker.chance.randrange(100_000):05}-{maker.one_of('A', 'B', 'C', 'X')}",
        "price": maker.amount(199, 99_900),
        "currency": currency(maker),
        "stock": maker.chance.randrange(500),
        "category": maker.one_of(*phrases.CATEGORIES),
        "description": f"{name}. {maker.one_of(*phrases.PRODUCT_NOTES)}",
        "created_at": iso(maker.moment()),
    }


def _order(maker: Maker) -> Document:
    items = [_item(maker, "product") for _ in range(maker.chance.randint(1, 4))]
    return {
        "number": f"#{1001 + maker.number}",
        "customer": maker.reference("customers"),
        "items": items,
        "total": sum(one["quantity"] * one["price"] for one in items),
        "currency": currency(maker),
        "status": maker.one_of("pending", "paid", "paid", "shipped", "delivered", "cancelled"),
        "note": maker.one_of(*phrases.ORDER_NOTES),
        "created_at": iso(maker.moment()),
    }


def _item(maker: Maker, field: str) -> Document:
    return {
        field: maker.reference("products"),
        "quantity": maker.chance.randint(1, 5),
        "price": maker.amount(199, 19_900),
    }


def _charge(maker: Maker) -> Document:
    status = maker.one_of(*["succeeded"] * 8, "failed", "pending")
    amount = maker.amount()
    is_back = status == "succeeded" and maker.often(0.08)
    return {
        "customer": maker.reference("customers"),
        "amount": amount,
        "amount_refunded": maker.chance.randint(1, amount) if is_back else 0,
        "currency": currency(maker),
        "status": status,
        "card": {"brand": maker.one_of("visa", "mastercard", "amex"), "last4": last4(maker)},
        "description": maker.one_of(*phrases.CHARGE_NOTES),
        "created_at": iso(maker.moment()),
    }


def _invoice(maker: Maker) -> Document:
    lines = [
        {**_item(maker, "product"), "description": maker.one_of(*phrases.CHARGE_NOTES)}
        for _ in range(maker.chance.randint(1, 3))
    ]
    made = maker.moment()
    return {
        "number": f"INV-{iso(made)[:4]}-{1 + maker.number:05}",
        "customer": maker.reference("customers"),
        "lines": lines,
        "total": sum(one["quantity"] * one["price"] for one in lines),
        "currency": currency(maker),
        "status": maker.one_of("draft", "open", "paid", "paid", "void"),
        "memo": maker.one_of(*phrases.ORDER_NOTES),
        "created_at": iso(made),
        "due_at": iso(made + 30 * 86_400),
    }


def _ticket(maker: Maker) -> Document:
    subject, body = maker.one_of(*phrases.COMPLAINTS)
    made = maker.moment()
    return {
        "number": 1001 + maker.number,
        "subject": subject,
        "body": body,
        "requester": maker.reference("customers"),
        "assignee": maker.reference("users") if maker.often(0.7) else None,
        "status": maker.one_of("new", "open", "open", "pending", "solved"),
        "priority": maker.one_of("low", "normal", "normal", "high", "urgent"),
        "tags": sorted({maker.one_of(*phrases.TAGS) for _ in range(2)}),
        "created_at": iso(made),
        "updated_at": iso(made + maker.chance.randrange(86_400)),
    }


def _channel(maker: Maker) -> Document:
    names = phrases.CHANNELS
    again = maker.number // len(names)
    return {
        "name": names[maker.number % len(names)] + (f"-{again + 1}" if again else ""),
        "topic": maker.one_of(*phrases.TOPICS),
        "created_at": iso(maker.moment()),
    }


def _message(maker: Maker) -> Document:
    return {
        "channel": maker.reference("channels"),
        "user": maker.reference("users"),
        "text": maker.one_of(*phrases.CHATTER),
        "created_at": iso(maker.moment()),
    }


def _email(maker: Maker) -> Document:
    subject, body = maker.one_of(*phrases.COMPLAINTS)
    name = maker.person()
    return {
        "from": maker.email(name),
        "from_name": name,
        "to": [maker.email(maker.person())],
        "subject": subject,
        "body": f"Hello,\n\n{body}\n\nBest regards\n{name}\n",
        "is_read": maker.often(0.6),
        "date": iso(maker.moment()),
    }


def currency(maker: Maker) -> str:
    return _CURRENCIES.get(maker.country(), "eur" if maker.country() in _EURO else "usd")


def last4(maker: Maker) -> str:
    return f"{maker.chance.randrange(10_000):04}"


_CURRENCIES = {"GB": "gbp", "JP": "jpy", "CH": "chf", "PL": "pln", "BR": "brl", "IN": "inr",
               "CA": "cad", "AU": "aud", "SE": "sek", "CN": "cny"}  # fmt: skip
_EURO = frozenset({"AT", "BE", "DE", "ES", "FI", "FR", "GR", "IE", "IT", "NL", "PT"})
_MADE = ("created_at",)
_CUSTOMER = {"customer": "customers"}


def _roles(**fields: Any) -> FieldRoles:
    return FieldRoles(**{"dates": _MADE, **fields})


SHAPES: Mapping[str, SeedShape] = {
    "customers": SeedShape("cus_", _customer, _roles(
        names=("name", "company"), texts=("notes",), digits=("address.postal_code", "phone"),
        is_person=True)),
    "users": SeedShape("usr_", _user, _roles(names=("name",), texts=("title",), is_person=True)),
    "products": SeedShape("prod_", _product, _roles(
        names=("name",), texts=("description",), amounts=("price", "stock"), digits=("sku",))),
    "orders": SeedShape("ord_", _order, _roles(
        texts=("note",), amounts=("total",), digits=("number",), references=_CUSTOMER)),
    "charges": SeedShape("ch_", _charge, _roles(
        texts=("description",), amounts=("amount",), digits=("card.last4",),
        references=_CUSTOMER)),
    "invoices": SeedShape("in_", _invoice, _roles(
        texts=("memo",), dates=("created_at", "due_at"), amounts=("total",), digits=("number",),
        references=_CUSTOMER)),
    "tickets": SeedShape("tic_", _ticket, _roles(
        names=("subject",), texts=("body", "subject"), dates=("created_at", "updated_at"),
        references={"requester": "customers", "assignee": "users"})),
    "channels": SeedShape("chn_", _channel, _roles(texts=("topic",))),
    "messages": SeedShape("msg_", _message, _roles(
        texts=("text",), references={"channel": "channels", "user": "users"})),
    "emails": SeedShape("eml_", _email, _roles(
        names=("from_name",), texts=("body", "subject"), dates=("date",))),
}  # fmt: skip
NEEDS: Mapping[str, tuple[str, ...]] = {
    "orders": ("customers", "products"),
    "charges": ("customers",),
    "invoices": ("customers", "products"),
    "tickets": ("customers", "users"),
    "messages": ("users", "channels"),
}
