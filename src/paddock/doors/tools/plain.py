"""Whatever a tool returns or raises, as JSON and as text. Nothing in here lets an object's own
methods do harm: an object that cannot be shown is named by its type."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_MAX_ERROR = 4000


def plain(value: Any) -> Any:
    """Return the value as JSON. Models, dataclasses, structs, dates and the like are converted;
    anything without a JSON form becomes its representation."""
    if value is None or type(value) in (str, bool, int):
        return value
    from pydantic_core import to_json

    try:
        text = to_json(value, fallback=_unknown, bytes_mode="base64", inf_nan_mode="strings")
        return json.loads(text)
    except Exception:  # a cycle, half of a surrogate pair, a serializer that fails
        return shown(value)


def _unknown(value: Any) -> Any:
    """Return a struct as its fields, and the representation of anything else that Pydantic does not
    know."""
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else shown(value)


def rendered(value: Any) -> str:
    """Return the value as a model reads it: a text as it is, everything else as JSON."""
    simple = plain(value)
    if simple is None:
        return "Done."
    return simple if isinstance(simple, str) else json.dumps(simple, ensure_ascii=False)


def said(error: BaseException) -> str:
    """Return the type and the message of an exception, also of one that cannot be printed."""
    try:
        words = str(error)
    except Exception:  # it is the tool's own object
        words = ""
    return f"{type(error).__name__}: {words}"[:_MAX_ERROR] if words else type(error).__name__


def shown(value: Any) -> str:
    """Return the representation, or the type where that fails."""
    try:
        text = repr(value)[:_MAX_ERROR]
    except Exception:
        return f"<{type(value).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()
