"""The parameters of one request, read as what they ought to be. A wrong one raises a Refusal that
names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from paddock.model.money import CURRENCIES
from paddock_services.payments.errors import Refusal, missing_param
from paddock_services.payments.money import check_amount

MAX_TEXT = 5000
MAX_METADATA = 50
MAX_METADATA_KEY = 40
MAX_METADATA_VALUE = 500
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_ADDRESS = ("city", "country", "line1", "line2", "postal_code", "state")
_SHIPPING = ("carrier", "name", "phone", "tracking_number")
Reader = Callable[["Params", str], Any]


class Params:
    """The parameters of a request, or of one table in it; then `table` is the table's name."""

    __slots__ = ("_table", "values")

    def __init__(self, values: Mapping[str, Any], table: str = "") -> None:
        self.values = values
        self._table = table

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def full_name(self, name: str) -> str:
        """Return the name as an error says it: `card[number]`."""
        return f"{self._table}[{name}]" if self._table else name

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise Refusal for a parameter that is not among these."""
        for name in self.values:
            if name not in known:
                param = self.full_name(name)[:200]
                message = f"Received unknown parameter: {param}"
                raise Refusal(message, code="parameter_unknown", param=param)

    def refuse_unsupported(self, *names: str) -> None:
        """Raise Refusal for a parameter that has an effect at the provider and would have none
        here."""
        for name in names:
            if name in self.values:
                param = self.full_name(name)
                raise Refusal(f"This stand-in does not support {param}.", param=param)

    def text(self, name: str, max_length: int = MAX_TEXT) -> str | None:
        """Return a text, or None when it is left out or empty."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        param = self.full_name(name)
        if not isinstance(value, str):
            raise Refusal("Invalid string: a single value is wanted", param=param)
        if len(value) > max_length:
            message = f"Invalid string: {value[:20]}...; must be at most {max_length} characters"
            raise Refusal(message, code="parameter_invalid_string_long", param=param)
        return value

    def id(self, name: str) -> str | None:
        """Return a text that may be left out but not be empty, since it cannot be unset."""
        if self.values.get(name) == "":
            param = self.full_name(name)
            message = f"You passed an empty string for '{param}', which cannot be unset."
            raise Refusal(message, code="parameter_invalid_empty", param=param)
        return self.text(name)

    def required(self, name: str) -> str:
        """Return a text that must be there."""
        value = self.id(name)
        if value is None:
            raise missing_param(self.full_name(name))
        return value

    def integer(self, name: str, *, least: int | None = None) -> int | None:
        """Return a whole number."""
        value = self.text(name)
        if value is None:
            return None
        if not _INTEGER.fullmatch(value):
            message = f"Invalid integer: {value[:50]}"
        elif least is not None and int(value) < least:
            message = f"This value must be greater than or equal to {least}."
        else:
            return int(value)
        raise Refusal(message, code="parameter_invalid_integer", param=self.full_name(name))

    def boolean(self, name: str) -> bool | None:
        """Return true or false."""
        value = self.text(name)
        if value is None:
            return None
        if value not in ("true", "false", "True", "False", "1", "0"):
            raise Refusal(f"Invalid boolean: {value[:50]}", param=self.full_name(name))
        return value in ("true", "True", "1")

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        """Return one of some texts."""
        value = self.text(name)
        if value is not None and value not in choices:
            param = self.full_name(name)
            raise Refusal(f"Invalid {param}: must be one of {', '.join(choices)}", param=param)
        return value

    def email(self, name: str) -> str | None:
        """Return a mail address."""
        value = self.text(name, 512)
        if value is not None and not _EMAIL.fullmatch(value):
            message = f"Invalid email address: {value[:100]}"
            raise Refusal(message, code="email_invalid", param=self.full_name(name))
        return value

    def table(self, name: str) -> Params:
        """Return the parameters in brackets below a name, none if it is left out."""
        value = self.values.get(name) or {}
        if not isinstance(value, dict):
            raise Refusal("Invalid object", param=self.full_name(name))
        return Params(value, self.full_name(name))

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        value = self.values.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise Refusal("Invalid array: single values are wanted", param=self.full_name(name))
        return value

    def address(self, name: str) -> dict[str, Any] | None:
        """Return a postal address."""
        if not self.values.get(name):
            return None
        table = self.table(name)
        table.refuse_unknown(_ADDRESS)
        return {part: table.text(part) for part in _ADDRESS}

    def shipping(self, name: str) -> dict[str, Any] | None:
        """Return a name and an address to send something to."""
        if not self.values.get(name):
            return None
        table = self.table(name)
        table.refuse_unknown(("address", *_SHIPPING))
        return {"address": table.address("address"), **{n: table.text(n) for n in _SHIPPING}}

    def currency(self) -> str:
        """Return the currency of the request, which it must have."""
        currency = self.required("currency").lower()
        if currency not in CURRENCIES:
            param = self.full_name("currency")
            raise Refusal(f"Invalid currency: {currency[:20]}", param=param)
        return currency

    def amount(self, currency: str) -> int:
        """Return an amount that can be charged, which the request must have."""
        self.required("amount")
        amount = self.integer("amount", least=1) or 0
        check_amount(amount, currency)
        return amount

    def metadata(self, old: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the old metadata with the given ones over them. An empty value deletes its key,
        and an empty `metadata` all keys."""
        if self.values.get("metadata") == "":
            return {}
        merged = dict(old or {})
        table = self.table("metadata")
        for key in table.values:
            if not 0 < len(key) <= MAX_METADATA_KEY:
                message = f"Metadata keys have 1 to {MAX_METADATA_KEY} characters; got {key[:60]!r}"
                raise Refusal(message, param="metadata")
            value = table.text(key, MAX_METADATA_VALUE)
            merged.pop(key, None)
            if value is not None:
                merged[key] = value
        if len(merged) > MAX_METADATA:
            raise Refusal(f"Metadata has at most {MAX_METADATA} keys", param="metadata")
        return merged

    def write_into(self, document: dict[str, Any], readers: Mapping[str, Reader]) -> None:
        """Set the fields that were given, and the metadata."""
        for name in self.values:
            if name in readers:
                document[name] = readers[name](self, name)
        document["metadata"] = self.metadata(document["metadata"])
