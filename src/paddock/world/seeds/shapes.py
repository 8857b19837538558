"""The shapes of generated documents, and the roles of their fields, which oddities need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.world.seeds import phrases
from paddock.world.seeds.documents import Document
from paddock.world.seeds.maker import Maker, iso


class FieldRoles(msgspec.Struct, frozen=True):
    """The roles of fields. A field may be below another one: `address.postal_code`."""

    names: tuple[str, ...] = ()  # of people and things
    texts: tuple[str, ...] = ()  # free text
    dates: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    digits: tuple[str, ...] = ()  # with significant leading zeros
    references: Mapping[str, str] = {}  # field -> kind
    is_person: bool = False


class SeedShape(msgspec.Struct, frozen=True):
    """A kind of document that can be generated."""

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
        "created_at": iso(maker.timestamp()),
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
        "created_at": iso(maker.timestamp()),
    }


def _product(maker: Maker) -> Document:
    name = f"{maker.one_of(*phrases.ADJECTIVES)} {maker.one_of(*phrases.THINGS)}"
    return {
        "name": name,
        "sku": f"{maker.random.randrange(100_000):05}-{maker.one_of('A', 'B', 'C', 'X')}",
        "price": maker.amount(199, 99_900),
        "currency": currency(maker),
        "stock": maker.random.randrange(500),
        "category": maker.one_of(*phrases.CATEGORIES),
        "description": f"{name}. {maker.one_of(*phrases.PRODUCT_NOTES)}",
        "created_at": iso(maker.timestamp()),
    }


def _order(maker: Maker) -> Document:
    items = [_item(maker, "product") for _ in range(maker.random.randint(1, 4))]
    return {
        "number": f"#{1001 + maker.number}",
        "customer": maker.reference("customers"),
        "items": items,
        "total": sum(item["quantity"] * item["price"] for item in items),
        "currency": currency(maker),
        "status": maker.one_of("pending", "paid", "paid", "shipped", "delivered", "cancelled"),
        "note": maker.one_of(*phrases.ORDER_NOTES),
        "created_at": iso(maker.timestamp()),
    }


def _item(maker: Maker, field: str) -> Document:
    return {
        field: maker.reference("products"),
        "quantity": maker.random.randint(1, 5),
        "price": maker.amount(199, 19_900),
    }


def _charge(maker: Maker) -> Document:
    status = maker.one_of(*["succeeded"] * 8, "failed", "pending")
    amount = maker.amount()
    is_refunded = status == "succeeded" and maker.often(0.08)
    return {
        "customer": maker.reference("customers"),
        "amount": amount,
        "amount_refunded": maker.random.randint(1, amount) if is_refunded else 0,
        "currency": currency(maker),
        "status": status,
        "card": {"brand": maker.one_of("visa", "mastercard", "amex"), "last4": last4(maker)},
        "description": maker.one_of(*phrases.CHARGE_NOTES),
        "created_at": iso(maker.timestamp()),
    }


def _invoice(maker: Maker) -> Document:
    lines = [
        {**_item(maker, "product"), "description": maker.one_of(*phrases.CHARGE_NOTES)}
        for _ in range(maker.random.randint(1, 3))
    ]
    created = maker.timestamp()
    return {
        "number": f"INV-{iso(created)[:4]}-{1 + maker.number:05}",
        "customer": maker.reference("customers"),
        "lines": lines,
        "total": sum(line["quantity"] * line["price"] for line in lines),
        "currency": currency(maker),
        "status": maker.one_of("draft", "open", "paid", "paid", "void"),
        "memo": maker.one_of(*phrases.ORDER_NOTES),
        "created_at": iso(created),
        "due_at": iso(created + 30 * 86_400),
    }


def _ticket(maker: Maker) -> Document:
    subject, body = maker.one_of(*phrases.COMPLAINTS)
    created = maker.timestamp()
    return {
        "number": 1001 + maker.number,
        "subject": subject,
        "body": body,
        "requester": maker.reference("customers"),
        "assignee": maker.reference("users") if maker.often(0.7) else None,
        "status": maker.one_of("new", "open", "open", "pending", "solved"),
        "priority": maker.one_of("low", "normal", "normal", "high", "urgent"),
        "tags": sorted({maker.one_of(*phrases.TAGS) for _ in range(2)}),
        "created_at": iso(created),
        "updated_at": iso(created + maker.random.randrange(86_400)),
    }


def _channel(maker: Maker) -> Document:
    names = phrases.CHANNELS
    round_number, index = divmod(maker.number, len(names))
    suffix = f"-{round_number + 1}" if round_number else ""
    return {
        "name": names[index] + suffix,
        "topic": maker.one_of(*phrases.TOPICS),
        "created_at": iso(maker.timestamp()),
    }


def _message(maker: Maker) -> Document:
    return {
        "channel": maker.reference("channels"),
        "user": maker.reference("users"),
        "text": maker.one_of(*phrases.CHATTER),
        "created_at": iso(maker.timestamp()),
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
        "date": iso(maker.timestamp()),
    }


def currency(maker: Maker) -> str:
    country = maker.country()
    if country in _EURO:
        return "eur"
    return _CURRENCIES.get(country, "usd")


def last4(maker: Maker) -> str:
    return f"{maker.random.randrange(10_000):04}"


_CURRENCIES = {"GB": "gbp", "JP": "jpy", "CH": "chf", "PL": "pln", "BR": "brl", "IN": "inr",
               "CA": "cad", "AU": "aud", "SE": "sek", "CN": "cny"}  # fmt: skip
_EURO = frozenset({"AT", "BE", "DE", "ES", "FI", "FR", "GR", "IE", "IT", "NL", "PT"})
_CUSTOMER = {"customer": "customers"}


def _roles(**fields: Any) -> FieldRoles:
    return FieldRoles(**{"dates": ("created_at",), **fields})


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
