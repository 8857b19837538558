"""The parameters of one request, read as what they ought to be. For a wrong one there is a Refusal
that names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from paddock_services.payments.errors import Refusal

MAX_TEXT = 5000
MAX_METADATA = 50
MAX_METADATA_KEY = 40
MAX_METADATA_VALUE = 500
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_ADDRESS = ("city", "country", "line1", "line2", "postal_code", "state")
Reader = Callable[["Params", str], Any]


class Params:
    """Of one request, or of one table in it; then `inside` is the table's name."""

    __slots__ = ("_inside", "given")

    def __init__(self, given: Mapping[str, Any], inside: str = "") -> None:
        self.given = given
        self._inside = inside

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def full(self, name: str) -> str:
        """The name as an error says it: `card[number]`."""
        return f"{self._inside}[{name}]" if self._inside else name

    def refuse_unknown(self, known: Collection[str]) -> None:
        for name in self.given:
            if name not in known:
                full = self.full(name)[:200]
                message = f"Received unknown parameter: {full}"
                raise Refusal(message, code="parameter_unknown", param=full)

    def require(self, name: str) -> Any:
        if name not in self.given:
            raise lacking(self.full(name))
        if self.given[name] == "":
            raise self._empty(name)
        return self.given[name]

    def text(self, name: str, most: int = MAX_TEXT) -> str | None:
        """None when it is not given, or given as nothing."""
        value = self.given.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise Refusal("Invalid string: a single value is wanted", param=self.full(name))
        if len(value) > most:
            message = f"Invalid string: {value[:20]}...; must be at most {most} characters"
            raise Refusal(message, code="parameter_invalid_string_long", param=self.full(name))
        return value

    def filled(self, name: str) -> str | None:
        """Text that may be left out, but not be empty: an id that cannot be unset."""
        if self.given.get(name) == "":
            raise self._empty(name)
        return self.text(name)

    def whole(self, name: str, *, least: int | None = None) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not _WHOLE.fullmatch(value):
            message = f"Invalid integer: {value[:50]}"
            raise Refusal(message, code="parameter_invalid_integer", param=self.full(name))
        number = int(value)
        if least is not None and number < least:
            message = f"This value must be greater than or equal to {least}."
            raise Refusal(message, code="parameter_invalid_integer", param=self.full(name))
        return number

    def flag(self, name: str) -> bool | None:
        value = self.text(name)
        if value is None:
            return None
        if value not in ("true", "false", "True", "False", "1", "0"):
            raise Refusal(f"Invalid boolean: {value[:50]}", param=self.full(name))
        return value in ("true", "True", "1")

    def one_of(self, name: str, choices: Collection[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in choices:
            allowed = ", ".join(choices)
            message = f"Invalid {self.full(name)}: must be one of {allowed}"
            raise Refusal(message, param=self.full(name))
        return value

    def email(self, name: str) -> str | None:
        value = self.text(name, 512)
        if value is not None and not _EMAIL.fullmatch(value):
            message = f"Invalid email address: {value[:100]}"
            raise Refusal(message, code="email_invalid", param=self.full(name))
        return value

    def table(self, name: str) -> Params:
        """The parameters in brackets below a name. Nothing given is an empty table."""
        value = self.given.get(name, "")
        if value == "":
            return Params({}, self.full(name))
        if not isinstance(value, dict):
            raise Refusal("Invalid object", param=self.full(name))
        return Params(value, self.full(name))

    def items(self, name: str) -> list[Any]:
        value = self.given.get(name, "")
        if value == "":
            return []
        if not isinstance(value, list):
            raise Refusal("Invalid array", param=self.full(name))
        return value

    def texts(self, name: str) -> list[str]:
        found = self.items(name)
        if not all(isinstance(one, str) for one in found):
            raise Refusal("Invalid array: single values are wanted", param=self.full(name))
        return found

    def anything(self, name: str) -> Any:
        """As it came: for what is kept and shown, and means nothing here."""
        value = self.given.get(name)
        return None if value == "" else value

    def address(self, name: str) -> dict[str, Any] | None:
        if not self.given.get(name):
            return None
        table = self.table(name)
        table.refuse_unknown(_ADDRESS)
        return {part: table.text(part) for part in _ADDRESS}

    def shipping(self, name: str) -> dict[str, Any] | None:
        if not self.given.get(name):
            return None
        table = self.table(name)
        table.refuse_unknown(("address", "carrier", "name", "phone", "tracking_number"))
        texts = {part: table.text(part) for part in ("carrier", "name", "phone", "tracking_number")}
        return {"address": table.address("address"), **texts}

    def metadata(self, old: Mapping[str, str] | None = None) -> dict[str, str]:
        """The old ones with the given ones over them. An empty value deletes its key, an empty
        `metadata` all of them."""
        if self.given.get("metadata") == "":
            return {}
        merged = dict(old or {})
        if "metadata" not in self.given:
            return merged
        table = self.table("metadata")
        for key in table.given:
            self._check_metadata(key)
            value = table.text(key, MAX_METADATA_VALUE)
            merged.pop(key, None)
            if value is not None:
                merged[key] = value
        if len(merged) > MAX_METADATA:
            raise Refusal(f"Metadata has at most {MAX_METADATA} keys", param="metadata")
        return merged

    def _check_metadata(self, key: str) -> None:
        if not 0 < len(key) <= MAX_METADATA_KEY:
            message = f"Metadata keys have 1 to {MAX_METADATA_KEY} characters; got {key[:60]!r}"
            raise Refusal(message, param="metadata")

    def _empty(self, name: str) -> Refusal:
        full = self.full(name)
        message = (
            f"You passed an empty string for '{full}'. An empty value means to unset it, and "
            f"'{full}' cannot be unset. Leave it out or give it a value."
        )
        return Refusal(message, code="parameter_invalid_empty", param=full)


def lacking(param: str) -> Refusal:
    message = f"Missing required param: {param}."
    return Refusal(message, code="parameter_missing", param=param)


def write_into(document: dict[str, Any], params: Params, readers: Mapping[str, Reader]) -> None:
    """Sets the fields that were given; what was given empty becomes null."""
    for name in params.given:
        reader = readers.get(name)
        if reader is not None:
            document[name] = reader(params, name)
