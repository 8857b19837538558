"""Ids: the fields that hold them, their formats, and the ids of records that exist only as drafts.

The id of a draft record is recognisable: a text contains `shadow_`, a whole number is above
9,000,000,000,000,000 (and below 2**53, the limit of JavaScript), a UUID begins with
5ad00000-0000-8000.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from paddock.world.overlay.paths import canonical

ID_FIELDS = ("id", "_id", "uuid", "guid", "gid", "sid", "iid", "number", "key")
OWN_ID_FIELDS = ID_FIELDS[:7]  # a number or a key may be something else than the record's id
_NAME_FIELDS = ("slug", "login", "username", "name", "code")
URL_FIELDS = ("url", "self", "href", "self_url", "api_url", "uri")
FIRST_SHADOW = 9_000_000_000_000_000
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_MARK = "5ad00000-0000-8000-8000-"
_PREFIXED = re.compile(r"([a-zA-Z]{1,12}_)\w+")
_SHADOW_TEXT = re.compile(r"(?:[a-zA-Z]{1,12}_)?shadow_\w+")
_MAX_URL = 2000


def id_style(values: Iterable[Any]) -> str:
    """Return the format of ids: int, digits, uuid, str, or a prefix such as `cus_`."""
    ids = [value for value in values if _id_text(value) is not None and not is_marked(value)]
    texts = [str(id) for id in ids]
    if not texts:
        return "str"
    if all(isinstance(id, int) for id in ids):
        return "int"
    if all(text.isdecimal() for text in texts):
        return "digits"
    if all(_UUID.fullmatch(text) for text in texts):
        return "uuid"
    matches = [_PREFIXED.fullmatch(text) for text in texts]
    prefixes = {match[1] if match else "" for match in matches}
    if len(prefixes) == 1 and "" not in prefixes:
        return prefixes.pop()
    return "str"


def shadow_id(style: str, number: int, letters: str) -> str | int:
    """Make an id for a draft record. `number` counts them; `letters` ends an id that is a text."""
    if style == "int":
        return FIRST_SHADOW + number
    if style == "digits":
        return str(FIRST_SHADOW + number)
    if style == "uuid":
        return f"{_UUID_MARK}{number:012x}"
    prefix = "" if style == "str" else style
    return f"{prefix}shadow_{letters}"


def is_marked(value: object) -> bool:
    """Return whether a value looks like the id of a draft record. A real number may, too."""
    if isinstance(value, int):
        return FIRST_SHADOW < value < 1 << 53
    if not isinstance(value, str) or len(value) > 200:
        return False
    if value.isdecimal():
        return len(value) < 20 and FIRST_SHADOW < int(value) < 1 << 53
    return value.startswith(_UUID_MARK) or _SHADOW_TEXT.fullmatch(value) is not None


def shadow_number(value: object) -> int | None:
    """Return the number that `shadow_id` was given, for an id that is a number or a UUID."""
    text = str(value)
    if text.startswith(_UUID_MARK):
        digits = text.removeprefix(_UUID_MARK)
        return int(digits, 16) if re.fullmatch(r"[0-9a-f]{12}", digits) else None
    if text.isdecimal() and is_marked(value):
        return int(text) - FIRST_SHADOW
    return None


def has_id(record: object) -> bool:
    return isinstance(record, Mapping) and any(
        isinstance(record.get(name), str | int) for name in OWN_ID_FIELDS
    )


def key_field(records: Sequence[Mapping[str, Any]], key: str) -> str | None:
    """Return the field that the path's last part comes from: `/issues/7` may be a number, not an
    id."""
    for name in (*ID_FIELDS, *_NAME_FIELDS):
        if any(_id_text(record.get(name)) == key for record in records):
            return name
    return None


def key_like(key: str, sample: object) -> str | int:
    """Return a key of a path in the type that the records have it."""
    if isinstance(sample, int) and key.isdecimal() and len(key) < 20:
        return int(key)
    return key


class RecordIndex:
    """Finds the record of a path in a list, by the record's own URL or by the field of its key."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._records = {
            index: item for index, item in enumerate(items) if isinstance(item, Mapping)
        }
        self._by_url: dict[str, int] = {}
        self._by_field: dict[str, dict[str, int]] = {}
        for index, record in self._records.items():
            for path in _own_paths(record):
                self._by_url.setdefault(path, index)

    def find(self, path: str, key: str, field: str | None) -> int | None:
        """Return the index in the list. `field` is that of the key, if it is known."""
        if path in self._by_url:
            return self._by_url[path]
        name = field or self._guess_field(key)
        return None if name is None else self._index_by(name).get(key)

    def _guess_field(self, key: str) -> str | None:
        records = list(self._records.values())
        if records and "id" in records[0]:
            return "id"  # another field that happens to equal the key may be of another record
        return key_field(records, key)

    def _index_by(self, name: str) -> dict[str, int]:
        if name not in self._by_field:
            indexes: dict[str, int] = {}
            for index, record in self._records.items():
                text = _id_text(record.get(name))
                if text is not None:
                    indexes.setdefault(text, index)
            self._by_field[name] = indexes
        return self._by_field[name]


def _own_paths(record: Mapping[str, Any]) -> list[str]:
    """Return the paths that a record states as its own."""
    links = record.get("_links") or record.get("links")
    own = links.get("self") if isinstance(links, Mapping) else None
    if isinstance(own, Mapping):
        own = own.get("href")
    paths = []
    for value in (own, *(record.get(name) for name in URL_FIELDS)):
        if not isinstance(value, str) or len(value) > _MAX_URL or "/" not in value:
            continue
        try:
            path = urlsplit(value).path
        except ValueError:
            continue
        if path:
            paths.append(canonical(path))
    return paths


def _id_text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value)
