"""JSON from strangers: bounded, strict where readers differ, and texts that a journal can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from paddock.policy.json_bounds import Bounds, bound, has_few_values

MAX_BODY = 8 << 20  # of an answer that is not streamed, and of all that is held of a stream
MAX_VALUES = 1_000_000  # of an answer: one with probabilities has hundreds for each token
MAX_ARGUMENTS = 1 << 20  # characters in the arguments of one call
_ARGUMENTS = Bounds(nodes=10_000, characters=MAX_ARGUMENTS)


class Unreadable(Exception):
    """The answer is not in the wire format, or two readers could understand it differently."""


def load(data: bytes | str) -> Any:
    """Parse JSON. Raises Unreadable for anything else, and for a key that is named twice."""
    if isinstance(data, bytes) and not has_few_values(data, MAX_VALUES):
        raise Unreadable(f"a part of the answer has more than {MAX_VALUES} values")
    try:
        return _strict.decode(data if isinstance(data, str) else data.decode())
    except (ValueError, RecursionError):
        raise Unreadable("a part of the answer is not JSON that can be read in one way") from None


def dump(value: Any) -> bytes:
    """Encode JSON compactly and in ASCII, so that half a surrogate pair survives."""
    return json.dumps(value, separators=(",", ":")).encode()


def arguments_of(text: str) -> tuple[Any, bool]:
    """Return the arguments of a call, and whether they are the JSON object that they should be."""
    if not text:
        return {}, True
    try:
        value = load(text)
        bound(value, _ARGUMENTS, Unreadable)
        return (value, True) if isinstance(value, dict) else (clean(text), False)
    except Unreadable:
        return clean(text), False


def cut(text: str, size: int) -> str:
    """Return at most `size` bytes of a text, as text that can be encoded."""
    if len(text) * 4 <= size and text.isascii():
        return text
    return clean(text[:size]).encode()[:size].decode("utf-8", "ignore")


def clean(text: str) -> str:
    """Join halves of surrogate pairs where both are there, and replace them where not."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def text_or_none(value: Any, size: int = 256) -> str | None:
    """Return a short text; None for anything else."""
    return cut(value, size) if isinstance(value, str) else None


def count(value: Any) -> int:
    """Return a number of tokens; anything else counts as 0."""
    if type(value) is int and 0 <= value < 1 << 40:
        return value
    return 0


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # The first or the last? Readers differ, and a call must be the same for judge and agent.
        raise ValueError("a key is named twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_strict = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
