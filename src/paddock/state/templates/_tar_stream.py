"""A tar archive read once, from front to back. Parses within bounds; writes nothing anywhere.

`tarfile` understands the headers. It gets its bytes from a reader that has no way back and that
bounds what a hostile header can ask for; the data of members never passes through it.
"""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
from collections.abc import Iterator
from typing import Any, cast

from paddock.model.errors import InvalidInput
from paddock.state.templates._decompression import CHUNK_BYTES, DAMAGE, ByteSource

# Long names, attributes and sparse maps of one member. Real images stay below 64 KiB, and older
# versions of `tarfile` take a time that grows with the square of this.
MAX_HEADER_BYTES = 128 << 10


class TarStream:
    """The members of one tar. The data of a member must be read before the next is asked for."""

    def __init__(
        self, source: ByteSource, *, what: str, max_bytes: int, is_hashed: bool = False
    ) -> None:
        self._reader = _ForwardReader(source, what, max_bytes)
        self._reader.hash = hashlib.sha256() if is_hashed else None
        self._what = what

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Yield each member. An archive that is damaged or cut short is `InvalidInput`."""
        with self._naming_damage():
            self._reader.expect_header()
            tar = tarfile.TarFile(
                fileobj=cast(Any, self._reader), encoding="utf-8", errors="surrogateescape"
            )
        while True:
            with self._naming_damage():
                self._reader.expect_header()
                member = tar.next()
            if member is None:
                break
            cast(Any, tar).members.clear()  # tarfile would keep all of them
            self._reader.expect_data()
            yield member
        if not self._reader.ended_with_mark:
            raise InvalidInput(f"{self._what} is damaged: the archive ends in the middle")
        self._drain()  # a compressed file has its checksum behind the archive's own end

    def data(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        """Yield the bytes that are stored for a regular file, in pieces."""
        left = sum(length for _, length in stored_ranges(member))
        self._reader.seek(member.offset_data)
        while left > 0:
            chunk = self._reader.read(min(CHUNK_BYTES, left))
            if not chunk:
                raise InvalidInput(f"{self._what} is damaged: the archive ends in the middle")
            left -= len(chunk)
            yield chunk

    def digest(self) -> str:
        """Return the digest of the plain archive; read what was not read yet."""
        self._drain()
        return f"sha256:{self._reader.hash.hexdigest()}" if self._reader.hash else ""

    def _drain(self) -> None:
        self._reader.expect_data()
        while self._reader.read(CHUNK_BYTES):
            pass

    @contextlib.contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except InvalidInput:
            raise
        except (tarfile.TarError, OverflowError, LookupError, RecursionError, *DAMAGE) as error:
            raise InvalidInput(f"{self._what} is damaged or no tar archive: {error}") from None


def stored_ranges(member: tarfile.TarInfo) -> list[tuple[int, int]]:
    """Return where the stored bytes of a file belong, as (offset, length); the rest are holes."""
    sparse: list[tuple[int, int]] | None = getattr(member, "sparse", None)
    return [(0, member.size)] if sparse is None else sparse


class _ForwardReader:
    """A file to `tarfile`, without a way back."""

    def __init__(self, source: ByteSource, what: str, max_bytes: int) -> None:
        self._source = source
        self._what = what
        self._at, self._end = 0, max_bytes
        self._header_room: int | None = None
        self.hash: hashlib._Hash | None = None
        self.ended_with_mark = False

    def expect_header(self) -> None:
        self._header_room = MAX_HEADER_BYTES

    def expect_data(self) -> None:
        self._header_room = None

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int) -> None:
        if offset < self._at:
            raise InvalidInput(f"{self._what} is damaged: a member points back")
        room, self._header_room = self._header_room, None
        skip = getattr(self._source, "skip", None)
        if self.hash is None and skip is not None and skip(offset - self._at):
            self._at = offset
        while self._at < offset:
            if not self.read(min(CHUNK_BYTES, offset - self._at)):
                raise InvalidInput(f"{self._what} is damaged: the archive ends in the middle")
        self._header_room = room

    def read(self, count: int) -> bytes:
        """Return all `count` bytes, or fewer at the end only."""
        if self._header_room is not None:
            self._header_room -= count
            if self._header_room < 0 or count < 0:
                raise InvalidInput(f"{self._what} has a member with an oversized header")
        pieces, left = [], count
        while left > 0:
            piece = self._pull(left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
        self.ended_with_mark = len(data) == tarfile.BLOCKSIZE and not any(data)
        return data

    def _pull(self, count: int) -> bytes:
        try:
            piece = self._source.read(count)
        except DAMAGE as error:
            raise InvalidInput(f"{self._what} is damaged: {error}") from None
        self._at += len(piece)
        if self._at > self._end:
            raise InvalidInput(
                f"{self._what} unpacks to more than is allowed",
                hint="if you trust it, add it with a larger --max-size or --max-entries",
            )
        if self.hash is not None:
            self.hash.update(piece)
        return piece
