"""What an account has at the beginning: full documents, or only what matters of them.

The rest is filled in so that everything fits together: a charge has its balance transaction, an
intent that was paid has its charge, and a charge that says it was refunded has its refunds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

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
_INTENT_STATUSES = ("requires_payment_method", "requires_confirmation", "requires_action",
                    "processing", "requires_capture", "canceled", "succeeded")  # fmt: skip
_INVOICE_STATUSES = ("draft", "open", "paid", "uncollectible", "void")
Given = Mapping[str, Any]


class Seeder:
    """Writes one seed into an account."""

    def __init__(self, account: Account, *, leaves_out: bool = False) -> None:
        self._account = account
        self._leaves_out = leaves_out
        self._currency = str(account.context.options.get("currency", "usd"))
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
        writers: Mapping[str, Callable[[Given], None]] = {
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
            for given in self._dated(kind, seed):
                try:
                    write(given)
                except InvalidInput as error:
                    if not self._leaves_out:
                        name = given.get("id") or given.get("email") or given.get("name") or "one"
                        why = f"seed, {kind}, {str(name)[:80]}: {error.message}"
                        raise InvalidInput(why) from error
        self._add_charges()
        self._add_refunds()

    def _dated(self, kind: str, seed: Seed) -> list[Given]:
        """Return the documents of a kind with their times, oldest first."""
        documents = seed.get(kind, ())
        days_ago, days = _AGES[kind]
        first = int(self._account.context.start) - days_ago * _DAY_S
        step = max(1, days * _DAY_S // (len(documents) + 1))
        dated = []
        for number, document in enumerate(documents):
            created = document.get("created")
            if not isinstance(created, int) or isinstance(created, bool):
                created = first + number * step
            dated.append({**document, "created": created})
        return sorted(dated, key=lambda document: int(document["created"]))

    def _product(self, given: Given) -> None:
        id = _id(given) or self._account.new_id("prod_", 14)
        product = empty("product", id=id, name=id, created=given["created"])
        self._account.put("products", _filled(product, given))

    def _price(self, given: Given) -> None:
        product = str(given.get("product", ""))
        if not self._account.store.has("products", product):
            raise InvalidInput(f"there is no product {product[:80]!r}")
        id = _id(given) or self._account.new_id("price_1")
        amount = _amount(given, "unit_amount", least=0)
        price = new_price(id, product, amount, self._currency_of(given), given["created"])
        self._account.put("prices", _filled(price, given))

    def _customer(self, given: Given) -> None:
        id = _id(given) or self._account.new_id("cus_", 14)
        customer = _filled(new_customer(self._account, id, given["created"]), given)
        for name in ("email", "name", "phone", "description"):
            if customer[name] is not None:
                customer[name] = str(customer[name])
        if isinstance(customer["address"], str):
            customer["address"] = {"line1": customer["address"]}
        self._account.put("customers", customer)

    def _method(self, given: Given) -> None:
        details = given.get("card", "visa")
        name = details if isinstance(details, str) else "visa"
        card = BY_NAME.get(name) or card_named(name)
        if card is None:
            raise InvalidInput(f"there is no test card {name[:80]!r}")
        method = new_method(self._account, card, *EXPIRY)
        full = {**method["card"], **details} if isinstance(details, Mapping) else method["card"]
        filled = _filled(method, {**given, "card": full, "customer": self._customer_of(given)})
        self._account.put("payment_methods", {**filled, "id": _id(given) or method["id"]})

    def _intent(self, given: Given) -> None:
        amount, currency = self._price_of(given)
        intent = new_intent(
            self._account, amount, currency, id=_id(given), created=given["created"]
        )
        intent = _filled(intent, {**given, "customer": self._customer_of(given)})
        # What its charge says holds; that comes later.
        intent |= {"status": _status(given, _INTENT_STATUSES, "succeeded"), "latest_charge": None}
        intent |= {"amount_received": 0, "amount_capturable": 0}
        self._account.put("payment_intents", intent)

    def _charge(self, given: Given) -> None:
        amount, currency = self._price_of(given)
        intent = given.get("payment_intent")
        if intent is not None and not self._account.store.has("payment_intents", str(intent)):
            raise InvalidInput(f"there is no payment intent {str(intent)[:80]!r}")
        status = _status(given, _CHARGE_STATUSES, "succeeded")
        id = _id(given) or self._account.new_id("ch_3" if intent else "ch_1")
        charge = new_charge(id, amount, currency, given["created"])
        write_method(charge, new_method(self._account, BY_NAME["visa"], *EXPIRY))
        charge["payment_method"] = None
        charge = _filled(charge, {**given, "customer": self._customer_of(given)})
        self._note_refunded(charge, given)
        is_captured = status == "succeeded" and given.get("captured", True) is not False
        charge |= {"status": status, "paid": status == "succeeded", "captured": is_captured}
        charge |= {"amount_refunded": 0, "refunded": False, "amount_captured": 0}
        if status == "failed":
            charge |= {"failure_code": GENERIC.code, "failure_message": GENERIC.message}
        if status != "pending":
            charge["outcome"] = outcome(GENERIC if status == "failed" else None)
        if is_captured:
            captured = _amount(given, "amount_captured", least=0) or amount
            charge["amount_captured"] = min(captured, amount)
            if captured < amount:
                release(self._account, charge, amount - captured)
            record_capture(self._account, charge, charge["created"])
        self._account.put("charges", charge)
        if intent is not None:
            self._link(str(intent), charge)

    def _note_refunded(self, charge: Given, given: Given) -> None:
        refunded = _amount(given, "amount_refunded", least=0) or 0
        if not refunded and given.get("refunded") is True:
            refunded = charge["amount"]
        if refunded > charge["amount"]:
            raise InvalidInput(f"{refunded} of {charge['amount']} cannot have been refunded")
        if refunded:
            self._refunded[charge["id"]] = refunded

    def _link(self, id: str, charge: Given) -> None:
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

    def _refund(self, given: Given) -> None:
        charge = self._account.find("charges", str(given.get("charge", "")))
        if charge is None:
            raise InvalidInput(f"there is no charge {str(given.get('charge'))[:80]!r}")
        amount = _amount(given, "amount", least=1) or refundable(charge)
        if charge["status"] != "succeeded" or not 0 < amount <= refundable(charge):
            raise InvalidInput(f"{amount} cannot be refunded of charge {charge['id']}")
        id = _id(given) or self._account.new_id("re_3")
        refund = new_refund(self._account, charge, amount, id=id, created=given["created"])
        texts = {name: given[name] for name in ("reason", "metadata") if name in given}
        give_back(self._account, charge, refund | texts)
        self._account.put("charges", charge)

    def _invoice(self, given: Given) -> None:
        customer = self._account.find("customers", self._customer_of(given) or "")
        if customer is None:
            raise InvalidInput("it has no customer")
        status = _status(given, _INVOICE_STATUSES, "open")
        total = _amount(given, "total", least=0) or _amount(given, "amount", least=0) or 0
        id = _id(given) or self._account.new_id("in_1")
        invoice = new_invoice(self._account, id, customer, self._currency_of(given))
        rest = {name: value for name, value in given.items() if name != "amount"}
        invoice = _filled(invoice, {**rest, "customer": customer["id"], "status": status})
        write_total(invoice, total)
        if status == "paid":
            invoice |= {"amount_paid": total, "amount_remaining": 0}
        self._account.put("invoices", invoice)

    def _add_charges(self) -> None:
        """Give an intent that was paid its charge, where the seed has none."""
        names = ("amount", "currency", "customer", "description", "metadata", "created")
        for intent in list(self._account.all("payment_intents")):
            is_paid = intent["status"] in ("succeeded", "requires_capture")
            if is_paid and intent["latest_charge"] is None:
                is_captured = intent["status"] == "succeeded"
                charge = {name: intent[name] for name in names}
                self._charge({**charge, "payment_intent": intent["id"], "captured": is_captured})

    def _add_refunds(self) -> None:
        """Give a charge that says it was refunded refunds that add up to that."""
        for id, refunded in self._refunded.items():
            charge = self._account.find("charges", id)
            if charge is None or charge["status"] != "succeeded":
                continue
            amount = refunded - charge["amount_refunded"]
            if amount > 0:
                created, refund_id = charge["created"] + _DAY_S, self._account.new_id("re_3")
                refund = new_refund(self._account, charge, amount, id=refund_id, created=created)
                give_back(self._account, charge, refund)
                self._account.put("charges", charge)

    def _price_of(self, given: Given) -> tuple[int, str]:
        amount = _amount(given, "amount", least=1)
        if amount is None:
            raise InvalidInput("it has no amount")
        return amount, self._currency_of(given)

    def _currency_of(self, given: Given) -> str:
        currency = str(given.get("currency") or self._currency).lower()
        if currency not in CURRENCIES:
            raise InvalidInput(f"there is no currency {currency[:20]!r}")
        return currency

    def _customer_of(self, given: Given) -> str | None:
        """Return the id of a customer that is named by id or by mail address."""
        name = given.get("customer")
        if name is None or name == "":
            return None
        if self._account.store.has("customers", str(name)):
            return str(name)
        customers = self._account.store.find("customers", {"email": str(name)}, limit=1)
        if not customers:
            raise InvalidInput(f"there is no customer {str(name)[:80]!r}")
        return str(customers[0]["id"])


def _filled(document: Document, given: Given) -> Document:
    """Return the document with the given fields. Fields that it does not have become metadata: a
    note about a customer is something that an agent should find."""
    metadata = given.get("metadata")
    rest: Document = dict(metadata) if isinstance(metadata, Mapping) else {}
    for name, value in given.items():
        if name in ("id", "object", "metadata", "currency"):
            continue
        if name in document:
            document[name] = value
        elif value is not None:
            rest.setdefault(name, value)
    document["metadata"] = {str(name)[:40]: str(value)[:500] for name, value in rest.items()}
    return document


def _id(given: Given) -> str | None:
    id = given.get("id")
    return None if id is None or id == "" else str(id)


def _status(given: Given, statuses: Collection[str], default: str) -> str:
    status = str(given.get("status", default))
    if status not in statuses:
        raise InvalidInput(f"there is no status {status[:80]!r}; there are {', '.join(statuses)}")
    return status


def _amount(given: Given, name: str, least: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_AMOUNT:
        limits = f"from {least} to {MAX_AMOUNT}"
        raise InvalidInput(f"{name} is a whole number {limits}, not {value!r:.40}")
    return value
