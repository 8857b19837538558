"""Patterns of schemas: matched in linear time, and texts that they match."""

from __future__ import annotations

import functools
import importlib
import string
from typing import Any

MAX_PATTERN = 2_000
MAX_TEXT = 100_000  # that a pattern is tried on
_MAX_MADE = 2_000  # characters of a text that is made
_LETTERS = string.ascii_letters + string.digits + string.punctuation + " "


@functools.lru_cache(maxsize=4096)
def _matcher(pattern: str) -> Any:
    """None for a pattern that cannot be matched in linear time: look-around, back-references."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if len(pattern) > MAX_PATTERN:
        return None
    try:
        # Rust's engine does not backtrack: an agent chooses the text, and `re` could hang on it.
        schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        return SchemaValidator(schema)
    except SchemaError:
        return None


def matches(pattern: str, text: str) -> bool:
    """Whether it is found in the text. What cannot be tried safely counts as found."""
    matcher = _matcher(pattern)
    if matcher is None:
        return True
    return len(text) <= MAX_TEXT and bool(matcher.isinstance_python(text))


@functools.lru_cache(maxsize=4096)
def example_of(pattern: str, turn: int = 0) -> str | None:
    """A text that the pattern matches, another one for each turn. None if none was found."""
    if len(pattern) > MAX_PATTERN:
        return None
    try:
        parsed = importlib.import_module("re._parser").parse(pattern)
        text = _Maker(turn).sequence(parsed)
    except Exception:  # a pattern of another dialect: there is no example then
        return None
    return text if len(text) < _MAX_MADE and matches(pattern, text) else None


class _Maker:
    """Walks a parsed pattern. The turn is spent, digit by digit, on the choices that come."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._length = 0

    def sequence(self, parsed: Any) -> str:
        return "".join(self._part(str(code), value) for code, value in parsed)

    def _part(self, code: str, value: Any) -> str:
        self._length += 1
        if self._length > _MAX_MADE:
            raise ValueError("too long")
        if code == "LITERAL":
            return chr(value)
        if code == "NOT_LITERAL":
            return self._pick([letter for letter in _LETTERS if ord(letter) != value])
        if code == "ANY":
            return self._pick(list(string.ascii_lowercase))
        if code == "IN":
            return self._pick(_members(value))
        if code == "BRANCH":
            return self.sequence(value[1][0])
        if code == "SUBPATTERN":
            return self.sequence(value[3])
        if code in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, part = value
            return "".join(self.sequence(part) for _ in range(_times(least, int(most))))
        if code == "AT":
            return ""
        raise ValueError(code)

    def _pick(self, letters: list[str]) -> str:
        self._turn, at = divmod(self._turn, len(letters))
        return letters[at]


def _times(least: int, most: int) -> int:
    return max(least, min(most, 8)) if most > 8 or least == 0 else least


def _members(parts: Any) -> list[str]:
    codes = [(str(code), value) for code, value in parts]
    if codes and codes[0][0] == "NEGATE":
        return [letter for letter in _LETTERS if not any(_is_in(letter, *one) for one in codes[1:])]
    found = [letter for letter in _LETTERS if any(_is_in(letter, *one) for one in codes)]
    return found or [chr(value) for code, value in codes if code == "LITERAL"]


def _is_in(letter: str, code: str, value: Any) -> bool:
    if code == "LITERAL":
        return bool(ord(letter) == value)
    if code == "RANGE":
        return bool(value[0] <= ord(letter) <= value[1])
    kind = str(value)
    tests: dict[str, bool] = {
        "DIGIT": letter.isdigit(),
        "WORD": letter.isalnum() or letter == "_",
        "SPACE": letter.isspace(),
    }
    return tests[kind.replace("CATEGORY_", "").replace("NOT_", "")] != ("NOT_" in kind)
