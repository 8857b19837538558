"""Products and their prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock_services.payments.books import Books, refuse_deleted
from paddock_services.payments.currency import currency_of
from paddock_services.payments.errors import Conflict, Refusal
from paddock_services.payments.lists import PAGING, Keeps, listing
from paddock_services.payments.params import Params, Reader, lacking, write_into
from paddock_services.payments.routes import Asked, Route, route

_INTERVALS = ("day", "week", "month", "year")
_PRODUCT: Mapping[str, Reader] = {
    "active": lambda params, name: params.flag(name) is not False,
    "description": Params.text,
    "images": lambda params, name: params.texts(name),
    "marketing_features": lambda params, name: params.items(name),
    "package_dimensions": Params.anything,
    "shippable": Params.flag,
    "statement_descriptor": Params.text,
    "tax_code": Params.text,
    "unit_label": Params.text,
    "url": Params.text,
}
_PRICE: Mapping[str, Reader] = {
    "active": lambda params, name: params.flag(name) is not False,
    "lookup_key": Params.text,
    "nickname": Params.text,
    "tax_behavior": lambda params, name: params.one_of(name, ("exclusive", "inclusive", "unspecified")),  # noqa: E501
}  # fmt: skip


def blank_product(id: str, name: str, created: int) -> dict[str, Any]:
    return {
        "id": id, "object": "product", "active": True, "created": created, "default_price": None,
        "description": None, "images": [], "livemode": False, "marketing_features": [],
        "metadata": {}, "name": name, "package_dimensions": None, "shippable": None,
        "statement_descriptor": None, "tax_code": None, "type": "service", "unit_label": None,
        "updated": created, "url": None,
    }  # fmt: skip


def blank_price(id: str, product: str, amount: int | None, currency: str, created: int) -> dict[str, Any]:  # fmt: skip  # noqa: E501
    return {
        "id": id, "object": "price", "active": True, "billing_scheme": "per_unit",
        "created": created, "currency": currency, "custom_unit_amount": None, "livemode": False,
        "lookup_key": None, "metadata": {}, "nickname": None, "product": product,
        "recurring": None, "tax_behavior": "unspecified", "tiers_mode": None,
        "transform_quantity": None, "type": "one_time", "unit_amount": amount,
        "unit_amount_decimal": None if amount is None else str(amount),
    }  # fmt: skip


def create_product(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    params.require("name")
    id = _free_id(books, params)
    product = blank_product(id, params.text("name") or "", books.at)
    write_into(product, params, _PRODUCT)
    product["metadata"] = params.metadata()
    price = None
    if "default_price_data" in params:
        price = _new_price(books, params.table("default_price_data"), id)
        product["default_price"] = price["id"]
    books.put("products", product)
    books.tell("product.created", product)
    if price is not None:
        books.put("prices", price)
        books.tell("price.created", price)
    return product


def update_product(books: Books, asked: Asked) -> dict[str, Any]:
    before, params = books.at_address("products", asked.id), asked.params
    refuse_deleted(before, "products")
    product = dict(before)
    write_into(product, params, _PRODUCT)
    product["name"] = params.filled("name") or before["name"]
    product["metadata"] = params.metadata(before["metadata"])
    if "default_price" in params:
        id = params.text("default_price")
        product["default_price"] = id and books.named("prices", id, "default_price")["id"]
    if product != before:
        product["updated"] = books.at
    books.changed("products", "product.updated", before, product)
    return product


def delete_product(books: Books, asked: Asked) -> dict[str, Any]:
    product = books.at_address("products", asked.id)
    refuse_deleted(product, "products")
    if books.store.find("prices", {"product": asked.id}, limit=1):
        message = "This product cannot be deleted because it has one or more user-created prices."
        raise Conflict(message)
    gone = {"id": asked.id, "object": "product", "deleted": True}
    books.put("products", gone)
    books.tell("product.deleted", product)
    return gone


def create_price(books: Books, asked: Asked) -> dict[str, Any]:
    params = asked.params
    if "product_data" in params:
        table = params.table("product_data")
        table.require("name")
        id = _free_id(books, table)
        product = blank_product(id, table.text("name") or "", books.at)
        product["metadata"] = table.metadata()
        books.put("products", product)
        books.tell("product.created", product)
    else:
        params.require("product")
        product = books.named("products", params.text("product") or "", "product")
    price = _new_price(books, params, product["id"])
    books.put("prices", price)
    books.tell("price.created", price)
    return price


def update_price(books: Books, asked: Asked) -> dict[str, Any]:
    before, params = books.at_address("prices", asked.id), asked.params
    price = dict(before)
    write_into(price, params, _PRICE)
    price["metadata"] = params.metadata(before["metadata"])
    books.changed("prices", "price.updated", before, price)
    return price


def _free_id(books: Books, params: Params) -> str:
    """The id that the product is to have: it can be given, but not twice."""
    id = params.filled("id") or books.new_id("prod_", 14)
    if books.store.has("products", id):
        raise Conflict(f"Product already exists: {id[:100]}", code="resource_already_exists")
    return id


def _new_price(books: Books, params: Params, product: str) -> dict[str, Any]:
    currency = currency_of(params)
    amount = params.whole("unit_amount", least=0)
    decimal = params.text("unit_amount_decimal", 30)
    if amount is None and decimal is None and "custom_unit_amount" not in params:
        raise lacking(params.full("unit_amount"))
    price = blank_price(books.new_id("price_1"), product, amount, currency, books.at)
    write_into(price, params, _PRICE)
    if decimal is not None:
        price["unit_amount_decimal"] = decimal
        price["unit_amount"] = int(decimal) if decimal.isascii() and decimal.isdigit() else None
    price["metadata"] = params.metadata()
    if params.given.get("recurring"):
        price |= {"recurring": _recurring(params.table("recurring")), "type": "recurring"}
    return price


def _recurring(table: Params) -> dict[str, Any]:
    interval = table.one_of("interval", _INTERVALS)
    if interval is None:
        raise lacking(table.full("interval"))
    count = table.whole("interval_count", least=1) or 1
    usage = table.one_of("usage_type", ("licensed", "metered")) or "licensed"
    return {"interval": interval, "interval_count": count, "meter": table.text("meter"),
            "trial_period_days": None, "usage_type": usage}  # fmt: skip


def retrieve_product(books: Books, asked: Asked) -> dict[str, Any] | str:
    return asked.kept(books, "products")


def retrieve_price(books: Books, asked: Asked) -> dict[str, Any] | str:
    return asked.kept(books, "prices")


def _products(params: Params) -> Keeps:
    active, ids = params.flag("active"), params.texts("ids")
    if ids and not {"starting_after", "ending_before"}.isdisjoint(params.given):
        raise Refusal("ids cannot be used with starting_after or ending_before.", param="ids")
    return lambda product: (
        (active is None or product["active"] == active) and (not ids or product["id"] in ids)
    )


def _prices(params: Params) -> Keeps:
    active, keys = params.flag("active"), params.texts("lookup_keys")
    return lambda price: (
        (active is None or price["active"] == active) and (not keys or price["lookup_key"] in keys)
    )


_PRODUCT_NAMES = {*_PRODUCT, "metadata", "name", "tax_details"}
_PRICE_NAMES = {*_PRICE, "currency_options", "metadata", "transfer_lookup_key"}
_PRICES = {"active", "created", "currency", "lookup_keys", "product", "recurring", "type"}
_NEW_PRICE = {"billing_scheme", "currency", "custom_unit_amount", "product", "product_data",
              "recurring", "tiers", "tiers_mode", "transform_quantity", "unit_amount",
              "unit_amount_decimal"}  # fmt: skip
ROUTES: list[Route] = [
    route("POST", "products", create_product,
          _PRODUCT_NAMES | {"id", "default_price_data", "type"}),
    route("GET", "products", listing("products", "url", keeps=_products),
          {"active", "created", "ids", "shippable", "url"} | PAGING),
    route("GET", "products/{}", retrieve_product),
    route("POST", "products/{}", update_product, _PRODUCT_NAMES | {"default_price"}),
    route("DELETE", "products/{}", delete_product),
    route("POST", "prices", create_price, _PRICE_NAMES | _NEW_PRICE),
    route("GET", "prices", listing("prices", "product", "currency", "type", keeps=_prices),
          _PRICES | PAGING),
    route("GET", "prices/{}", retrieve_price),
    route("POST", "prices/{}", update_price, _PRICE_NAMES),
]  # fmt: skip
