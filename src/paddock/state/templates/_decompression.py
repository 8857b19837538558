"""The bytes of a file as they are or as they were before compression, in order and within bounds.

Knows no archives. What a file is packed with is told by its first bytes.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import importlib
import lzma
import os
import zlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, cast

from paddock.model.errors import HostCannot

CHUNK_BYTES = 1 << 20
# What `xz -9e` needs is 65 MiB; a hostile stream may ask for 4 GiB.
MAX_DECODER_BYTES = 256 << 20
# What reading a damaged file raises, whichever way it is packed.
DAMAGE = (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)


class ByteSource(Protocol):
    """Anything that gives its bytes in order."""

    def read(self, count: int, /) -> bytes: ...


class Window:
    """A range of an open file as a source, hashed as it is read unless told otherwise."""

    def __init__(self, fd: int, start: int, size: int, *, is_hashed: bool = True) -> None:
        """Takes over `fd`."""
        self.fd = fd
        self.size = size
        self._at, self._end = start, start + size
        self._hash = hashlib.sha256() if is_hashed else None

    def read(self, count: int = -1, /) -> bytes:
        room = self._end - self._at
        data = os.pread(self.fd, room if count < 0 else min(count, room), self._at)
        self._at += len(data)
        if self._hash is not None:
            self._hash.update(data)
        return data

    def peek(self, count: int) -> bytes:
        return os.pread(self.fd, min(count, self._end - self._at), self._at)

    def skip(self, count: int) -> bool:
        """Pass over some bytes without reading them; not while they are to be hashed."""
        if self._hash is not None or count > self._end - self._at:
            return False
        self._at += count
        return True

    def digest(self) -> str:
        """Return the digest of the whole range; read what was not read yet."""
        while self.read(CHUNK_BYTES):
            pass
        return f"sha256:{self._hash.hexdigest()}" if self._hash else ""

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Window:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def decompressed(window: Window) -> ByteSource:
    """Return the plain bytes of a source, whatever they are compressed with."""
    magic = window.peek(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=cast(Any, window), mode="rb")
    if magic.startswith(b"BZh"):
        return _Unpacked(window, bz2.BZ2Decompressor)
    if magic.startswith(b"\xfd7zXZ\x00"):
        return _Unpacked(window, lambda: lzma.LZMADecompressor(memlimit=MAX_DECODER_BYTES))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return _unzstd(window)
    return window


class _Unpacked:
    """A decompressor of the standard library's shape over a source, stream after stream."""

    def __init__(self, source: ByteSource, factory: Callable[[], Any]) -> None:
        self._source = source
        self._factory = factory
        self._decoder = factory()
        self._ahead = b""  # read, and not given to the decoder yet

    def read(self, count: int, /) -> bytes:
        while not self._decoder.eof or self._next_stream():
            if not self._ahead and self._decoder.needs_input:
                self._ahead = self._source.read(1 << 16)
                if not self._ahead:
                    raise EOFError("the compressed data ends in the middle")
            plain: bytes = self._decoder.decompress(self._ahead, count)
            self._ahead = b""
            if plain:
                return plain
        return b""

    def _next_stream(self) -> bool:
        rest: bytes = self._decoder.unused_data
        while not rest.strip(b"\0"):
            rest = self._source.read(1 << 16)
            if not rest:
                return False
        self._ahead = rest.lstrip(b"\0")
        self._decoder = self._factory()
        return True


class _Zstd:
    """A zstd source whose errors are those of any other damaged file."""

    def __init__(self, source: ByteSource, error: type[Exception]) -> None:
        self._source = source
        self._error = error

    def read(self, count: int, /) -> bytes:
        try:
            return self._source.read(count)
        except self._error as error:
            raise OSError(str(error)) from None


def _unzstd(window: Window) -> ByteSource:
    """Return a reader of zstd, which came into the standard library late; before that a package has
    it."""
    with contextlib.suppress(ImportError):
        zstd = importlib.import_module("compression.zstd")
        return _Zstd(_Unpacked(window, zstd.ZstdDecompressor), zstd.ZstdError)
    with contextlib.suppress(ImportError):
        zstd = importlib.import_module("zstandard")
        decoder = zstd.ZstdDecompressor(max_window_size=MAX_DECODER_BYTES)
        return _Zstd(decoder.stream_reader(window, read_across_frames=True), zstd.ZstdError)
    raise HostCannot(
        "the image is compressed with zstd, which this Python cannot unpack",
        hint="pip install zstandard, or save the image again with gzip",
    )
