"""Differences that are allowed between a record and its replay: declared, location by location,
with a shape that the value must still have. Nothing but timestamps may vary that is not
declared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.policy.background import BackgroundRule
from paddock.run.matching.timestamps import Timestamps, is_moment, is_unix

ANYWHERE = "*"
MAX_VARIED = 4096  # characters of a text that a shape is tried on
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32}")
_HEX = re.compile(r"(?:0[xX])?[0-9a-fA-F]+")
_INT = re.compile(r"-?\d{1,100}")
_WORD = re.compile(r'\["([^"]*)"\]|\[(\d+|\*)\]|\.?([^.\[\]]+)')
_ROOTS = frozenset(
    {"headers", "body", "query", "path", "arguments", "argv", "cwd", "program", "stdin", "envs"}
)  # fmt: skip


class Vary(msgspec.Struct, frozen=True):
    """A place, as the words that lead there, and what may vary there. `*` is any one word."""

    at: str
    as_: str
    words: tuple[str | int, ...]  # empty: anywhere
    pattern: re.Pattern[str] | None = None  # of `re:`

    def is_at(self, place: tuple[str | int, ...]) -> bool:
        if not self.words:
            return True
        if len(self.words) != len(place):
            return False
        return all(w in (ANYWHERE, p) for w, p in zip(self.words, place, strict=True))

    @property
    def is_id(self) -> bool:
        return self.as_ == "id"

    def allows(self, value: Any) -> bool:
        """Return whether the value has the declared shape."""
        if self.as_ == "any":
            return True
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            return False
        if isinstance(value, str) and len(value) > MAX_VARIED:
            return False
        if self.pattern is not None:
            return self.pattern.fullmatch(str(value)) is not None
        return _SHAPES[self.as_](value)


class Rules(msgspec.Struct, frozen=True):
    """The differences that are allowed in one replay. `moments` None: not even timestamps may
    differ. `beside`: background traffic, which is no part of what the agent does."""

    vary: tuple[Vary, ...] = ()
    moments: Timestamps | None = None
    beside: tuple[BackgroundRule, ...] = ()

    def at(self, place: tuple[str | int, ...]) -> list[Vary]:
        """Return the rules for a location."""
        return [rule for rule in self.vary if rule.is_at(place)]

    @property
    def lets_any_body(self) -> bool:
        """Return whether `body=any` is declared."""
        return any(rule.as_ == "any" and rule.words == ("body",) for rule in self.vary)

    @property
    def has_ids(self) -> bool:
        return any(rule.is_id for rule in self.vary)


STRICT = Rules()


def vary_of(declared: str | Mapping[str, Any]) -> Vary:
    """Parse `AT=AS`, or `{at: AT, as: AS}` of a paddock file. Raises InvalidInput."""
    if isinstance(declared, str):
        at, separator, as_ = _parted(declared)
        if not separator:
            raise InvalidInput(f"{declared!r:.100} is not PLACE=SHAPE", hint="body.created=date")
    elif set(declared) == {"at", "as"} and all(
        isinstance(value, str) for value in declared.values()
    ):
        at, as_ = declared["at"], declared["as"]
    else:
        raise InvalidInput(f"{dict(declared)!r:.100} is not {{at: PLACE, as: SHAPE}}")
    return Vary(at, as_, _place(at, as_), _pattern(as_))


def _parted(declared: str) -> tuple[str, str, str]:
    """Split at the first `=` that is not inside quotes."""
    end = declared.rfind('"]') + 2 if '"]' in declared.partition("=re:")[0] else 0
    at, separator, as_ = declared[end:].partition("=")
    return (declared[:end] + at).strip(), separator, as_.strip()


def _place(at: str, as_: str) -> tuple[str | int, ...]:
    if at == ANYWHERE:
        if as_ in ("any", "id"):
            raise InvalidInput(f"*={as_} would let everything vary; name a place")
        return ()
    words = words_of(at)
    if not words or words[0] not in _ROOTS:
        hint = f"a place begins with one of {', '.join(sorted(_ROOTS))}"
        raise InvalidInput(f"{at!r:.100} names no place", hint=hint)
    return words


def words_of(at: str) -> tuple[str | int, ...]:
    """Return the path segments of a location. Raises InvalidInput."""
    words: list[str | int] = []
    end = 0
    while end < len(at):
        match = _WORD.match(at, end)
        if match is None:
            raise InvalidInput(f"{at!r:.100} names no place", hint="body.items[*].id")
        quoted, index, name = match.groups()
        words.append(_word(quoted, index, name))
        end = match.end()
    return _lowered(words)


def _word(quoted: str | None, index: str | None, name: str) -> str | int:
    if quoted is not None:
        return quoted
    if index is None:
        return name
    return index if index == ANYWHERE else int(index)


def _lowered(words: list[str | int]) -> tuple[str | int, ...]:
    """Put header names in lower case, because they are compared so."""
    if words and words[0] == "headers":
        return tuple(word.lower() if isinstance(word, str) else word for word in words)
    return tuple(words)


def _pattern(as_: str) -> re.Pattern[str] | None:
    if not as_.startswith("re:"):
        if as_ not in _SHAPES and as_ not in ("any", "id"):
            hint = f"one of {', '.join(sorted((*_SHAPES, 'any')))}, or re:PATTERN"
            raise InvalidInput(f"{as_!r:.60} is no shape", hint=hint)
        return None
    try:
        return re.compile(as_[3:])
    except re.error as error:
        raise InvalidInput(f"{as_!r:.100} is no pattern: {error}") from None


def _is_int(value: str | int | float) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and _INT.fullmatch(value) is not None)


def _is_text_of(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


_SHAPES: Mapping[str, Callable[[Any], bool]] = {
    "uuid": _is_text_of(_UUID),
    "date": is_moment,
    "unix": is_unix,
    "int": _is_int,
    "hex": _is_text_of(_HEX),
    "id": lambda value: value != "",
}
