"""Files of lines that anybody may have written, read in bounded batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from paddock.model.errors import IntegrityError
from paddock.objects.file_bytes import open_to_read

# A line is bounded before it is parsed. Large values lie elsewhere, so honest lines are shorter.
MAX_LINE_BYTES = 2 << 20
_READ_BYTES = 1 << 20


class LineBatch(msgspec.Struct, frozen=True):
    """Some whole lines, without their ends, from `offset` on; `torn` follows the last of them."""

    offset: int
    lines: list[bytes]
    torn: bytes = b""


def batches(path: Path, start: int = 0) -> Iterator[LineBatch]:
    """Yield the lines of a file from the byte `start` on. Only the last batch can have a torn rest:
    part of a line without its end."""
    with open(path, "rb", buffering=0, opener=open_to_read) as file:
        file.seek(start)
        offset, rest = start, b""
        while piece := file.read(_READ_BYTES):
            lines = (rest + piece).split(b"\n") if rest else piece.split(b"\n")
            rest = lines.pop()
            if len(rest) > MAX_LINE_BYTES:
                raise IntegrityError(f"{path.name}: a line has more than {MAX_LINE_BYTES} bytes")
            if lines:
                yield LineBatch(offset, lines)
                offset += sum(map(len, lines)) + len(lines)
        if rest:
            yield LineBatch(offset, [], rest)
