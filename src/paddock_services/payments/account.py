"""The account itself, which programs look at to see whether their key works."""

from __future__ import annotations

from typing import Any

from paddock_services.payments.books import Books
from paddock_services.payments.errors import missing
from paddock_services.payments.routes import Asked, Route, route


def retrieve(books: Books, asked: Asked) -> dict[str, Any]:
    id = "acct_1" + books.derived("account", 15)
    if asked.ids and asked.id != id:
        raise missing("account", asked.id[:200], "account", status=404)
    return {
        "id": id, "object": "account", "business_profile": {"name": "Paddock", "url": None},
        "business_type": "company", "capabilities": {"card_payments": "active"},
        "charges_enabled": True, "country": "US", "created": int(books.context.start),
        "default_currency": "usd", "details_submitted": True, "email": None, "metadata": {},
        "payouts_enabled": False, "settings": {"dashboard": {
            "display_name": "Paddock", "timezone": "Etc/UTC",
        }}, "type": "standard",
    }  # fmt: skip


ROUTES: list[Route] = [
    route("GET", "account", retrieve),
    route("GET", "accounts/{}", retrieve),
]
