"""JSON that a journal may hold, read from bytes that anybody may have written.

`msgspec` already refuses what the journal's writer never writes: half a surrogate pair, `NaN`, an
integer without end. What is left is a value that is nested until some later walk over it fails. It
is refused here, once, so that no reader behind has to think of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from paddock.journal.canonical import MAX_DEPTH

_MAX_DEPTH = MAX_DEPTH + 8  # of a line: what stands around a body


def parse_json(data: bytes) -> Any:
    """Return the value. Raises ValueError for what the journal's writer cannot have written."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if may_be_too_deep(data):
        _check_depth(value)
    return value


def may_be_too_deep(data: bytes) -> bool:
    """Return whether the text has enough brackets to be nested too deeply. Most lines of a journal
    have too few and need no further look."""
    return data.count(b"{") + data.count(b"[") > _MAX_DEPTH


def _check_depth(value: Any) -> None:
    """Raise ValueError if too many objects and arrays lie in each other. It does not recurse."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
