"""One entry of a stored tree, and its line of JSON. Pure values: nothing here touches a file.

A tree is stored as lines in the order of a walk, parents first. An entry knows its depth, not its
path: the parent is the last directory one level up. So a tree of n names takes n lines of ordinary
length, however deep an agent nests it. Lines that come from elsewhere are checked in full.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
import os
import re
from typing import Any

import msgspec

from paddock.model.errors import IntegrityError
from paddock.state.files.file_copy import MAX_EXTENTS, Extents

# One line holds at most an inlined file or one file's extents; more is damage or an attack.
MAX_LINE_BYTES = 64 << 20
_MAX_NUMBER = 1 << 63
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
DIGEST = re.compile(r"[0-9a-f]{64}")


class EntryKind(enum.Enum):
    """What can be stored. A whiteout is overlayfs's mark of a deleted lower file."""

    DIR = "dir"
    FILE = "file"
    SYMLINK = "symlink"
    FIFO = "fifo"
    WHITEOUT = "whiteout"


class Entry(msgspec.Struct, frozen=True):
    """One name in a stored tree. A file has its bytes `inline`, or in the blob `blob`, or is one
    more name (`link`) of the entry with that number. With `extents` the bytes are only those
    ranges, one after the other, and the rest of the `size` bytes are holes."""

    depth: int
    name: str
    kind: EntryKind
    mode: int = 0
    mtime_ns: int = 0
    size: int = 0
    inline: bytes | None = None
    blob: str | None = None
    extents: Extents | None = None
    target: str | None = None
    link: int | None = None
    xattrs: tuple[tuple[str, bytes], ...] = ()

    @property
    def stored_bytes(self) -> int:
        """How many bytes the inline data or the blob must have."""
        if self.extents is None:
            return self.size
        return sum(length for _, length in self.extents)


def encode(entry: Entry) -> bytes:
    """The entry's line, without its end; the same entry always gives the same bytes."""
    fields: dict[str, Any] = {"depth": entry.depth, "type": entry.kind.value}
    _put_text(fields, "name", entry.name)
    if entry.target is not None:
        _put_text(fields, "target", entry.target)
    for key in ("mode", "mtime_ns", "size"):
        if value := getattr(entry, key):
            fields[key] = value
    if entry.inline:
        fields["inline"] = base64.b64encode(entry.inline).decode()
    for key in ("blob", "link", "extents"):
        if (value := getattr(entry, key)) is not None:
            fields[key] = value
    if entry.xattrs:
        fields["xattrs"] = {k: base64.b64encode(v).decode() for k, v in entry.xattrs}
    return canonical(fields)


def decode(line: bytes) -> Entry:
    """The entry of a line; `IntegrityError` when the line is not one that `encode` writes."""
    try:
        fields = json.loads(line)
        entry = _parse(fields)
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise IntegrityError(f"a stored tree has a malformed entry: {error}") from None
    _check(entry)
    return entry


def canonical(value: Any) -> bytes:
    """JSON with one spelling only, in plain ASCII."""
    return _CANONICAL.encode(value).encode()


def number(value: Any, low: int = 0) -> int:
    """A JSON number that is a size, a count or a time; anything else is a ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < _MAX_NUMBER:
        raise ValueError(f"{str(value)[:40]!r} is not a number in range")
    return value


def _put_text(fields: dict[str, Any], key: str, text: str) -> None:
    """Names are bytes to the kernel. Those that are no UTF-8 are kept as base64, because other
    readers of JSON reject the lone surrogates that Python stands in for them."""
    raw = os.fsencode(text)
    try:
        fields[key] = raw.decode()
    except UnicodeDecodeError:
        fields[f"{key}_b64"] = base64.b64encode(raw).decode()


def _get_text(fields: dict[str, Any], key: str) -> str | None:
    if key in fields:
        return os.fsdecode(_typed(fields[key], str).encode())
    if f"{key}_b64" in fields:
        return os.fsdecode(base64.b64decode(_typed(fields[f"{key}_b64"], str), validate=True))
    return None


def _parse(fields: Any) -> Entry:
    kind = EntryKind(_typed(fields, dict)["type"])
    link, blob, extents = (fields.get(key) for key in ("link", "blob", "extents"))
    has_inline = kind is EntryKind.FILE and link is None and blob is None
    return Entry(
        depth=number(fields["depth"]),
        name=_get_text(fields, "name") or "",
        kind=kind,
        mode=number(fields.get("mode", 0)),
        mtime_ns=number(fields.get("mtime_ns", 0), low=-_MAX_NUMBER),
        size=number(fields.get("size", 0)),
        inline=base64.b64decode(fields.get("inline", ""), validate=True) if has_inline else None,
        blob=None if blob is None else _typed(blob, str),
        extents=None if extents is None else _parse_extents(extents),
        target=_get_text(fields, "target"),
        link=None if link is None else number(link),
        xattrs=tuple(
            (_typed(key, str), base64.b64decode(value, validate=True))
            for key, value in sorted(fields.get("xattrs", {}).items())
        ),
    )


def _parse_extents(value: Any) -> Extents:
    if len(_typed(value, list)) > MAX_EXTENTS:
        raise ValueError("too many extents")
    return tuple((number(offset), number(length, low=1)) for offset, length in value)


def _check(entry: Entry) -> None:
    """Whatever `restore` relies on: a damaged or forged tree must not reach the file system."""
    if entry.depth == 0:
        sane = entry.name == "" and entry.kind is EntryKind.DIR
    else:
        sane = (
            entry.name not in ("", ".", "..") and "/" not in entry.name and "\0" not in entry.name
        )
    sane = sane and entry.mode <= (0o1777 if entry.kind is EntryKind.DIR else 0o777)
    sane = sane and (entry.target is not None) == (entry.kind is EntryKind.SYMLINK)
    sane = sane and (entry.target is None or (bool(entry.target) and "\0" not in entry.target))
    sane = sane and all(key.startswith("user.") for key, _ in entry.xattrs)
    if not sane or not _content_is_sane(entry):
        raise IntegrityError("a stored tree has an entry that cannot be", hint=repr(entry)[:300])


def _content_is_sane(entry: Entry) -> bool:
    if entry.kind is not EntryKind.FILE:
        return (entry.blob, entry.link, entry.extents, entry.size) == (None, None, None, 0)
    if entry.link is not None:
        return entry.blob is None and entry.extents is None
    if entry.blob is not None and not DIGEST.fullmatch(entry.blob):
        return False
    if entry.inline is not None and len(entry.inline) != entry.stored_bytes:
        return False
    end = 0
    for offset, length in entry.extents or ():
        if offset < end:
            return False
        end = offset + length
    return end <= entry.size


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{str(value)[:40]!r} is not a {kind.__name__}")
    return value
