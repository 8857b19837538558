"""The shape of JSON answers: which fields, of which types, in which answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from paddock.world.overlay.paths import is_id

_MAX_FIELDS = 20_000
_MAX_DEPTH = 30
_MAX_WORDS = 12


class ShapeField(msgspec.Struct):
    """One place in the answers of an endpoint."""

    types: set[str] = set()
    words: set[str] = set()  # its values, while they are single words
    is_free: bool = False  # it has other texts, or too many
    answers: int = 0  # that have it


class AnswerShape(msgspec.Struct):
    """Of some answers to the same kind of request."""

    fields: dict[str, ShapeField] = {}
    answers: int = 0

    @classmethod
    def of(cls, values: Iterable[Any]) -> AnswerShape:
        shape = cls()
        for value in values:
            shape.answers += 1
            seen: set[str] = set()
            shape._add("", value, seen, 0)
            for place in seen:
                shape.fields[place].answers += 1
        return shape

    def is_always(self, place: str) -> bool:
        """Whether each answer has it."""
        found = self.fields.get(place)
        return found is not None and found.answers == self.answers

    def _add(self, place: str, value: Any, seen: set[str], depth: int) -> None:
        if place not in self.fields and len(self.fields) >= _MAX_FIELDS:
            return
        one = self.fields.setdefault(place, ShapeField())
        seen.add(place)
        one.types.add(type_of(value))
        if isinstance(value, str):
            _note(one, value)
        if depth < _MAX_DEPTH:
            for name, inner in _inside(value):
                self._add(f"{place}{name}", inner, seen, depth + 1)


def type_of(value: Any) -> str:
    """As JSON calls it."""
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "list"}
    return "null" if value is None else names.get(type(value), "object")


def title(place: str) -> str:
    """For people: `address.city`, `data[].id`."""
    return place.removeprefix(".") or "the whole"


def above(place: str) -> str | None:
    """The place that this one is in."""
    if place.endswith("[]"):
        return place[:-2]
    return place.rpartition(".")[0] if place else None


def _inside(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [("." + ("{id}" if is_id(str(name)) else str(name)), one)
                for name, one in value.items()]  # fmt: skip
    return [("[]", one) for one in value] if isinstance(value, list) else []


def _note(one: ShapeField, value: str) -> None:
    if one.is_free:
        return
    one.words.add(value)
    if not is_word(value) or len(one.words) > _MAX_WORDS:
        one.is_free, one.words = True, set()


def is_word(value: str) -> bool:
    """Like the values of an enumeration: `open`, `in_progress`, `USD`."""
    return 0 < len(value) <= 40 and value.replace("_", "").replace("-", "").isalpha()
