"""The seed of an account: full documents, or only what matters of them.

The rest is filled in so that everything fits together: a charge has its balance transaction, an
intent that was paid has its charge, and a charge that says it was refunded has its refunds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.money import CURRENCIES
from paddock.world.service import Seed
from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.balance import record_capture
from paddock_services.payments.cards import BY_NAME, GENERIC, card_named
from paddock_services.payments.catalog import new_price
from paddock_services.payments.charges import new_charge, outcome, write_method
from paddock_services.payments.customers import new_customer
from paddock_services.payments.invoices import new_invoice, write_total
from paddock_services.payments.money import MAX_AMOUNT
from paddock_services.payments.payment_intents import new_intent
from paddock_services.payments.payment_methods import EXPIRY, new_method
from paddock_services.payments.refunds import give_back, new_refund, refundable, release

_DAY_S = 86_400
# When things without a time were made: how many days ago the first, and over how many the rest.
_AGES = {
    "products": (120, 20),
    "prices": (100, 10),
    "customers": (90, 30),
    "payment_methods": (60, 10),
    "payment_intents": (45, 30),
    "charges": (45, 30),
    "refunds": (10, 5),
    "invoices": (10, 5),
}
_CHARGE_STATUSES = ("succeeded", "failed", "pending")
_INTENT_STATUSES = ("succeeded", "requires_payment_method", "requires_confirmation",
                    "requires_action", "processing", "requires_capture", "canceled")  # fmt: skip
_INVOICE_STATUSES = ("open", "draft", "paid", "uncollectible", "void")


class SeedEntry(msgspec.Struct, frozen=True):
    """One document of the seed."""

    fields: Mapping[str, Any]
    created: int

    @property
    def id(self) -> str | None:
        """Return its id, if it has one."""
        id = self.fields.get("id")
        return None if id is None or id == "" else str(id)

    def amount(self, name: str, least: int = 0) -> int | None:
        """Return an amount of money. Raises InvalidInput."""
        value = self.fields.get(name)
        if value is None:
            return None
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not least <= value <= MAX_AMOUNT:
            limits = f"from {least} to {MAX_AMOUNT}"
            raise InvalidInput(f"{name} is a whole number {limits}, not {value!r:.40}")
        return int(value)

    def status(self, statuses: Collection[str]) -> str:
        """Return its status, which is the first of these unless it says another. Raises
        InvalidInput."""
        default, *_ = statuses
        status = str(self.fields.get("status", default))
        if status not in statuses:
            names = ", ".join(statuses)
            raise InvalidInput(f"there is no status {status[:80]!r}; there are {names}")
        return status

    def fill(self, document: Document, **fixed: Any) -> Document:
        """Return the document with the fields of this entry, but for those that are fixed. Fields
        that it does not have become metadata: a note about a customer is something that an agent
        should find."""
        fixed = {"id": document["id"], "object": document["object"], **fixed}
        metadata = self.fields.get("metadata")
        rest: Document = dict(metadata) if isinstance(metadata, Mapping) else {}
        for name, value in {**self.fields, "created": self.created, **fixed}.items():
            if name in document:
                document[name] = value
            elif value is not None:
                rest.setdefault(name, value)
        document["metadata"] = {str(name)[:40]: str(value)[:500] for name, value in rest.items()}
        return document


class Seeder:
    """Writes one seed into an account."""

    def __init__(self, account: Account, *, leaves_out: bool = False) -> None:
        self._account = account
        self._leaves_out = leaves_out
        self._refunded: dict[str, int] = {}  # by charge, what it says was refunded

    def write(self, seed: Seed) -> None:
        """Write the documents of a seed. Raises InvalidInput for what cannot be, unless that is to
        be left out."""
        unknown = set(seed) - set(_AGES)
        if unknown:
            kinds = ", ".join(_AGES)
            raise InvalidInput(f"payments has no {', '.join(sorted(unknown))}; it has {kinds}")
        self._account.begin_write()
        self._account.request_id = None
        writers: Mapping[str, Callable[[SeedEntry], None]] = {
            "products": self._product,
            "prices": self._price,
            "customers": self._customer,
            "payment_methods": self._method,
            "payment_intents": self._intent,
            "charges": self._charge,
            "refunds": self._refund,
            "invoices": self._invoice,
        }
        for kind, write in writers.items():
            for entry in self._entries(kind, seed):
                try:
                    write(entry)
                except InvalidInput as error:
                    if not self._leaves_out:
                        name = entry.id or entry.fields.get("email") or entry.fields.get("name")
                        why = f"seed, {kind}, {str(name)[:80]}: {error.message}"
                        raise InvalidInput(why) from error
        self._add_charges()
        self._add_refunds()

    def _entries(self, kind: str, seed: Seed) -> list[SeedEntry]:
        """Return the documents of a kind with their times, oldest first."""
        documents = seed.get(kind, ())
        days_ago, days = _AGES[kind]
        created = int(self._account.context.start) - days_ago * _DAY_S
        step = max(1, days * _DAY_S // (len(documents) + 1))
        entries = []
        for document in documents:
            stated = document.get("created")
            if isinstance(stated, int) and not isinstance(stated, bool):
                entries.append(SeedEntry(document, stated))
            else:
                entries.append(SeedEntry(document, created))
            created += step
        return sorted(entries, key=lambda entry: entry.created)

    def _product(self, entry: SeedEntry) -> None:
        id = entry.id or self._account.new_id("prod_", 14)
        self._account.put("products", entry.fill(empty("product", id=id, name=id)))

    def _price(self, entry: SeedEntry) -> None:
        product = str(entry.fields.get("product", ""))
        if not self._account.store.has("products", product):
            raise InvalidInput(f"there is no product {product[:80]!r}")
        id, currency = entry.id or self._account.new_id("price_1"), self._currency(entry)
        price = new_price(id, product, entry.amount("unit_amount"), currency, entry.created)
        self._account.put("prices", entry.fill(price, currency=currency))

    def _customer(self, entry: SeedEntry) -> None:
        id = entry.id or self._account.new_id("cus_", 14)
        customer = entry.fill(new_customer(self._account, id, entry.created))
        for name in ("email", "name", "phone", "description"):
            if customer[name] is not None:
                customer[name] = str(customer[name])
        if isinstance(customer["address"], str):
            customer["address"] = {"line1": customer["address"]}
        self._account.put("customers", customer)

    def _method(self, entry: SeedEntry) -> None:
        details = entry.fields.get("card", "visa")
        name = details if isinstance(details, str) else "visa"
        card = BY_NAME.get(name) or card_named(name)
        if card is None:
            raise InvalidInput(f"there is no test card {name[:80]!r}")
        method = new_method(self._account, card, *EXPIRY)
        if isinstance(details, Mapping):
            method["card"] |= details
        fixed = {"id": entry.id or method["id"], "card": method["card"]}
        method = entry.fill(method, customer=self._customer_id(entry), **fixed)
        self._account.put("payment_methods", method)

    def _intent(self, entry: SeedEntry) -> None:
        amount, currency = self._money(entry)
        intent = new_intent(self._account, amount, currency, id=entry.id, created=entry.created)
        status = entry.status(_INTENT_STATUSES)
        intent = entry.fill(intent, currency=currency, customer=self._customer_id(entry))
        # What its charge says holds; that comes later.
        intent |= {"status": status, "latest_charge": None}
        intent |= {"amount_received": 0, "amount_capturable": 0}
        self._account.put("payment_intents", intent)

    def _charge(self, entry: SeedEntry) -> None:
        amount, currency = self._money(entry)
        intent = entry.fields.get("payment_intent")
        if intent is not None and not self._account.store.has("payment_intents", str(intent)):
            raise InvalidInput(f"there is no payment intent {str(intent)[:80]!r}")
        status = entry.status(_CHARGE_STATUSES)
        id = entry.id or self._account.new_id("ch_3" if intent else "ch_1")
        charge = new_charge(id, amount, currency, entry.created)
        write_method(charge, new_method(self._account, BY_NAME["visa"], *EXPIRY))
        charge["payment_method"] = None
        charge = entry.fill(charge, currency=currency, customer=self._customer_id(entry))
        self._note_refunded(charge, entry)
        is_paid = status == "succeeded"
        is_captured = is_paid and entry.fields.get("captured", True) is not False
        charge |= {"status": status, "paid": is_paid, "captured": is_captured}
        charge |= {"amount_refunded": 0, "refunded": False, "amount_captured": 0}
        if status == "failed":
            charge |= {"failure_code": GENERIC.code, "failure_message": GENERIC.message}
        if status != "pending":
            charge["outcome"] = outcome(None if is_paid else GENERIC)
        if is_captured:
            captured = min(entry.amount("amount_captured") or amount, amount)
            charge["amount_captured"] = captured
            if captured < amount:
                release(self._account, charge, amount - captured)
            record_capture(self._account, charge, entry.created)
        self._account.put("charges", charge)
        if intent is not None:
            self._link(str(intent), charge)

    def _note_refunded(self, charge: Document, entry: SeedEntry) -> None:
        refunded = entry.amount("amount_refunded") or 0
        if not refunded and entry.fields.get("refunded") is True:
            refunded = charge["amount"]
        if refunded > charge["amount"]:
            raise InvalidInput(f"{refunded} of {charge['amount']} cannot have been refunded")
        if refunded:
            self._refunded[charge["id"]] = refunded

    def _link(self, id: str, charge: Document) -> None:
        """Bring an intent to the state that its charge says."""
        intent = self._account.fetch("payment_intents", id)
        intent["latest_charge"] = charge["id"]
        if charge["status"] == "succeeded":
            if intent["amount_received"] or intent["amount_capturable"]:
                raise InvalidInput(f"payment intent {id} has a charge already")
            if charge["captured"]:
                intent |= {"status": "succeeded", "amount_received": charge["amount_captured"]}
            else:
                intent |= {"status": "requires_capture", "amount_capturable": charge["amount"]}
        self._account.put("payment_intents", intent)

    def _refund(self, entry: SeedEntry) -> None:
        name = str(entry.fields.get("charge"))
        charge = self._account.find("charges", name)
        if charge is None:
            raise InvalidInput(f"there is no charge {name[:80]!r}")
        amount = entry.amount("amount", least=1) or refundable(charge)
        if charge["status"] != "succeeded" or not 0 < amount <= refundable(charge):
            raise InvalidInput(f"{amount} cannot be refunded of charge {charge['id']}")
        refund = self._new_refund(charge, amount, entry.created, entry.id)
        for name in ("reason", "metadata"):
            if name in entry.fields:
                refund[name] = entry.fields[name]
        give_back(self._account, charge, refund)
        self._account.put("charges", charge)

    def _new_refund(
        self, charge: Document, amount: int, created: int, id: str | None = None
    ) -> Document:
        id = id or self._account.new_id("re_3")
        return new_refund(self._account, charge, amount, id=id, created=created)

    def _invoice(self, entry: SeedEntry) -> None:
        customer = self._account.find("customers", self._customer_id(entry) or "")
        if customer is None:
            raise InvalidInput("it has no customer")
        status = entry.status(_INVOICE_STATUSES)
        total = entry.amount("total") or entry.amount("amount") or 0
        id, currency = entry.id or self._account.new_id("in_1"), self._currency(entry)
        invoice = new_invoice(self._account, id, customer, currency)
        fixed = {"currency": currency, "status": status, "amount": None}
        invoice = entry.fill(invoice, customer=customer["id"], **fixed)
        write_total(invoice, total)
        if status == "paid":
            invoice |= {"amount_paid": total, "amount_remaining": 0}
        self._account.put("invoices", invoice)

    def _add_charges(self) -> None:
        """Give an intent that was paid its charge, where the seed has none."""
        names = ("amount", "currency", "customer", "description", "metadata")
        for intent in list(self._account.all("payment_intents")):
            is_captured = intent["status"] == "succeeded"
            is_paid = is_captured or intent["status"] == "requires_capture"
            if is_paid and intent["latest_charge"] is None:
                fields = {name: intent[name] for name in names}
                fields |= {"payment_intent": intent["id"], "captured": is_captured}
                self._charge(SeedEntry(fields, intent["created"]))

    def _add_refunds(self) -> None:
        """Give a charge that says it was refunded refunds that add up to that."""
        for id, refunded in self._refunded.items():
            charge = self._account.find("charges", id)
            if charge is None or charge["status"] != "succeeded":
                continue
            amount = refunded - charge["amount_refunded"]
            if amount > 0:
                refund = self._new_refund(charge, amount, charge["created"] + _DAY_S)
                give_back(self._account, charge, refund)
                self._account.put("charges", charge)

    def _money(self, entry: SeedEntry) -> tuple[int, str]:
        amount = entry.amount("amount", least=1)
        if amount is None:
            raise InvalidInput("it has no amount")
        return amount, self._currency(entry)

    def _currency(self, entry: SeedEntry) -> str:
        default = self._account.context.options.get("currency", "usd")
        currency = str(entry.fields.get("currency") or default).lower()
        if currency not in CURRENCIES:
            raise InvalidInput(f"there is no currency {currency[:20]!r}")
        return currency

    def _customer_id(self, entry: SeedEntry) -> str | None:
        """Return the id of a customer that is named by id or by mail address."""
        name = entry.fields.get("customer")
        if name is None or name == "":
            return None
        if self._account.store.has("customers", str(name)):
            return str(name)
        customers = self._account.store.find("customers", {"email": str(name)}, limit=1)
        if not customers:
            raise InvalidInput(f"there is no customer {str(name)[:80]!r}")
        return str(customers[0]["id"])
