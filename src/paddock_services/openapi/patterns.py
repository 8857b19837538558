"""Regular expressions of schemas: matching in linear time, and making texts that match."""

from __future__ import annotations

import functools
import importlib
import string
from typing import Any

MAX_PATTERN = 2_000
MAX_TEXT = 100_000  # longer texts do not match
_MAX_EXAMPLE = 2_000  # characters
_LETTERS = string.ascii_letters + string.digits + string.punctuation + " "


@functools.lru_cache(maxsize=4096)
def _matcher(pattern: str) -> Any:
    """Return a matcher, or None for a pattern that cannot be matched in linear time, because it has
    look-around or back-references."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if len(pattern) > MAX_PATTERN:
        return None
    try:
        # An agent chooses the text, and `re` could hang on it. Rust's engine does not backtrack.
        schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        return SchemaValidator(schema)
    except SchemaError:
        return None


def matches(pattern: str, text: str) -> bool:
    """Return whether the text has a match. A pattern that cannot be tried safely always matches."""
    matcher = _matcher(pattern)
    if matcher is None:
        return True
    return len(text) <= MAX_TEXT and bool(matcher.isinstance_python(text))


@functools.lru_cache(maxsize=4096)
def example_of(pattern: str, variant: int = 0) -> str | None:
    """Return a text that matches, another one for each variant, or None if none was found."""
    if len(pattern) > MAX_PATTERN:
        return None
    try:
        parsed = importlib.import_module("re._parser").parse(pattern)
        text = _ExampleMaker(variant).sequence(parsed)
    except Exception:  # a pattern of another dialect
        return None
    return text if len(text) < _MAX_EXAMPLE and matches(pattern, text) else None


class _ExampleMaker:
    """Walks a parsed pattern. The variant is spent, digit by digit, on the choices in it."""

    def __init__(self, variant: int) -> None:
        self._variant = variant
        self._length = 0

    def sequence(self, parsed: Any) -> str:
        return "".join(self._part(str(code), value) for code, value in parsed)

    def _part(self, code: str, value: Any) -> str:
        self._length += 1
        if self._length > _MAX_EXAMPLE:
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
            minimum, maximum, part = value
            count = _repetitions(minimum, int(maximum))
            return "".join(self.sequence(part) for _ in range(count))
        if code == "AT":
            return ""
        raise ValueError(code)

    def _pick(self, letters: list[str]) -> str:
        self._variant, index = divmod(self._variant, len(letters))
        return letters[index]


def _repetitions(minimum: int, maximum: int) -> int:
    if maximum > 8 or minimum == 0:
        return max(minimum, min(maximum, 8))
    return minimum


def _members(parts: Any) -> list[str]:
    codes = [(str(code), value) for code, value in parts]
    if codes and codes[0][0] == "NEGATE":
        excluded = codes[1:]
        return [c for c in _LETTERS if not any(_is_in(c, *code) for code in excluded)]
    letters = [letter for letter in _LETTERS if any(_is_in(letter, *code) for code in codes)]
    return letters or [chr(value) for code, value in codes if code == "LITERAL"]


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
