"""The shape of JSON answers: their fields, with types and typical values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from paddock.world.overlay.paths import is_id

_MAX_FIELDS = 20_000
_MAX_DEPTH = 30
_MAX_VALUES = 12


class ShapeField(msgspec.Struct):
    """One field in the answers of an endpoint."""

    types: set[str] = set()
    values: set[str] = set()  # as long as they look like those of an enumeration
    is_free_text: bool = False
    answers: int = 0  # number of answers that have the field


class AnswerShape(msgspec.Struct):
    """The shape of several answers of one endpoint."""

    fields: dict[str, ShapeField] = {}  # by path, such as `.data[].id`
    answers: int = 0

    @classmethod
    def of(cls, values: Iterable[Any]) -> AnswerShape:
        shape = cls()
        for value in values:
            shape.answers += 1
            seen: set[str] = set()
            shape._add("", value, seen, 0)
            for path in seen:
                shape.fields[path].answers += 1
        return shape

    def is_in_all(self, path: str) -> bool:
        """Return whether each answer has the field."""
        field = self.fields.get(path)
        return field is not None and field.answers == self.answers

    def _add(self, path: str, value: Any, seen: set[str], depth: int) -> None:
        if path not in self.fields and len(self.fields) >= _MAX_FIELDS:
            return
        field = self.fields.setdefault(path, ShapeField())
        seen.add(path)
        field.types.add(type_name(value))
        if isinstance(value, str):
            _add_value(field, value)
        if depth < _MAX_DEPTH:
            for name, inner in _parts(value):
                self._add(f"{path}{name}", inner, seen, depth + 1)


def type_name(value: Any) -> str:
    """Return the JSON type of a value."""
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "list"}
    return "null" if value is None else names.get(type(value), "object")


def title(path: str) -> str:
    """Return a path for people: `address.city`, `data[].id`."""
    return path.removeprefix(".") or "the whole"


def parent_path(path: str) -> str | None:
    """Return the path of the object or list that a field is in."""
    if path.endswith("[]"):
        return path[:-2]
    return path.rpartition(".")[0] if path else None


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, list):
        return [("[]", item) for item in value]
    if not isinstance(value, Mapping):
        return []
    names = ["{id}" if is_id(str(name)) else str(name) for name in value]
    return [(f".{name}", inner) for name, inner in zip(names, value.values(), strict=True)]


def _add_value(field: ShapeField, value: str) -> None:
    if field.is_free_text:
        return
    field.values.add(value)
    if not is_enum_value(value) or len(field.values) > _MAX_VALUES:
        field.is_free_text, field.values = True, set()


def is_enum_value(value: str) -> bool:
    """Return whether a text looks like a value of an enumeration: `open`, `in_progress`, `USD`."""
    return 0 < len(value) <= 40 and value.replace("_", "").replace("-", "").isalpha()
