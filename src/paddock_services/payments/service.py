"""The stand-in as the world knows it: its application, its seed, and what must hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from paddock.model.errors import InvalidInput
from paddock.model.money import CURRENCIES
from paddock.world.context import Context
from paddock.world.service import ASGIApp, Seed, Service
from paddock_services.payments import (
    balance,
    catalog,
    charges,
    customers,
    events,
    invoices,
    payment_intents,
    payment_methods,
    refunds,
)
from paddock_services.payments.account import KEYS, Account
from paddock_services.payments.api import Operation, PaymentsApi
from paddock_services.payments.invariants import broken_invariants
from paddock_services.payments.overview import overview
from paddock_services.payments.seed import Seeder

OPERATIONS: list[Operation] = [
    *customers.OPERATIONS,
    *payment_methods.OPERATIONS,
    *payment_intents.OPERATIONS,
    *charges.OPERATIONS,
    *refunds.OPERATIONS,
    *balance.OPERATIONS,
    *catalog.OPERATIONS,
    *invoices.OPERATIONS,
    *events.OPERATIONS,
]
_INDEXES = {
    "charges": ("customer", "payment_intent", "payment_method"),
    "payment_intents": ("customer",),
    "payment_methods": ("customer",),
    "refunds": ("charge", "payment_intent"),
    "balance_transactions": ("source",),
    "customers": ("email",),
    "invoiceitems": ("invoice", "customer"),
    "invoices": ("customer",),
    KEYS: ("request",),
}


class Payments(Service):
    """A payments provider with one account in test mode, in Stripe's shape."""

    name: ClassVar[str] = "payments"
    is_prompt: ClassVar[bool] = True
    options: ClassVar[Mapping[str, str]] = {
        "api_version": "the version that the account has, where a request names none",
        "currency": "of seeded charges that name none (usd)",
        "leave_out_unusable": "leave out what the seed has and no account can have",
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._account = Account(context)

    def check(self) -> None:
        options = self.context.options
        version = options.get("api_version")
        if version is not None and not re.match(r"\d{4}-\d\d-\d\d", str(version)):
            raise InvalidInput(f"api_version is a date like 2025-09-30.clover, not {version!r}")
        if options.get("currency", "usd") not in CURRENCIES:
            raise InvalidInput(f"there is no currency {options['currency']!r}")
        if not isinstance(options.get("leave_out_unusable", False), bool):
            raise InvalidInput("leave_out_unusable is true or false")

    def app(self) -> ASGIApp:
        self._index()
        return PaymentsApi(self._account, OPERATIONS)

    def seed(self, data: Seed) -> None:
        self._index()
        leaves_out = bool(self.context.options.get("leave_out_unusable", False))
        with self.context.store.transaction():
            Seeder(self._account, leaves_out=leaves_out).write(data)

    def invariants(self) -> list[str]:
        return broken_invariants(self._account)

    def show(self) -> dict[str, Any]:
        return overview(self._account)

    def _index(self) -> None:
        for kind, fields in _INDEXES.items():
            self.context.store.index(kind, *fields)
