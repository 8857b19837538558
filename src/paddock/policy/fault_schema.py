"""The shape of the faults of a paddock file. `schema` publishes it; what the words mean together is
checked in `fault_words`. Loading this file loads pydantic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_duration, parse_size, parse_written_duration
from paddock.policy.match_schema import FaultMatchShape, UnlessShape
from paddock.policy.problems import suggest
from paddock.policy.shape import Shape

MAX_FAULTS = 500
MAX_STEPS = 1000
MAX_HEADERS = 50
MAX_BODY = 1 << 16
MAX_WAIT_S = 3600.0
MAX_DRIP = 1 << 30
SETS = ("storm", "flaky", "hostile")
_LATE = ("error", "reset", "timeout")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}(; ?[\w-]+=[\w-]+)?", re.ASCII)
# They frame or route an answer; what they say must be true, or the client reads another one.
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "trailer", "upgrade",
                      "keep-alive", "te"})  # fmt: skip
T = TypeVar("T")


def _seconds(value: Any) -> float:
    return _bounded(quantity(parse_written_duration, value), value)


def _bounded(seconds: float, value: Any) -> float:
    if not 0.001 <= seconds <= MAX_WAIT_S:
        raise InvalidInput(f"{value!r} is not between 1ms and 1h", hint="write 30s")
    return seconds


def _retry_after(value: Any) -> float:
    """Return seconds; as the header has it, it may be a plain number of them."""
    if type(value) in (int, float):  # a recorded file has a float
        return 0.0 if value == 0 else _bounded(quantity(parse_duration, value), value)
    return _seconds(value)


def _failure_status(value: Any) -> int:
    if type(value) is not int:
        raise InvalidInput(f"{value!r:.60} is not a status", hint="write 503, without quotes")
    if not 400 <= value <= 599:
        what = "is no failure" if 100 <= value < 400 else "is not a status"
        hint = "a fault has a status from 400 to 599, as in 429 or 503"
        raise InvalidInput(f"{value} {what}", hint=hint)
    return value


def _yes(value: Any) -> Literal[True]:
    if value is True:
        return True
    raise InvalidInput(f"{value!r:.60} is not true", hint="write true, or remove the key")


def _kill(value: Any) -> Literal[True] | float:
    return True if value is True else _seconds(value)


def _truncate(value: Any) -> int | float:
    hint = "write 0.5 for the half, or 100 for so many bytes"
    if type(value) is float:
        if 0 < value < 1:
            return value
        raise InvalidInput(f"{value!r} is not a share between 0 and 1", hint=hint)
    if type(value) is int and value == 0:
        return 0
    return quantity(parse_size, value)


def _drip(value: Any) -> int:
    hint = "write 100B/s"
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str):
        if not text.endswith("/s"):
            raise InvalidInput(f"{value!r:.60} is not a speed", hint=hint)
        text = text.removesuffix("/s")
    speed = quantity(parse_size, text)
    if speed > MAX_DRIP:
        raise InvalidInput(f"{value!r:.60} is no drip", hint=hint)
    return speed


def _late(value: Any) -> str | int:
    if value in _LATE or (type(value) is int and 400 <= value <= 599):
        found: str | int = value
        return found
    hint = suggest(value, _LATE) if isinstance(value, str) else "a status is from 400 to 599"
    raise InvalidInput(f"{value!r:.60} is not how an answer is lost", hint=hint)


def _headers(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not 0 < len(value) <= MAX_HEADERS:
        raise InvalidInput("not a mapping of headers", hint="write {X-Request-Id: abc}")
    for name, text in value.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidInput(f"{name!r:.60} is not the name of a header")
        if name.lower() in _FRAMING:
            raise InvalidInput(f"{name} says where an answer ends", hint="write truncate or reset")
        is_plain = isinstance(text, str) and len(text) <= 1000 and text.isascii()
        if not is_plain or not (text.isprintable() or not text):
            raise InvalidInput(f"the value of {name} is not a line of text", hint="quote it")
    return dict(value)


def _body(value: Any) -> Any:
    if not isinstance(value, str | Mapping | list):
        raise InvalidInput(f"{value!r:.60} is no body", hint="write a text or a mapping")
    try:
        size = len(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("is not JSON", hint="quote what is not a text or a number") from None
    if size > MAX_BODY:
        raise InvalidInput(f"is longer than {MAX_BODY} bytes")
    return value


def _media_type(value: Any) -> str:
    if isinstance(value, str) and _MEDIA_TYPE.fullmatch(value):
        return value
    raise InvalidInput(f"{value!r:.60} is not a content type", hint="write text/html")


def _set_name(value: Any) -> str:
    if isinstance(value, str) and value in SETS:
        return value
    raise InvalidInput(f"{value!r:.60} is not a set of faults", hint=suggest(value, SETS))


def _steps(value: Any) -> Any:
    return [value] if type(value) is int else value


def quantity(parse: Callable[[Any, str], T], value: Any) -> T:
    """Return a size or a duration; what is wrong with it is said without a key."""
    try:
        return parse(value, "")
    except InvalidInput as error:
        raise InvalidInput(error.message.removeprefix(": "), hint=error.hint) from None


def _word(parse: Callable[[Any], Any], schema: dict[str, Any]) -> Any:
    return Annotated[Any, PlainValidator(parse), WithJsonSchema(schema)]


_TIME: dict[str, Any] = {"type": ["string", "number"], "examples": ["30s", "250ms"]}
_WAIT = _word(_seconds, _TIME)
_YES = _word(_yes, {"const": True})
_SHARE = {"type": ["number", "string"], "examples": [0.5, 100]}
_AFTER = {"anyOf": [{"enum": [*_LATE]}, {"type": "integer", "minimum": 400, "maximum": 599}]}
_LINES = {"type": "object", "additionalProperties": {"type": "string"}}
_KILL = {"anyOf": [{"const": True}, _TIME]}
SetName = Annotated[str, PlainValidator(_set_name), WithJsonSchema({"enum": [*SETS]}), Tag("name")]
Steps = Annotated[
    list[Annotated[int, Field(ge=1)]], BeforeValidator(_steps), Field(max_length=MAX_STEPS)
]


FailureStatus = Annotated[
    int,
    PlainValidator(_failure_status),
    WithJsonSchema({"type": "integer", "minimum": 400, "maximum": 599}),
]


class FaultWordsShape(Shape):
    """What goes wrong. A word that is not there does nothing."""

    delay: _WAIT = None  # type: ignore[valid-type]
    timeout: _WAIT = None  # type: ignore[valid-type]
    status: FailureStatus = None  # type: ignore[assignment]
    headers: _word(_headers, _LINES) = None  # type: ignore[valid-type]
    retry_after: _word(_retry_after, _TIME) = None  # type: ignore[valid-type]
    body: _word(_body, {"type": ["string", "object", "array"]}) = None  # type: ignore[valid-type]
    error: str = Field(default=None, min_length=1, max_length=1000)  # type: ignore[assignment]
    reset: _YES = None  # type: ignore[valid-type]
    truncate: _word(_truncate, _SHARE) = None  # type: ignore[valid-type]
    malformed: _YES = None  # type: ignore[valid-type]
    wrong_type: _word(_media_type, {"type": "string"}) = None  # type: ignore[valid-type]
    drip: _word(_drip, {"type": ["string", "integer"]}) = None  # type: ignore[valid-type]
    duplicate: _YES = None  # type: ignore[valid-type]
    stale: _YES = None  # type: ignore[valid-type]
    after: _word(_late, _AFTER) = None  # type: ignore[valid-type]
    disk_full: _YES = None  # type: ignore[valid-type]
    kill: _word(_kill, _KILL) = None  # type: ignore[valid-type]
    nxdomain: _YES = None  # type: ignore[valid-type]
    servfail: _YES = None  # type: ignore[valid-type]


class FaultEntryShape(Shape):
    """One fault, or (with `set`) a ready-made set of them."""

    id: str = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")  # type: ignore[assignment]
    set: SetName = Field(default=None, description="storm, flaky or hostile")  # type: ignore[assignment]
    match: FaultMatchShape = Field(default=None)  # type: ignore[assignment]
    unless: UnlessShape = Field(default=None)  # type: ignore[assignment]
    when: str = Field(default=None, description="CEL over args, action and context")  # type: ignore[assignment]
    fault: FaultWordsShape = Field(default=None)  # type: ignore[assignment]
    rate: float = Field(default=1.0, gt=0, le=1, description="the chance of each match")
    times: int = Field(default=None, ge=1, le=10**6)  # type: ignore[assignment]
    first: int = Field(default=None, ge=1, le=10**6)  # type: ignore[assignment]
    after: int = Field(default=0, ge=0, le=10**6)
    every: int = Field(default=None, ge=1, le=10**6)  # type: ignore[assignment]
    step: int = Field(default=None, ge=1)  # type: ignore[assignment]
    steps: Steps = Field(default=[], min_length=1)
    seed: int = Field(default=None, ge=0, lt=1 << 63)  # type: ignore[assignment]


def _entry_tag(value: Any) -> str:
    return "entry" if isinstance(value, Mapping) else "name"


Entry = Annotated[
    SetName | Annotated[FaultEntryShape, Tag("entry")],
    Discriminator(_entry_tag),
]
# What stands at `faults:` of the file.
Faults = Annotated[
    SetName | Annotated[list[Entry], Field(max_length=MAX_FAULTS), Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "name"),
]
# Which keys there are below `faults`, for `schema.SHAPES`.
FAULT_SHAPES: dict[tuple[str, ...], type[Shape]] = {
    ("faults", "*"): FaultEntryShape,
    ("faults", "*", "match"): FaultMatchShape,
    ("faults", "*", "unless"): UnlessShape,
    ("faults", "*", "fault"): FaultWordsShape,
}
