"""Large files through the API: memory of this process stays flat."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.host import peak_memory

GIB = 1 << 30
MIB = 1 << 20


def _checksum(chunks: Iterable[bytes]) -> tuple[int, int]:
    size, crc = 0, 0
    for chunk in chunks:
        size += len(chunk)
        crc = zlib.crc32(chunk, crc)
    return size, crc


def _large_file(path: Path) -> Path:
    """One GiB with something different in every 16 MiB; the rest is holes, to spare the disk."""
    with open(path, "wb") as file:
        for number in range(64):
            file.seek(number * 16 * MIB + random.randrange(15 * MIB))
            file.write(os.urandom(64 << 10))
        file.truncate(GIB)
    return path


@pytest.mark.thorough
def test_one_gib_goes_in_and_out_without_growing_memory(make_box: MakeBox, tmp_path: Path) -> None:
    box = make_box(limits={"disk": "3GiB"})
    source = _large_file(tmp_path / "large")
    with open(source, "rb") as file, peak_memory() as peak:
        assert box.files.write("large", file).size == GIB
    assert peak.grown_bytes < 32 * MIB
    with peak_memory() as peak:
        came_out = _checksum(box.files.read("large", "stream"))
    assert peak.grown_bytes < 32 * MIB
    with open(source, "rb") as file:
        assert came_out == _checksum(iter(lambda: file.read(MIB), b""))


def test_reader_that_stops_reading_does_not_grow_memory(make_box: MakeBox) -> None:
    box = make_box()
    box.commands.run("truncate -s 500M holes")
    with peak_memory() as peak:
        stream = box.files.read("holes", "stream")
        next(stream)
        for number in range(50):  # others go on meanwhile
            assert box.commands.run(["echo", str(number)]).stdout == f"{number}\n"
    assert peak.grown_bytes < 16 * MIB
    stream.close()


def test_files_of_64_mib_at_once_from_threads(make_box: MakeBox) -> None:
    from conformance.waiting import Calls

    box = make_box()
    data = [os.urandom(16 * MIB) for _ in range(4)]

    def round_trip(number: int) -> bool:
        box.files.write(f"part-{number}", data[number])
        return bool(box.files.read(f"part-{number}", "bytes") == data[number])

    assert Calls([lambda n=n: round_trip(n) for n in range(4)]).results(60) == [True] * 4
