"""What an account has at the beginning: full documents, or only what matters of them; the rest is
filled in so that everything fits together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.money import CURRENCIES
from paddock.world.service import Seed
from paddock_services.payments import (
    cards,
    catalog,
    charges,
    customers,
    intents,
    invoices,
    ledger,
    payment_methods,
    releases,
)
from paddock_services.payments.books import Books
from paddock_services.payments.currency import MOST

_DAY_S = 86_400
_VISA = cards.BY_NAME["visa"]
# When things without a time were made: how many days ago the first, and over how many the rest.
_AGES = {
    "products": (120, 20), "prices": (100, 10), "customers": (90, 30), "payment_methods": (60, 10),
    "payment_intents": (45, 30), "charges": (45, 30), "refunds": (10, 5),
    "balance_transactions": (10, 5), "events": (10, 5), "invoices": (10, 5),
}  # fmt: skip
_STATUSES = ("succeeded", "failed", "pending")
_INTENT_STATUSES = ("requires_payment_method", "requires_confirmation", "requires_action",
                    "processing", "requires_capture", "canceled", "succeeded")  # fmt: skip
_INVOICE_STATUSES = ("draft", "open", "paid", "uncollectible", "void")
_PAID = ("succeeded", "requires_capture")
Document = Mapping[str, Any]


class Seeding:
    """One seed on its way into the books."""

    def __init__(self, books: Books, seed: Seed, *, leaves_out: bool = False) -> None:
        self._books = books
        self._seed = seed
        self._leaves_out = leaves_out
        self._currency = str(books.context.options.get("currency", "usd"))
        self._owed: dict[str, int] = {}  # by charge, what it says was refunded

    def run(self) -> None:
        """Raises InvalidInput for what cannot be, unless that is to be left out."""
        unknown = set(self._seed) - set(_AGES)
        if unknown:
            kinds = ", ".join(_AGES)
            raise InvalidInput(f"payments has no {', '.join(sorted(unknown))}; it has {kinds}")
        self._books.begin()
        self._books.request_id = None
        order: Sequence[tuple[str, Callable[[Document], None]]] = (
            ("products", self._product),
            ("prices", self._price),
            ("customers", self._customer),
            ("payment_methods", self._method),
            ("balance_transactions", self._transaction),
            ("payment_intents", self._intent),
            ("charges", self._charge),
            ("refunds", self._refund),
            ("invoices", self._invoice),
            ("events", self._event),
        )
        for kind, write in order:
            for document in self._dated(kind):
                self._one(kind, write, document)
        self._settle_intents()
        self._settle_refunds()

    def _dated(self, kind: str) -> list[Document]:
        documents = self._seed.get(kind, ())
        ago, over = _AGES[kind]
        first = int(self._books.context.start) - ago * _DAY_S
        step = max(1, over * _DAY_S // (len(documents) + 1))
        dated = [
            {**one, "created": _moment(one.get("created"), first + number * step)}
            for number, one in enumerate(documents)
        ]
        return sorted(dated, key=lambda one: int(one["created"]))

    def _one(self, kind: str, write: Callable[[Document], None], document: Document) -> None:
        try:
            write(document)
        except InvalidInput as error:
            if not self._leaves_out:
                name = document.get("id") or document.get("email") or document.get("name") or "one"
                raise InvalidInput(f"seed, {kind}, {str(name)[:80]}: {error.message}") from error

    def _product(self, given: Document) -> None:
        id = _id(given) or self._books.new_id("prod_", 14)
        blank = catalog.blank_product(id, str(given.get("name") or id), given["created"])
        self._books.put("products", _completed(blank, given))

    def _price(self, given: Document) -> None:
        product = str(given.get("product", ""))
        if not self._books.store.has("products", product):
            raise InvalidInput(f"there is no product {product[:80]!r}")
        id = _id(given) or self._books.new_id("price_1")
        amount = _amount(given, "unit_amount", least=0)
        currency, created = self._currency_of(given), given["created"]
        blank = catalog.blank_price(id, product, amount, currency, created)
        self._books.put("prices", _completed(blank, given))

    def _customer(self, given: Document) -> None:
        id = _id(given) or self._books.new_id("cus_", 14)
        blank = customers.blank(self._books, id, given["created"])
        customer = _completed(blank, given)
        for name in ("email", "name", "phone", "description"):
            if customer[name] is not None:
                customer[name] = str(customer[name])
        if customer["address"] is not None and not isinstance(customer["address"], Mapping):
            address = payment_methods.empty_address()
            customer["address"] = {**address, "line1": str(customer["address"])}
        self._books.put("customers", customer)

    def _method(self, given: Document) -> None:
        name = str(given.get("card")) if isinstance(given.get("card"), str) else "visa"
        card = cards.named(name, "") or cards.named(name, "pm_card_")
        if card is None:
            raise InvalidInput(f"there is no test card {name[:80]!r}")
        method = payment_methods.new_method(self._books, card, 12, 2034)
        details = given.get("card")
        full = {**method["card"], **details} if isinstance(details, Mapping) else method["card"]
        given = {**given, "card": full, "customer": self._customer_of(given)}
        self._books.put("payment_methods", _completed(method, given))

    def _transaction(self, given: Document) -> None:
        amount = _amount(given, "amount", least=-MOST)
        if amount is None:
            raise InvalidInput("it has no amount")
        fee = _amount(given, "fee", least=0) or 0
        blank = {
            "id": _id(given) or self._books.new_id("txn_1"), "object": "balance_transaction",
            "amount": amount, "available_on": given["created"], "balance_type": "payments",
            "created": given["created"], "currency": self._currency_of(given),
            "description": None, "exchange_rate": None, "fee": fee, "fee_details": [],
            "net": amount - fee, "reporting_category": given.get("type", "adjustment"),
            "source": None, "status": "available", "type": "adjustment",
        }  # fmt: skip
        document = _completed(blank, {**given, "net": amount - fee}, keeps_rest=False)
        self._books.put("balance_transactions", document)
        ledger.add(self._books, document)

    def _intent(self, given: Document) -> None:
        amount, currency = self._charged(given)
        id = _id(given) or self._books.new_id("pi_3")
        status = str(given.get("status", "succeeded"))
        if status not in _INTENT_STATUSES:
            raise InvalidInput(f"there is no status {status[:80]!r} of intents")
        intent = intents.blank(self._books, id, amount, currency, given["created"])
        intent = _completed(intent, {**given, "customer": self._customer_of(given)})
        # What its charge says holds; that comes later.
        intent |= {"status": status, "latest_charge": None, "amount_received": 0}
        intent["amount_capturable"] = 0
        self._books.put("payment_intents", intent)

    def _charge(self, given: Document) -> None:
        amount, currency = self._charged(given)
        intent = given.get("payment_intent")
        if intent is not None and not self._books.store.has("payment_intents", str(intent)):
            raise InvalidInput(f"there is no payment intent {str(intent)[:80]!r}")
        status = str(given.get("status", "succeeded"))
        if status not in _STATUSES:
            raise InvalidInput(f"there is no status {status[:80]!r} of charges")
        id = _id(given) or self._books.new_id("ch_3" if intent else "ch_1")
        blank = charges.blank(id, amount, currency, given["created"])
        charge = _completed(blank, {**given, "customer": self._customer_of(given)})
        self._owe(charge, given)
        charge |= {"status": status, "amount_refunded": 0, "refunded": False}
        is_paid = status == "succeeded"
        captured = is_paid and given.get("captured", True) is not False
        charge |= {"paid": is_paid, "captured": captured, "amount_captured": 0}
        if charge["payment_method_details"] is None:
            method = payment_methods.new_method(self._books, _VISA, 12, 2034)
            charge["payment_method_details"] = charges.details_of_method(method, amount)
        if status == "failed":
            charge["failure_code"] = charge["failure_code"] or cards.GENERIC.code
            charge["failure_message"] = charge["failure_message"] or cards.GENERIC.message
        charge["outcome"] = charge["outcome"] or _outcome(status)
        if captured:
            self._take(charge, _amount(given, "amount_captured", least=0) or amount)
        self._books.put("charges", charge)
        if intent is not None:
            self._link(str(intent), charge)

    def _take(self, charge: dict[str, Any], captured: int) -> None:
        charge["amount_captured"] = captured = min(captured, charge["amount"])
        if captured < charge["amount"]:
            releases.release(self._books, charge, charge["amount"] - captured)
        known = charge["balance_transaction"]
        if known is not None and self._books.store.has("balance_transactions", str(known)):
            return
        taken = ledger.taken(charge, captured, charge["created"])
        charge["balance_transaction"] = ledger.enter(self._books, taken)

    def _owe(self, charge: Document, given: Document) -> None:
        owed = _amount(given, "amount_refunded", least=0) or 0
        if not owed and given.get("refunded") is True:
            owed = charge["amount"]
        if owed > charge["amount"]:
            raise InvalidInput(f"{owed} of {charge['amount']} cannot have been refunded")
        if owed:
            self._owed[charge["id"]] = owed

    def _link(self, id: str, charge: Document) -> None:
        intent = self._books.at_address("payment_intents", id)
        intent["latest_charge"] = charge["id"]
        if charge["status"] == "succeeded":
            if intent["amount_received"] or intent["amount_capturable"]:
                raise InvalidInput(f"payment intent {id} has a charge already")
            is_taken = charge["captured"]
            intent["status"] = "succeeded" if is_taken else "requires_capture"
            intent["amount_received"] = charge["amount_captured"]
            intent["amount_capturable"] = 0 if is_taken else charge["amount"]
        self._books.put("payment_intents", intent)

    def _refund(self, given: Document) -> None:
        charge = self._books.get("charges", str(given.get("charge", "")))
        if charge is None:
            raise InvalidInput(f"there is no charge {str(given.get('charge'))[:80]!r}")
        amount = _amount(given, "amount", least=1) or releases.left(charge)
        if charge["status"] != "succeeded" or not 0 < amount <= releases.left(charge):
            raise InvalidInput(f"{amount} cannot be refunded of charge {charge['id']}")
        blank = releases.blank(
            _id(given) or self._books.new_id("re_3"), amount, charge, given["created"]
        )
        same = {"charge": charge["id"], "currency": charge["currency"], "amount": amount}
        refund = _completed(blank, {**given, **same, "payment_intent": charge["payment_intent"]})
        refund |= {"status": "succeeded", "balance_transaction": None}
        self._give_back(charge, refund)

    def _give_back(self, charge: dict[str, Any], refund: dict[str, Any]) -> None:
        if charge["captured"]:
            releases.give_back(self._books, charge, refund)
        else:
            charge["amount_refunded"] += refund["amount"]
            charge["refunded"] = charge["amount_refunded"] >= charge["amount"]
        self._books.put("refunds", refund)
        self._books.put("charges", charge)

    def _settle_intents(self) -> None:
        """An intent that was paid has a charge, also where the seed has none."""
        if not self._seed.get("payment_intents"):
            return
        for intent in list(self._books.each("payment_intents")):
            if intent["status"] in _PAID and intent["latest_charge"] is None:
                names = ("amount", "currency", "customer", "description", "metadata", "created")
                charge = {name: intent[name] for name in names}
                is_taken = intent["status"] == "succeeded"
                self._charge({**charge, "payment_intent": intent["id"], "captured": is_taken})

    def _settle_refunds(self) -> None:
        """A charge that says it was refunded has refunds that add up to that."""
        for id, owed in self._owed.items():
            charge = self._books.get("charges", id)
            rest = owed - (charge["amount_refunded"] if charge else owed)
            if charge is not None and rest > 0 and charge["status"] == "succeeded":
                created = charge["created"] + _DAY_S
                refund = releases.blank(self._books.new_id("re_3"), rest, charge, created)
                self._give_back(charge, refund)

    def _invoice(self, given: Document) -> None:
        customer = self._books.get("customers", self._customer_of(given) or "")
        if customer is None:
            raise InvalidInput("it has no customer")
        status = str(given.get("status", "open"))
        if status not in _INVOICE_STATUSES:
            raise InvalidInput(f"there is no status {status[:80]!r} of invoices")
        total = _amount(given, "total", least=0) or _amount(given, "amount", least=0) or 0
        id = _id(given) or self._books.new_id("in_1")
        blank = invoices.blank(self._books, id, customer, self._currency_of(given))
        rest = {name: value for name, value in given.items() if name != "amount"}
        invoice = _completed(blank, {**rest, "customer": customer["id"]})
        paid = total if status == "paid" else 0
        invoice |= dict.fromkeys(("total", "subtotal", "amount_due"), total)
        invoice |= {"status": status, "amount_paid": paid, "amount_remaining": total - paid}
        invoice |= dict.fromkeys(("total_excluding_tax", "subtotal_excluding_tax"), total)
        self._books.put("invoices", invoice)

    def _event(self, given: Document) -> None:
        id = _id(given) or self._books.new_id("evt_1")
        blank = {
            "id": id, "object": "event", "api_version": self._books.version,
            "created": given["created"], "data": {"object": {}}, "livemode": False,
            "pending_webhooks": 0, "request": None, "type": "",
        }  # fmt: skip
        event = _completed(blank, given, keeps_rest=False)
        if not isinstance(event["type"], str) or not event["type"]:
            raise InvalidInput("it has no type")
        if not isinstance(event["request"], Mapping):
            event["request"] = {"id": None, "idempotency_key": None}
        self._books.put("events", event)

    def _charged(self, given: Document) -> tuple[int, str]:
        amount = _amount(given, "amount", least=1)
        if amount is None:
            raise InvalidInput("it has no amount")
        return amount, self._currency_of(given)

    def _currency_of(self, given: Document) -> str:
        currency = str(given.get("currency") or self._currency).lower()
        if currency not in CURRENCIES:
            raise InvalidInput(f"there is no currency {currency[:20]!r}")
        return currency

    def _customer_of(self, given: Document) -> str | None:
        """Customers can be named by id or by mail address."""
        named = given.get("customer")
        if named is None or named == "":
            return None
        if self._books.store.has("customers", str(named)):
            return str(named)
        found = self._books.store.find("customers", {"email": str(named)}, limit=1)
        if not found:
            raise InvalidInput(f"there is no customer {str(named)[:80]!r}")
        return str(found[0]["id"])


def _completed(blank: dict[str, Any], given: Document, keeps_rest: bool = True) -> dict[str, Any]:
    """The blank document with what was given over it. Words that it does not have become metadata:
    a note about a customer is something that an agent should find."""
    metadata = given.get("metadata")
    rest: dict[str, Any] = dict(metadata) if isinstance(metadata, Mapping) else {}
    for name, value in given.items():
        if name in ("id", "object", "metadata"):
            continue
        if name in blank:
            blank[name] = value
        elif value is not None and keeps_rest:
            rest.setdefault(name, value)
    if "metadata" in blank:
        blank["metadata"] = {str(name)[:40]: str(value)[:500] for name, value in rest.items()}
    return blank


def _id(given: Document) -> str | None:
    id = given.get("id")
    return None if id is None or id == "" else str(id)


def _moment(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _amount(given: Document, name: str, least: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        raise InvalidInput(f"{name} is a whole number from {least} to {MOST}, not {value!r:.40}")
    return value


def _outcome(status: str) -> dict[str, Any] | None:
    if status == "succeeded":
        return charges.authorized_outcome()
    return charges.declined_outcome(cards.GENERIC) if status == "failed" else None
