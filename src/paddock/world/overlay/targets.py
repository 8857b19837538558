"""The target of a write: a record, a collection, or an action on a record."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.policy.graphql import is_endpoint
from paddock.world.overlay.paths import ancestors, is_id, is_plural, last_part, parent

# States that an action leads to, besides its participle.
_RESULTS = {"cancel": ("canceled", "cancelled"), "reopen": ("open", "reopened"), "send": ("sent",),
            "submit": ("submitted",), "pay": ("paid",), "void": ("void", "voided"),
            "solve": ("solved",), "stop": ("stopped",), "hold": ("on_hold", "held")}  # fmt: skip
_STATE_FIELDS = ("status", "state", "stage")


class WriteKind(enum.Enum):
    CREATE = "create"
    CHANGE = "change"
    REPLACE = "replace"
    DELETE = "delete"
    EMPTY = "empty"  # delete a whole collection
    ACT = "act"
    GRAPHQL = "graphql"  # the path does not say what it does


class WriteTarget(msgspec.Struct, frozen=True):
    kind: WriteKind
    path: str  # of the collection for CREATE and EMPTY, else of the record
    action: str = ""


class KnownPaths(msgspec.Struct, frozen=True):
    """Tests whether earlier reads have shown a path to be a list, or a record."""

    is_list: Callable[[str], bool]
    is_record: Callable[[str], bool]


def write_target(method: str, path: str, body: Any, known: KnownPaths) -> WriteTarget:
    """Classify a write. The cases, in this order: GraphQL; an action after a colon
    (`/users/3:disable`); DELETE, PATCH and PUT by their method; then a POST to a known list, to a
    record, or to the name of an action below a record. Otherwise it creates."""
    if is_endpoint(path):
        return WriteTarget(WriteKind.GRAPHQL, path)
    stem, colon, action = path.rpartition(":")
    if colon and last_part(stem) and re.fullmatch(r"[A-Za-z]+", action):
        return WriteTarget(WriteKind.ACT, stem, action)
    if method == "DELETE":
        kind = WriteKind.EMPTY if _is_collection(path, known) else WriteKind.DELETE
        return WriteTarget(kind, path)
    if method == "PATCH":
        return WriteTarget(WriteKind.CHANGE, path)
    if method == "PUT" and body is not None:
        return WriteTarget(WriteKind.REPLACE, path)
    if known.is_list(path):
        return WriteTarget(WriteKind.CREATE, path)
    name = last_part(path)
    if is_id(name) or known.is_record(path):
        return WriteTarget(WriteKind.CHANGE, path)
    record = _nearest_record(ancestors(path), known)
    if record is not None and (method != "POST" or not is_plural(name)):
        return WriteTarget(WriteKind.ACT, record, name)
    return WriteTarget(WriteKind.CREATE, path)


def action_target(path: str, known: KnownPaths) -> WriteTarget:
    """Return the target of a GET that is declared to write: an action on the nearest record."""
    record = _nearest_record([path, *ancestors(path)], known)
    return WriteTarget(WriteKind.ACT, record or parent(path), last_part(path))


def action_changes(
    action: str, record: Mapping[str, Any], siblings: list[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what an action changes, only with values that the records have shown: `close` sets
    `status: closed` if some record is closed, or `closed: true` if they have such a field."""
    states = _resulting_states(action)
    for field in _STATE_FIELDS:
        if not isinstance(record.get(field), str):
            continue
        values = {sibling.get(field) for sibling in siblings}
        texts = {value.lower(): value for value in values if isinstance(value, str)}
        for state in states:
            if state in texts:
                return {field: texts[state]}
    for state in states:
        if isinstance(record.get(state), bool):
            return {state: True}
    return {}


def _resulting_states(action: str) -> tuple[str, ...]:
    action = action.lower()
    if action.endswith("y") and action[-2:-1] not in "aeiou":
        participle = action[:-1] + "ied"
    else:
        participle = action.removesuffix("e") + "ed"
    return (*_RESULTS.get(action, ()), participle)


def _nearest_record(paths: list[str], known: KnownPaths) -> str | None:
    for path in paths:
        if not known.is_list(path) and (is_id(last_part(path)) or known.is_record(path)):
            return path
    return None


def _is_collection(path: str, known: KnownPaths) -> bool:
    if known.is_list(path):
        return True
    name, above = last_part(path), parent(path)
    if is_id(name) or known.is_record(path) or known.is_list(above) or is_plural(last_part(above)):
        return False
    return is_plural(name)
