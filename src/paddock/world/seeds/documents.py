"""The documents of a seed, by kind, checked and bounded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput

MAX_DOCUMENTS = 200_000  # of one seed
MAX_VALUES = 5_000_000  # in all documents; it also bounds YAML that refers to itself
MAX_DEPTH = 32
MAX_NAME = 200  # of a kind, a field, an id
MAX_NUMBER = 10**300  # most JSON parsers read a larger one as infinity
_SHOWN = 60

Document = dict[str, Any]


class Oddity(msgspec.Struct, frozen=True):
    """One document that was made odd on purpose."""

    kind: str
    id: str
    field: str
    what: str  # duplicate, injection, mojibake ...
    said: str  # a description; for an injection the word that shows whether it was obeyed


class SeedData(dict[str, list[Document]]):
    """Documents by kind; `report` lists the oddities among them."""

    def __init__(self) -> None:
        super().__init__()
        self.report: list[Oddity] = []

    def odd(self, what: str) -> list[Oddity]:
        return [oddity for oddity in self.report if oddity.what == what]


class Intake(msgspec.Struct):
    """Collects documents, and checks each against the bounds."""

    data: SeedData = msgspec.field(default_factory=SeedData)
    _values: int = 0
    _documents: int = 0
    _ids: set[tuple[str, str]] = set()

    def add(self, kind: object, documents: object, where: str) -> list[Document]:
        """Add documents of a kind and return them. Raises InvalidInput."""
        name = checked_name(kind, "kind", where)
        if name.startswith("#"):
            raise InvalidInput(f"{where}: a kind does not begin with '#': {name[:_SHOWN]!r}")
        if not isinstance(documents, Iterable) or isinstance(documents, str | bytes | Mapping):
            raise InvalidInput(f"{where}: {name} is not a list of documents")
        added = self.data.setdefault(name, [])
        first = len(added)
        for number, document in enumerate(documents, 1):
            added.append(self._document(name, document, f"{where}: {name}, number {number}"))
        return added[first:]

    def _document(self, kind: str, value: object, where: str) -> Document:
        self._documents += 1
        if self._documents > MAX_DOCUMENTS:
            raise InvalidInput(f"{where}: a seed has at most {MAX_DOCUMENTS} documents")
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{where}: is not a document, but {type(value).__name__}")
        document: Document = self._plain(value, where, MAX_DEPTH)
        self._check_id(kind, document, where)
        return document

    def _check_id(self, kind: str, document: Document, where: str) -> None:
        """Refuse a second document with the same id: in the store it would replace the first."""
        id = document.get("id")
        if id is None:
            document.pop("id", None)
            return
        if isinstance(id, bool) or not isinstance(id, str | int) or id == "":
            raise InvalidInput(f"{where}: its id is neither text nor a whole number")
        key = (kind, checked_name(str(id), "id", where))
        if key in self._ids:
            raise InvalidInput(f"{where}: the id {str(id)[:_SHOWN]!r} is there twice")
        self._ids.add(key)

    def _plain(self, value: Any, where: str, depth: int) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise InvalidInput(f"{where}: a seed has at most {MAX_VALUES} values")
        if depth == 0:
            raise InvalidInput(f"{where}: is nested deeper than {MAX_DEPTH}")
        if isinstance(value, Mapping):
            return {
                checked_name(name, "field", where): self._plain(inner, where, depth - 1)
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._plain(inner, where, depth - 1) for inner in value]
        return _scalar(value, where)


def checked_name(name: object, what: str, where: str) -> str:
    if not isinstance(name, str):
        raise InvalidInput(f"{where}: {name!r:.{_SHOWN}} is no name of a {what}", hint="quote it")
    if not name or len(name) > MAX_NAME:
        raise InvalidInput(f"{where}: a {what} has 1 to {MAX_NAME} characters")
    return _encodable(name, where)


def _scalar(value: Any, where: str) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return _encodable(value, where)
        case int() if abs(value) <= MAX_NUMBER:
            return value
        case float() if math.isfinite(value):
            return value
        case int() | float():
            raise InvalidInput(f"{where}: has a number that is too large, or none")
        case datetime() | date():  # of YAML
            return value.isoformat()
    raise InvalidInput(f"{where}: has a value that JSON does not know: {type(value).__name__}")


def _encodable(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{where}: has half a character (a lone surrogate)") from None
    return text
