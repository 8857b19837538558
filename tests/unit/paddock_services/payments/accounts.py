"""An account at the payments stand-in for a test, and short ways to talk to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from paddock.world.asgi import WorldRequest, call
from paddock.world.context import Context
from paddock.world.store import Store
from paddock_services.payments import Payments

KEY = [(b"Authorization", b"Bearer sk_test_123")]
FORM = [(b"Content-Type", b"application/x-www-form-urlencoded")]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, its body read as JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def error(self) -> Any:
        return self.body["error"]

    def __getitem__(self, name: str) -> Any:
        assert self.status == 200, self.body
        return self.body[name]


class Account:
    """A stand-in with a store of its own."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.store = Store.open(path)
        context = Context("payments", "api.stripe.com", 443, self.store, options=options)
        self.service = Payments(context)
        self.service.check()
        self.app = self.service.app()

    def get(self, path: str, query: str = "") -> Answered:
        return self.send("GET", path, query=query)

    def post(self, path: str, key: str | None = None, **params: Any) -> Answered:
        """Parameters with `__` in their names are nested: `card__number` is `card[number]`."""
        pairs = (f"{_bracketed(name)}={quote_plus(str(one))}"
                 for name, value in params.items()
                 for one in (value if isinstance(value, list) else [value]))  # fmt: skip
        headers = [] if key is None else [(b"Idempotency-Key", key.encode())]
        return self.send("POST", path, body="&".join(pairs).encode(), headers=headers)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
        auth: list[tuple[bytes, bytes]] = KEY,
    ) -> Answered:
        all_headers = [*auth, *FORM, *(headers or [])]
        request = WorldRequest(method, path, query, all_headers, body)
        answer = asyncio.run(call(self.app, request))
        assert isinstance(answer.body, bytes)
        named = {name.decode(): value.decode() for name, value in answer.headers}
        return Answered(answer.status, named, json.loads(answer.body))

    def event_types(self) -> list[str]:
        return [event["type"] for event in self.store.find("events")]

    def paid(self, amount: int = 2000, **params: Any) -> Answered:
        """An intent that has succeeded."""
        terms = {"amount": amount, "currency": "usd", "payment_method": "pm_card_visa"}
        return self.post("/v1/payment_intents", **{**terms, "confirm": "true", **params})


def _bracketed(name: str) -> str:
    first, *rest = name.split("__")
    return first + "".join(f"[{part}]" for part in rest)
