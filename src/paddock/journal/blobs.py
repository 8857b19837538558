"""Large values of a run, each in a file named by its SHA-256, and the previews that stand for them.

What is read back is checked against its name. A blob is on disk when `flush` has returned. A value
beyond the budget of the run is not stored: its preview, its digest and its size are all there is.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from paddock.journal.budget import RecordBudget
from paddock.journal.canonical import canonical_text, encoded
from paddock.journal.plain_values import Stored, StoredBytes
from paddock.journal.strict_json import parse_json
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.events import BlobRef
from paddock.objects.store import Framing, ObjectMissing, ObjectStore

DIRECTORY = "blobs"
BYTES = "bytes"  # the form of a blob that is not read back with its record
LARGE_BYTES = 16 << 10
PREVIEW_BYTES = 1 << 10
# Nothing in a text of so many characters is large: none takes more than four bytes.
SHORT_TEXT = LARGE_BYTES // 4
# More than any caller should hold in memory; what an agent prints is bounded long before.
MAX_BLOB_BYTES = 256 << 20
# More than a record ever holds in all its values; one that was made up may name a blob many times.
_MAX_WHOLE_BYTES = 4 * MAX_BLOB_BYTES
# A body that is still longer than this has its largest parts set aside as JSON.
LONG_BODY_BYTES = 64 << 10
MAX_BODY_BYTES = 1 << 20
# A record says of every value that was set aside where it stood, and an agent chooses the keys on
# the way there. A value with a longer way, or behind so many others, stays in its field, which is
# then set aside as JSON: a line that no reader accepts would make the whole journal unreadable.
_MAX_PATH = 128
_MAX_REFS = 1000
# When the budget of the run is used up, nothing longer than this stays in a record.
_LARGE_BEYOND_BUDGET = 1 << 10
_PREVIEW_BEYOND_BUDGET = 256


class Blobs:
    """The blobs of one run, below its directory. Safe to use from several threads."""

    def __init__(self, directory: Path, budget: RecordBudget | None = None) -> None:
        """Whoever only reads needs no budget."""
        self.budget = budget or RecordBudget()
        self._guard = threading.Lock()
        self._objects = ObjectStore(
            directory / DIRECTORY, framing=Framing.RAW, is_durable=True, noun="the blob"
        )

    def put(self, data: bytes) -> tuple[str, bool]:
        """Store the bytes once; return their digest, and whether the budget had room for them."""
        if len(data) > MAX_BLOB_BYTES:
            raise InvalidInput(f"a value of {len(data)} bytes is too large to be recorded")
        digest = sha256(data).hexdigest()
        with self._guard:
            if self._objects.has(digest, len(data)):
                return digest, True
            if not self.budget.take_file(len(data)):
                return digest, False
            self._objects.add(digest, data)
        return digest, True

    def ref(self, path: str, data: bytes, form: str) -> BlobRef:
        """Store the bytes and return what stands for them in a record."""
        digest, is_kept = self.put(data)
        return BlobRef(path, digest, len(data), form, is_kept)

    def read(self, digest: str, *, limit: int = MAX_BLOB_BYTES) -> bytes:
        """Return the bytes of that digest, checked. Raises NotFound where they are missing and
        IntegrityError where they are others."""
        limit = max(0, min(limit, MAX_BLOB_BYTES))  # a journal may claim any size
        try:
            return self._objects.read(digest, limit)
        except ObjectMissing as error:
            raise NotFound(error.message) from None

    def flush(self) -> None:
        """Return when every blob that was put is on disk."""
        self._objects.flush()

    def close(self) -> None:
        """Let go of what was not flushed."""
        self._objects.close()


def set_aside(body: Mapping[str, Any], text: str, blobs: Blobs) -> tuple[str, tuple[BlobRef, ...]]:
    """Return the body's canonical text with previews in place of its large values, and where these
    are."""
    if len(text) <= SHORT_TEXT:
        return text, ()
    refs: list[BlobRef] = []
    slim = {key: _slim(body[key], _step("", key), blobs, refs) for key in body}
    text = canonical_text(slim)
    is_used_up = blobs.budget.is_used_up
    if len(encoded(text)) > (SHORT_TEXT if is_used_up else LONG_BODY_BYTES):
        slim = {key: _slim_json(slim[key], _step("", key), blobs, refs) for key in slim}
        text = canonical_text(slim)
    if len(encoded(text)) > MAX_BODY_BYTES:
        raise InvalidInput(f"a record's body has more than {MAX_BODY_BYTES} bytes")
    return text, tuple(refs)


def stored(text: str, blobs: Blobs) -> str:
    """Store a text before it is in a body, if it is large; return what stands for it."""
    data = encoded(text)
    if len(data) <= LARGE_BYTES:
        return text
    # Longer than what `set_aside` passes over.
    beginning = Stored(text[: SHORT_TEXT + 1])
    beginning.digest, beginning.is_kept = blobs.put(data)
    beginning.size_bytes = len(data)
    return beginning


def stored_bytes(data: bytes, blobs: Blobs) -> StoredBytes:
    """Store a piece of a body before it is in a record; return what stands for it."""
    beginning = StoredBytes(data[: SHORT_TEXT + 1].decode("utf-8", "replace"))
    beginning.digest, beginning.is_kept = blobs.put(data)
    beginning.size_bytes = len(data)
    return beginning


def put_back(body: Any, refs: Sequence[BlobRef], blobs: Blobs) -> dict[str, Any]:
    """Return the body with every preview replaced by the value that it stands for."""
    holder = {"": _copied(body)}
    room = _MAX_WHOLE_BYTES
    lost = tuple(f"{ref.path}/" for ref in refs if not ref.is_kept and ref.form == "json")
    # Last set aside, first put back: a value set aside as JSON may hold previews of strings.
    for ref in reversed(refs):
        if not ref.is_kept or ref.form == BYTES or ref.path.startswith(lost):
            continue  # the preview is all that there is, or all that is read with the record
        if ref.size_bytes > MAX_BLOB_BYTES:
            raise IntegrityError(f"{ref.size_bytes!r:.40} is not the size of a blob")
        data = blobs.read(ref.sha256, limit=ref.size_bytes)
        room -= len(data)
        if room < 0:
            raise IntegrityError("the values of a record are larger than a record can be")
        try:
            value = parse_json(data) if ref.form == "json" else data.decode()
        except ValueError:
            raise IntegrityError(f"the blob {ref.sha256} is not what stood there") from None
        _replace(holder, ref.path, value)
    whole = holder[""]
    if not isinstance(whole, dict):
        raise IntegrityError("the body of a record is a blob that is no object")
    return whole


def _slim(value: Any, path: str, blobs: Blobs, refs: list[BlobRef]) -> Any:
    if isinstance(value, Stored):
        form = BYTES if isinstance(value, StoredBytes) else "text"
        refs.append(BlobRef(path, value.digest, value.size_bytes, form, value.is_kept))
        if form == BYTES and not path.endswith("/0"):
            return ""  # the first piece shows how the body begins
        return _preview(encoded(str.__str__(value)), refs[-1])
    if len(path) > _MAX_PATH:
        return value
    if isinstance(value, str):
        data = encoded(value)
        is_field = "/" not in path[1:]
        if len(data) <= _large(blobs) or (len(refs) >= _MAX_REFS and not is_field):
            return value
        refs.append(blobs.ref(path, data, "text"))
        return _preview(data, refs[-1])
    if isinstance(value, Mapping):
        return {key: _slim(value[key], _step(path, key), blobs, refs) for key in value}
    if isinstance(value, list | tuple):
        return [_slim(item, _step(path, str(at)), blobs, refs) for at, item in enumerate(value)]
    return value


def _slim_json(value: Any, path: str, blobs: Blobs, refs: list[BlobRef]) -> Any:
    if not isinstance(value, dict | list):
        return value
    data = encoded(canonical_text(value))
    if len(data) <= _large(blobs):
        return value
    refs.append(blobs.ref(path, data, "json"))
    if not refs[-1].is_kept:
        return _small_parts(value)
    return _preview(data, refs[-1])


def _large(blobs: Blobs) -> int:
    """Return how many bytes of one value a record may have."""
    return _LARGE_BEYOND_BUDGET if blobs.budget.is_used_up else LARGE_BYTES


def _preview(data: bytes, ref: BlobRef) -> str:
    size = PREVIEW_BYTES if ref.is_kept else _PREVIEW_BEYOND_BUDGET
    return data[:size].decode(errors="ignore")


def _small_parts(value: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """Return what stays of an object or a list that is not kept: an object's small fields, as
    many as fit. Who reads it finds a value of the kind that it expects."""
    if isinstance(value, list):
        return []
    parts: dict[str, Any] = {}
    room = _LARGE_BEYOND_BUDGET
    for key, item in value.items():
        size = len(encoded(key)) + len(encoded(canonical_text(item)))
        if size <= min(room, _PREVIEW_BEYOND_BUDGET + len(encoded(key))):
            parts[key] = item
            room -= size
    return parts


def _replace(holder: dict[str, Any], path: str, new: Any) -> None:
    """Put a value in the place that a path leads to. The holder has the body under "", with which
    every path begins."""
    place: Any = holder
    *way, last = path.split("/")
    try:
        for step in way:
            place = place[_key(place, step)]
        key = _key(place, last)
        place[key]  # raises if there is nothing to replace
        place[key] = new
    except (LookupError, ValueError, TypeError):
        raise IntegrityError("a blob stands for a value that its record does not have") from None


def _key(place: Any, step: str) -> str | int:
    """Return the key of an object, or the index of a list, that a step of a path names."""
    if isinstance(place, list):
        return int(step)
    return step.replace("~1", "/").replace("~0", "~")


def _copied(value: Any) -> Any:
    """Return a copy of a JSON value in which others do not see what is replaced."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _step(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
