"""JSON that a journal may hold, read from bytes that anybody may have written.

Python's parser takes more than the journal's writer ever gives: half a surrogate pair, which no
output can encode, `NaN`, and values nested until some later walk over them fails. All of it is
refused here, once, so that no reader behind has to think of it.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from paddock.journal.canonical import MAX_DEPTH

_MAX_DEPTH = MAX_DEPTH + 8  # what stands around a body


def parse_json(text: str) -> Any:
    """Return the value; ValueError for what the journal's writer cannot have written."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # Both looks are taken only where the text could fail them: there are millions of lines.
    if text.count("{") + text.count("[") > _MAX_DEPTH and _depth(value) > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _depth(value: Any) -> int:
    """Return how many objects and arrays lie in each other, found without recursion."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [item for one in level for item in (one.values() if type(one) is dict else one)]
        if depth > _MAX_DEPTH:
            break
    return depth
