"""The objects of an agent's repository, taken out of it as bytes that git can index.

A loose object is `type size NUL content`, compressed. What its file is called does not matter: git
names it by its content. All loose objects are written into one new pack; what is not an object is
left out, and missed later if a commit needs it. Packs are given on as they are.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from paddock.model.errors import InvalidInput
from paddock.state.files.descent import CHANGED_UNDERNEATH, Descent, open_file
from paddock.state.files.tree_walk import listing, status
from paddock.state.tool_config import GIT

# An agent chooses how large its objects are when they are unpacked.
MAX_OBJECT_BYTES = 512 << 20
MAX_TOTAL_BYTES = 2 << 30
_CHUNK = 1 << 20
_MAX_HEADER = 64
_HEADER = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,12})\0")
_TYPES = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
_DIRECTORY = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.pack")


class _NoObject(Exception):
    """A file that is not what its place says."""


def open_packs(layer: Path) -> Iterator[IO[bytes]]:
    """Yield the packs of the layer, each open while it is needed."""
    with Descent(layer, lift=True) as descent:
        for name in _entered(descent, [GIT, "objects", "pack"]):
            if _PACK.fullmatch(name):
                fd = open_file(name, descent.fd, lift=True)
                if fd is not None:
                    with os.fdopen(fd, "rb") as file:
                        yield file


def write_loose_pack(layer: Path, file: IO[bytes], algorithm: str) -> int:
    """Write the loose objects of the layer as one pack; return how many they are. `algorithm` is
    the one by which the repository names objects, and with which a pack ends."""
    file.write(b"PACK" + (2).to_bytes(4, "big") + (0).to_bytes(4, "big"))
    count = total = 0
    for fd in _loose(layer):
        with os.fdopen(fd, "rb") as loose:
            start = file.tell()
            try:
                total += _copy(loose, file)
                count += 1
            except (_NoObject, zlib.error):
                file.seek(start)
                file.truncate()
        if total > MAX_TOTAL_BYTES:
            raise InvalidInput(f"the agent's objects have more than {MAX_TOTAL_BYTES >> 30} GiB")
    file.seek(8)
    file.write(count.to_bytes(4, "big"))
    file.seek(0)
    hashed = hashlib.new(algorithm, usedforsecurity=False)
    while chunk := file.read(_CHUNK):
        hashed.update(chunk)
    file.write(hashed.digest())
    file.seek(0)
    return count


def _loose(layer: Path) -> Iterator[int]:
    with Descent(layer, lift=True) as descent:
        for directory in _entered(descent, [GIT, "objects"]):
            st = status(directory, descent.fd)
            if not _DIRECTORY.fullmatch(directory) or st is None or not stat.S_ISDIR(st.st_mode):
                continue
            descent.enter(directory)
            for name in listing(descent.fd):
                if _LOOSE.fullmatch(name):
                    fd = open_file(name, descent.fd, lift=True)
                    if fd is not None:
                        yield fd
            descent.leave()


def _entered(descent: Descent, parts: list[str]) -> list[str]:
    """Go to a directory and list it; nothing if it is none."""
    try:
        descent.go_to(parts)
    except OSError as error:
        if error.errno in CHANGED_UNDERNEATH:
            return []
        raise
    return listing(descent.fd)


def _copy(loose: IO[bytes], pack: IO[bytes]) -> int:
    """Write one object into a pack, never more of it in memory than a chunk; return its size."""
    inflater = zlib.decompressobj()
    begin = _inflated(inflater, loose)
    match = _HEADER.match(begin[:_MAX_HEADER])
    if match is None:
        raise _NoObject
    size = int(match[2])
    if size > MAX_OBJECT_BYTES:
        raise InvalidInput(f"an object of the agent has more than {MAX_OBJECT_BYTES >> 20} MiB")
    pack.write(_entry_header(_TYPES[match[1]], size))
    deflater = zlib.compressobj()
    piece, written = begin[match.end() :], 0
    while True:
        written += len(piece)
        if written > size:
            raise _NoObject
        pack.write(deflater.compress(piece))
        if inflater.eof:
            break
        piece = _inflated(inflater, loose)
        if not piece and not inflater.eof:
            raise _NoObject  # it ends in the middle
    if written != size:
        raise _NoObject
    pack.write(deflater.flush())
    return size


def _inflated(inflater: zlib._Decompress, loose: IO[bytes]) -> bytes:
    """Return the next bytes, at most a chunk; nothing at the end."""
    while not inflater.eof:
        data = inflater.unconsumed_tail or loose.read(_CHUNK)
        piece = inflater.decompress(data, _CHUNK)
        if piece:
            return piece
        if not data:
            break
    return b""


def _entry_header(kind: int, size: int) -> bytes:
    """Return type and size as a pack has them: four bits of the size, then seven in each byte."""
    bytes_ = [(kind << 4) | (size & 0x0F)]
    size >>= 4
    while size:
        bytes_[-1] |= 0x80
        bytes_.append(size & 0x7F)
        size >>= 7
    return bytes(bytes_)
