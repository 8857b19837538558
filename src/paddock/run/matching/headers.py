"""Which headers of a request are compared, and in which spelling. All are, but for those that the
transport or a library makes up and no server acts upon; `volatile` has the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from paddock.run.matching.volatile import dropped

# A client makes a boundary up for each body, and no server acts upon which one it is.
_BOUNDARY = re.compile(r'(;\s*boundary=)("[^"]*"|[^;,\s]+)', re.IGNORECASE)
_MULTIPART = "multipart/"


def compared(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that matter, as they are compared."""
    return {
        name: _without_boundary(value) if name == "content-type" else value
        for name, value in headers.items()
        if dropped(name) is None
    }


def left_out(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are not compared."""
    return {name: value for name, value in headers.items() if dropped(name) is not None}


def _without_boundary(value: str) -> str:
    if not value.lower().startswith(_MULTIPART):
        return value
    return _BOUNDARY.sub(r"\1*", value)
