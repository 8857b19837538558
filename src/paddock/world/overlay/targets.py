"""What a write is meant for: a record, a collection, or something that a record can do."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.policy.graphql import is_endpoint
from paddock.world.overlay.paths import ancestors, is_id, is_plural, last, parent

_DONE = {"cancel": ("canceled", "cancelled"), "reopen": ("open", "reopened"), "send": ("sent",),
         "submit": ("submitted",), "pay": ("paid",), "void": ("void", "voided"),
         "solve": ("solved",), "stop": ("stopped",), "hold": ("on_hold", "held")}  # fmt: skip
_STATES = ("status", "state", "stage")


class WriteKind(enum.Enum):
    CREATE = "create"
    CHANGE = "change"
    REPLACE = "replace"
    DELETE = "delete"
    EMPTY = "empty"  # a whole collection
    ACT = "act"
    ASK = "ask"  # GraphQL: what it does is not in its path


class WriteTarget(msgspec.Struct, frozen=True):
    does: WriteKind
    path: str  # of the collection for CREATE and EMPTY, else of the record
    verb: str = ""


class KnownPaths(msgspec.Struct, frozen=True):
    """What reads have taught: whether a path is a list, or a record."""

    is_list: Callable[[str], bool]
    is_record: Callable[[str], bool]


def target(method: str, path: str, body: Any, known: KnownPaths) -> WriteTarget:
    name = last(path)
    if is_endpoint(path):
        return WriteTarget(WriteKind.ASK, path)
    stem, colon, verb = path.rpartition(":")
    if colon and "/" not in verb and last(stem) and re.fullmatch(r"[A-Za-z]+", verb):
        return WriteTarget(WriteKind.ACT, stem, verb)
    if method == "DELETE":
        return WriteTarget(WriteKind.EMPTY if _is_whole(path, known) else WriteKind.DELETE, path)
    if method == "PATCH":
        return WriteTarget(WriteKind.CHANGE, path)
    if method == "PUT" and body is not None:
        return WriteTarget(WriteKind.REPLACE, path)
    if known.is_list(path):
        return WriteTarget(WriteKind.CREATE, path)
    if is_id(name) or known.is_record(path):
        return WriteTarget(WriteKind.CHANGE, path)
    holder = next((one for one in ancestors(path) if _is_one(one, known)), None)
    if holder is not None and (method != "POST" or not is_plural(name)):
        return WriteTarget(WriteKind.ACT, holder, name)
    return WriteTarget(WriteKind.CREATE, path)


def acting(path: str, known: KnownPaths) -> WriteTarget:
    """Of a GET that is said to write: something that the nearest record does."""
    holder = next((one for one in (path, *ancestors(path)) if _is_one(one, known)), parent(path))
    return WriteTarget(WriteKind.ACT, holder, last(path))


def outcome(
    verb: str, record: Mapping[str, Any], siblings: list[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a verb changes, only where the records themselves have shown the word: `close` sets
    `status: closed` if one is closed, or `closed: true` if they have such a field."""
    words = _words(verb)
    for field in _STATES:
        values = {one.get(field) for one in siblings if isinstance(one.get(field), str)}
        if isinstance(record.get(field), str) and (found := _one_of(words, values)):
            return {field: found}
    for word in words:
        if isinstance(record.get(word), bool):
            return {word: True}
    return {}


def _words(verb: str) -> tuple[str, ...]:
    verb = verb.lower()
    stem = verb.removesuffix("e")
    stem = stem[:-1] + "i" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else stem
    return (*_DONE.get(verb, ()), f"{stem}ed")


def _one_of(words: tuple[str, ...], values: set[Any]) -> str | None:
    return next((value for word in words for value in values if value.lower() == word), None)


def _is_one(path: str, known: KnownPaths) -> bool:
    return not known.is_list(path) and (is_id(last(path)) or known.is_record(path))


def _is_whole(path: str, known: KnownPaths) -> bool:
    name, above = last(path), parent(path)
    if known.is_list(path):
        return True
    is_item = is_id(name) or known.is_record(path) or known.is_list(above) or is_plural(last(above))
    return is_plural(name) and not is_item
