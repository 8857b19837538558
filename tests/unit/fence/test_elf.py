"""The reader of ELF heads: real programs, and files that only begin like one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.fence.elf import Elf, read_elf

REAL = Path(os.path.realpath("/usr/bin/env"))


def test_program_of_the_system_names_its_loader_and_its_libraries() -> None:
    elf = read_elf(str(REAL))
    assert elf is not None
    assert os.path.exists(elf.interpreter)
    assert any(name.startswith("libc.so") for name in elf.needed)


def test_extension_module_of_python_is_read() -> None:
    import _ctypes

    elf = read_elf(_ctypes.__file__)
    assert elf is not None and elf.needed and not elf.interpreter


def test_file_that_is_no_program_is_none(tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("text", b"#!/bin/sh\n"), ("cut", b"\x7fELF")):
        (tmp_path / name).write_bytes(content)
        assert read_elf(str(tmp_path / name)) is None
    os.mkfifo(tmp_path / "pipe")
    assert read_elf(str(tmp_path / "pipe")) is None
    assert read_elf(str(tmp_path)) is None
    assert read_elf(str(tmp_path / "missing")) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.integers(4, 4095), st.integers(0, 255), max_size=40))
def test_broken_head_never_raises(tmp_path: Path, changed: dict[int, int]) -> None:
    head = bytearray(REAL.read_bytes()[:8192])
    for at, value in changed.items():
        head[at] = value
    (tmp_path / "broken").write_bytes(head)
    found = read_elf(str(tmp_path / "broken"))
    assert found is None or isinstance(found, Elf)


@pytest.mark.skipif(sys.byteorder != "little", reason="the bytes are those of a small machine")
def test_huge_sizes_in_a_head_are_not_believed(tmp_path: Path) -> None:
    head = bytearray(REAL.read_bytes()[:64])
    head[54:58] = b"\xff\xff\xff\xff"
    (tmp_path / "huge").write_bytes(head)
    assert read_elf(str(tmp_path / "huge")) is None


def test_only_the_loader_is_taken_for_one() -> None:
    program = read_elf(str(REAL))
    assert program is not None and not program.is_loader and program.is_native
    loader = read_elf(program.interpreter)
    assert loader is not None and loader.is_loader
    import _ctypes

    library = read_elf(_ctypes.__file__)
    assert library is not None and not library.is_loader


def test_program_of_another_machine_is_not_native(tmp_path: Path) -> None:
    head = bytearray(REAL.read_bytes()[:8192])
    head[18:20] = b"\x08\x00"  # e_machine: MIPS
    (tmp_path / "foreign").write_bytes(head)
    found = read_elf(str(tmp_path / "foreign"))
    assert found is not None and not found.is_native


def test_loader_without_a_name_of_its_own_is_one(tmp_path: Path) -> None:
    """As musl's is."""
    program = read_elf(str(REAL))
    assert program is not None
    data = Path(program.interpreter).read_bytes()
    soname, hashes = (14).to_bytes(8, "little"), (4, 0x6FFFFEF5)
    at = next(
        at
        for at in range(0, len(data) - 24, 8)
        if data[at : at + 8] == soname
        and int.from_bytes(data[at + 16 : at + 24], "little") in hashes
    )
    (tmp_path / "ld").write_bytes(data[:at] + (21).to_bytes(8, "little") + data[at + 8 :])
    loader = read_elf(str(tmp_path / "ld"))
    assert loader is not None and loader.is_loader


def test_program_that_lies_about_its_shape_is_not_native(tmp_path: Path) -> None:
    """The kernel would read it as its machine says, and find another loader than was seen."""
    for place, value in ((4, 1), (5, 2)):  # 32 bits; the other byte order
        head = bytearray(REAL.read_bytes()[:8192])
        head[place] = value
        (tmp_path / "lie").write_bytes(head)
        found = read_elf(str(tmp_path / "lie"))
        assert found is None or not found.is_native
