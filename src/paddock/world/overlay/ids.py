"""Ids: which fields have them, how they look, and those of records that only the shadow has.

A shadow's id says so: a text has `shadow_` in it, a whole number is above 9,000,000,000,000,000
(and below 2**53, which JavaScript can count to), a UUID begins with 5ad00000-0000-8000.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from paddock.world.overlay.paths import canonical

ID_FIELDS = ("id", "_id", "uuid", "guid", "gid", "sid", "iid", "number", "key")
_NAME_FIELDS = ("slug", "login", "username", "name", "code")
URL_FIELDS = ("url", "self", "href", "self_url", "api_url", "uri")
FIRST_SHADOW = 9_000_000_000_000_000
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_MARK = "5ad00000-0000-8000-8000-"
_PREFIXED = re.compile(r"([a-zA-Z]{1,12}_)\w+")
_SHADOW_TEXT = re.compile(r"(?:[a-zA-Z]{1,12}_)?shadow_\w+")
_MAX_URL = 2000


def style(values: Iterable[Any]) -> str:
    """How the ids of a collection look: int, digits, uuid, str, or a prefix such as `cus_`."""
    found = [value for value in values if isinstance(value, str | int) and value is not True]
    found = [value for value in found if value is not False and not is_marked(value)]
    if not found:
        return "str"
    if all(isinstance(value, int) for value in found):
        return "int"
    texts = [str(value) for value in found]
    if all(text.isdecimal() for text in texts):
        return "digits"
    if all(_UUID.fullmatch(text) for text in texts):
        return "uuid"
    prefixes = {match[1] if (match := _PREFIXED.fullmatch(text)) else "" for text in texts}
    return prefixes.pop() if len(prefixes) == 1 and "" not in prefixes else "str"


def shadow_id(style: str, number: int, letters: str) -> str | int:
    """A new one in a style; `number` counts them, `letters` is the end of one that is a text."""
    if style == "int":
        return FIRST_SHADOW + number
    if style == "digits":
        return str(FIRST_SHADOW + number)
    if style == "uuid":
        return f"{_UUID_MARK}{number:012x}"
    return f"{'' if style == 'str' else style}shadow_{letters}"


def is_marked(value: object) -> bool:
    """Whether it looks like the id of a shadow. A real number may look so, too."""
    if isinstance(value, int):
        return FIRST_SHADOW < value < 1 << 53
    if not isinstance(value, str) or len(value) > 200:
        return False
    if value.isdecimal():
        return len(value) < 20 and FIRST_SHADOW < int(value) < 1 << 53
    return value.startswith(_UUID_MARK) or _SHADOW_TEXT.fullmatch(value) is not None


def number_of(value: object) -> int | None:
    """Which one it is, for a shadow's id that is counted."""
    text = str(value)
    if text.startswith(_UUID_MARK):
        digits = text.removeprefix(_UUID_MARK)
        return int(digits, 16) if re.fullmatch(r"[0-9a-f]{12}", digits) else None
    return int(text) - FIRST_SHADOW if text.isdecimal() and is_marked(value) else None


def has_id(record: object) -> bool:
    return isinstance(record, Mapping) and any(
        isinstance(record.get(name), str | int) for name in ID_FIELDS[:7]
    )


def key_field(records: Sequence[Mapping[str, Any]], key: str) -> str | None:
    """The field by which the path calls one of them: `/issues/7` may mean the number, not the
    id."""
    for name in (*ID_FIELDS, *_NAME_FIELDS):
        if any(_text(record.get(name)) == key for record in records):
            return name
    return None


class RecordIndex:
    """Where the records of some paths are in a list, by their own URL or by the field of their
    key."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._records = {at: one for at, one in enumerate(items) if isinstance(one, Mapping)}
        self._by_url: dict[str, int] = {}
        self._by_field: dict[str, dict[str, int]] = {}
        for at, record in self._records.items():
            for url in _own_urls(record):
                self._by_url.setdefault(url, at)

    def find(self, path: str, key: str, field: str | None) -> int | None:
        if path in self._by_url:
            return self._by_url[path]
        name = field or self._guess(key)
        return None if name is None else self._places(name).get(key)

    def _guess(self, key: str) -> str | None:
        """What is not known is not guessed from a few records: 7 may be the number of another."""
        first = next(iter(self._records.values()), None)
        if first is None:
            return None
        return "id" if "id" in first else key_field(list(self._records.values()), key)

    def _places(self, name: str) -> dict[str, int]:
        if name not in self._by_field:
            found: dict[str, int] = {}
            for at, record in self._records.items():
                text = _text(record.get(name))
                if text is not None:
                    found.setdefault(text, at)
            self._by_field[name] = found
        return self._by_field[name]


def _own_urls(item: Mapping[str, Any]) -> list[str]:
    """The paths that a record says are its own."""
    links = item.get("_links") or item.get("links")
    own = links.get("self") if isinstance(links, Mapping) else None
    own = own.get("href") if isinstance(own, Mapping) else own
    found = []
    for value in (own, *(item.get(name) for name in URL_FIELDS)):
        if isinstance(value, str) and len(value) <= _MAX_URL and "/" in value:
            plain = value.partition("?")[0].partition("#")[0]
            at = plain.find("/", plain.find("://") + 3) if "://" in plain else 0
            found += [canonical(plain[at:])] if at >= 0 else []
    return found


def like(key: str, sample: object) -> str | int:
    """A key of a path in the type that the records have it."""
    if isinstance(sample, int) and key.isdecimal() and len(key) < 20:
        return int(key)
    return key


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value)
