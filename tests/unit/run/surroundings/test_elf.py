"""The reader of ELF heads: real programs, and files that only begin like one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.run.surroundings.elf import Elf, read_elf

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


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
