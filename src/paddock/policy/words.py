"""Plain values from a file or a caller, read so that what is wrong names its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from paddock.model.errors import InvalidInput
from paddock.policy.problems import spell_path, suggest

MAX_ENTRIES = 2000  # of one list
MAX_TEXT = 4096

Path = tuple[str | int, ...]
Complaint = tuple[Path, str, str | None]  # where, what is wrong, what to write
T = TypeVar("T")


def within(path: Path, parse: Callable[[Any], T], value: Any) -> T:
    """The value, or an error that begins with its key."""
    try:
        return parse(value)
    except InvalidInput as error:
        raise InvalidInput(f"{spell_path(path)}: {error.message}", hint=error.hint) from None


def known_keys(words: Any, known: tuple[str, ...], path: Path) -> Mapping[str, Any]:
    """The mapping, once it has no other keys."""
    if not isinstance(words, Mapping):
        raise InvalidInput(f"{spell_path(path)}: not a mapping with {', '.join(known)}")
    for key in words:
        if key not in known:
            shown = spell_path((*path, str(key)[:60]))
            raise InvalidInput(f"{shown}: unknown key", hint=suggest(key, known))
    return words


def each(words: Mapping[str, Any], key: str, path: Path, parse: Callable[[Any], T]) -> list[T]:
    """The items of the list at `key`, each parsed; none when there is no such key."""
    values = words.get(key, ())
    if not isinstance(values, list | tuple):
        raise InvalidInput(f"{spell_path((*path, key))}: not a list")
    if len(values) > MAX_ENTRIES:
        raise InvalidInput(f"{spell_path((*path, key))}: more than {MAX_ENTRIES}")
    return [within((*path, key, n), parse, one) for n, one in enumerate(values)]


def text_of(value: Any, hint: str) -> str:
    """A text of a sane length that is not empty."""
    if isinstance(value, str) and 0 < len(value) <= MAX_TEXT:
        return value
    raise InvalidInput(f"{str(value)[:60]!r} is not a text", hint=hint)


def raise_first(problems: Iterator[Complaint]) -> None:
    """Raises InvalidInput for the first of them, if there is one."""
    for path, message, hint in problems:
        raise InvalidInput(f"{spell_path(path)}: {message}", hint=hint)
