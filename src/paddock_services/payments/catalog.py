"""Products and their prices."""

from __future__ import annotations

from collections.abc import Mapping

from paddock_services.payments.account import Account, Document, empty
from paddock_services.payments.api import Operation, PaymentRequest
from paddock_services.payments.errors import Conflict, missing_param
from paddock_services.payments.lists import Test, listing, retrieve
from paddock_services.payments.params import Params, Reader
from paddock_services.payments.search import searching

_INTERVALS = ("day", "week", "month", "year")
_PRODUCT: Mapping[str, Reader] = {
    "active": lambda params, name: params.boolean(name) is not False,
    "description": Params.text,
    "images": Params.texts,
    "name": Params.required,
    "shippable": Params.boolean,
    "statement_descriptor": Params.text,
    "unit_label": Params.text,
    "url": Params.text,
}
_PRICE: Mapping[str, Reader] = {
    "active": lambda params, name: params.boolean(name) is not False,
    "lookup_key": Params.text,
    "nickname": Params.text,
}


def _create_product(account: Account, request: PaymentRequest) -> Document:
    params = request.params
    params.required("name")
    id = params.id("id") or account.new_id("prod_", 14)
    if account.store.has("products", id):
        raise Conflict(f"Product already exists: {id[:100]}", code="resource_already_exists")
    product = empty("product", id=id, created=account.time, updated=account.time)
    params.write_into(product, _PRODUCT)
    if "default_price_data" in params:
        price = _new_price(account, params.table("default_price_data"), id)
        account.save("prices", "price.created", price)
        product["default_price"] = price["id"]
    return account.save("products", "product.created", product)


def _update_product(account: Account, request: PaymentRequest) -> Document:
    before, params = account.fetch("products", request.id), request.params
    product = dict(before)
    params.write_into(product, _PRODUCT)
    if default := params.text("default_price"):
        product["default_price"] = account.reference("prices", default, "default_price")["id"]
    if product != before:
        product["updated"] = account.time
    return account.update("products", "product.updated", before, product)


def _create_price(account: Account, request: PaymentRequest) -> Document:
    request.params.refuse_unsupported("product_data")
    product = account.reference("products", request.params.required("product"), "product")
    price = _new_price(account, request.params, product["id"])
    return account.save("prices", "price.created", price)


def _update_price(account: Account, request: PaymentRequest) -> Document:
    before = account.fetch("prices", request.id)
    price = dict(before)
    request.params.write_into(price, _PRICE)
    return account.update("prices", "price.updated", before, price)


def new_price(id: str, product: str, amount: int | None, currency: str, created: int) -> Document:
    """Return a price that is paid once. It is not stored yet."""
    price = empty("price", id=id, product=product, currency=currency, created=created)
    price |= {"unit_amount": amount}
    price["unit_amount_decimal"] = None if amount is None else str(amount)
    return price


def _new_price(account: Account, params: Params, product: str) -> Document:
    params.refuse_unsupported("custom_unit_amount", "tiers", "unit_amount_decimal")
    currency = params.currency()
    amount = params.integer("unit_amount", least=0)
    if amount is None:
        raise missing_param(params.full_name("unit_amount"))
    price = new_price(account.new_id("price_1"), product, amount, currency, account.time)
    params.write_into(price, _PRICE)
    recurring = params.table("recurring")
    if recurring.values:
        interval = recurring.choice("interval", _INTERVALS)
        if interval is None:
            raise missing_param(recurring.full_name("interval"))
        count = recurring.integer("interval_count", least=1) or 1
        price["recurring"] = {"interval": interval, "interval_count": count}
        price["recurring"] |= {"trial_period_days": None, "usage_type": "licensed"}
        price["type"] = "recurring"
    return price


def _test(params: Params, name: str, field: str) -> Test | None:
    """Return a filter by `active`, and by a list of values that a field may have."""
    active, values = params.boolean("active"), params.texts(name)
    if active is None and not values:
        return None
    return lambda document: (
        active in (None, document["active"]) and (not values or document[field] in values)
    )


def _product_test(params: Params) -> Test | None:
    return _test(params, "ids", "id")


def _price_test(params: Params) -> Test | None:
    return _test(params, "lookup_keys", "lookup_key")


OPERATIONS = [
    Operation("POST", "products", _create_product),
    Operation("GET", "products", listing("products", "url", test=_product_test)),
    Operation("GET", "products/search", searching("products")),
    Operation("GET", "products/{id}", retrieve("products")),
    Operation("POST", "products/{id}", _update_product),
    Operation("POST", "prices", _create_price),
    Operation("GET", "prices", listing("prices", "product", "currency", "type", test=_price_test)),
    Operation("GET", "prices/search", searching("prices")),
    Operation("GET", "prices/{id}", retrieve("prices")),
    Operation("POST", "prices/{id}", _update_price),
]
