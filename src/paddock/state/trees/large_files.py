"""Large files as lists of parts, each of which is an object of its own.

A file of more than `SPLIT_ABOVE` bytes is cut at multiples of `PART_BYTES`. Within a part only runs
of units that are not all zeros are stored, so

- what is in memory at a time is one part, however large the file is;
- a hole costs nothing, neither to read nor to store: a sparse file of an exabyte is a short list;
- a file that grew shares all parts but the last with its earlier version.

The list is made from the bytes alone. A file with holes and a copy of it without have the same
list, and so the same digest, which is that of the list. Smaller files are stored in one piece,
under the digest of their bytes.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator

import msgspec

from paddock.model.errors import IntegrityError
from paddock.objects.file_bytes import UNIT_BYTES, nonzero_runs
from paddock.objects.store import DIGEST
from paddock.state.trees.stored_json import canonical, number

SPLIT_ABOVE = 64 << 20
PART_BYTES = 4 << 20
# A list of more parts was made to be long: such a file is known by its size only.
MAX_PARTS = 1_000_000


class FilePart(msgspec.Struct, frozen=True):
    """Some bytes of a file, and the digest of the object that has them."""

    offset: int
    length: int
    digest: str


class TooManyParts(OSError):
    """The file has more separate parts than are ever listed."""


def split(fd: int, size: int, put: Callable[[bytes], str]) -> tuple[bytes, int]:
    """Return the list of the first `size` bytes of an open file, and the size that was found, which
    is less where the file was cut meanwhile. `put` is given each part and returns its digest."""
    parts: list[FilePart] = []
    for offset, data in _runs(fd, size):
        parts.append(FilePart(offset, len(data), put(data)))
        if len(parts) > MAX_PARTS:
            raise TooManyParts(errno.EFBIG, "it has too many separate parts")
    size_now = min(size, os.fstat(fd).st_size)
    listed = [[part.offset, part.length, part.digest] for part in parts]
    return canonical({"parts": listed, "size": size_now}), size_now


def read_list(data: bytes) -> tuple[list[FilePart], int]:
    """Return the parts of a file, and its size. Raises IntegrityError for what no list can be."""
    try:
        fields = json.loads(data)
        size, end, parts = number(fields["size"]), 0, []
        for offset, length, digest in fields["parts"]:
            part = FilePart(number(offset), number(length), str(digest))
            if not (end <= part.offset and 0 < part.length <= PART_BYTES):
                raise ValueError("its parts overlap")
            if DIGEST.fullmatch(part.digest) is None:
                raise ValueError(f"{part.digest[:80]!r} is no digest")
            end = part.offset + part.length
            parts.append(part)
        if end > size:
            raise ValueError("its parts are longer than it is")
        return parts, size
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise IntegrityError(f"a stored list of parts is malformed: {error!s:.200}") from None


def _runs(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the runs of units that are not all zeros, by offset; none crosses the border of a
    part."""
    pending: tuple[int, bytearray] | None = None
    for offset, data in _data(fd, size):
        for start, end in nonzero_runs(data):
            begin, piece = offset + start, data[start:end]
            if pending is not None:
                joins = pending[0] + len(pending[1]) == begin and begin % PART_BYTES
                if joins:
                    pending[1].extend(piece)
                    continue
                yield pending[0], bytes(pending[1])
            pending = begin, bytearray(piece)
    if pending is not None:
        yield pending[0], bytes(pending[1])


def _data(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield what is no hole, in pieces that begin at a unit and lie within one part."""
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            hole = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # only a hole is left, or the file was cut meanwhile
            raise
        start = max(at, start - start % UNIT_BYTES)
        border = start - start % PART_BYTES + PART_BYTES
        end = min(-(-hole // UNIT_BYTES) * UNIT_BYTES, border, size)
        if start >= end:
            return
        data = os.pread(fd, end - start, start)
        if not data:
            return
        yield start, data
        at = start + len(data)
        if at < end and at % UNIT_BYTES:
            return  # it was cut meanwhile; what was read is not steady and is read again
