"""Actions, decisions and receipts as the bodies of records, the same for every writer and reader.

Values that JSON cannot say exactly (64-bit identifiers, NaN, bytes, objects) are written as text:
the journal must be able to hold whatever a tool was given and whatever it returned.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

from paddock.journal.canonical import MAX_DEPTH, MAX_INTEGER
from paddock.model.action import Action, Decision, Receipt, Verdict

_MAX_REPR = 2000
# A body adds a few levels of its own around a value.
MAX_VALUE_DEPTH = MAX_DEPTH - 8


class Stored(str):
    """A long text that the run has as a blob already. What it says itself is its beginning."""

    __slots__ = ("digest", "is_kept", "size_bytes")
    digest: str
    is_kept: bool
    size_bytes: int


class StoredBytes(Stored):
    """A piece of a body that the run has as a blob of bytes. It is not read back with its record,
    but when its turn comes: a body may be longer than what fits into memory."""

    __slots__ = ()


def proposed_body(action: Action) -> dict[str, Any]:
    """The body of `proposed`: the action as policy saw it."""
    return {
        "kind": str(action.kind),
        "name": as_text(action.name),
        "arguments": as_json(action.arguments if action.recorded is None else action.recorded),
        "effect": str(action.effect),
        "is_reversible": action.is_reversible,
        "is_contained": action.is_contained,
        **({} if action.parent is None else {"parent": action.parent}),
        **({"context": as_json(action.context)} if action.context else {}),
    }


def decided_body(decision: Decision) -> dict[str, Any]:
    """The body of `decided`: the verdict, who gave it and why."""
    hits = [
        {"rule_id": hit.rule_id, "verdict": str(hit.verdict), "why": as_text(hit.why)}
        for hit in decision.hits
    ]
    return {
        "verdict": str(decision.verdict),
        "decided_by": as_text(decision.decided_by),
        "why": as_text(decision.why),
        "effect": str(decision.effect),
        **({"hits": hits} if hits else {}),
        **({"is_draft": True} if decision.is_draft else {}),
        **_once_approved(decision),
        **({} if decision.fault is None else {"fault": as_json(decision.fault)}),
    }


def _once_approved(decision: Decision) -> dict[str, Any]:
    """Said of what is asked about, where a yes means something else than allow, and of what a fault
    of the file struck: what was decided before."""
    then, is_asked = decision.once_approved, decision.verdict is Verdict.ASK
    is_struck = decision.verdict is Verdict.FAULT and "id" in (decision.fault or {})
    is_said = is_struck or (is_asked and then is not Verdict.ALLOW)
    return {"once_approved": str(then)} if is_said else {}


def settled_body(receipt: Receipt, result: Any = None) -> dict[str, Any]:
    """The body of `settled`: what came of it. `result` where not all of it is to be kept."""
    said = {
        "error": receipt.error,
        "answered_by": receipt.answered_by,
        "draft_id": receipt.draft_id,
    }
    return {
        "outcome": str(receipt.outcome),
        "result": as_json(receipt.result if result is None else result),
        **{key: as_text(value) for key, value in said.items() if value is not None},
        **({"cost": as_json(receipt.cost)} if receipt.cost else {}),
    }


def as_json(value: Any, depth: int = MAX_VALUE_DEPTH) -> Any:
    """Any value of Python as one that canonical JSON has; the same value gives the same JSON."""
    kind = type(value)
    if kind is str and value.isascii():  # first what is most common
        return value
    if kind is dict and depth > 0:
        return {
            key if type(key) is str and key.isascii() else _as_key(key): as_json(item, depth - 1)
            for key, item in value.items()
        }
    if kind is list and depth > 0:
        return [as_json(item, depth - 1) for item in value]
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _as_number(value)
    if isinstance(value, enum.Enum):
        return as_json(value.value, depth)
    if isinstance(value, str):
        return value if isinstance(value, Stored) else as_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    if depth <= 0:
        return _as_repr(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (field.name for field in dataclasses.fields(value))
        return {name: as_json(getattr(value, name), depth - 1) for name in fields}
    if isinstance(value, Mapping):
        return {_as_key(key): as_json(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item, depth - 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((as_json(item, depth - 1) for item in value), key=repr)
    return _as_repr(value)


def as_text(value: str) -> str:
    """The text with halves of surrogate pairs, which are no text, spelled out."""
    text = str.__str__(value)
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def _as_number(value: int | float) -> int | float | str:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if -MAX_INTEGER <= value <= MAX_INTEGER else _decimal(value)


def _decimal(value: int) -> str:
    # Python refuses to print integers of more than some thousand digits in decimal.
    return str(value) if value.bit_length() < 10_000 else hex(value)[:_MAX_REPR]


def _as_key(key: Any) -> str:
    return as_text(key) if isinstance(key, str) else _as_repr(key)


def _as_repr(value: Any) -> str:
    try:
        return as_text(repr(value)[:_MAX_REPR])
    except Exception:  # an object of a tool may fail at anything
        return f"<{type(value).__name__}>"
