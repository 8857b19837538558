"""What processes hold is read from the kernel, under the names that the files have now."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.fence.container.open_files import held_files, shared_maps

HOLDS = """
import mmap, os, subprocess, sys
log = open("log", "a")
os.rename("log", "renamed")
gone = open("gone", "w")
os.unlink("gone")
linked = open("first", "w")
os.link("first", "second")
os.unlink("first")
with open("mapped", "w+b") as file:
    file.truncate(4096)
    map = mmap.mmap(file.fileno(), 4096)
with open("mapped only for this process", "w+b") as file:
    file.truncate(4096)
    private = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE)
closed = open("closed", "w").close()
os.mkdir("place")
child = "import os; os.chdir('place'); f = open('../of child', 'w'); print('up'); input()"
subprocess.run([sys.executable, "-u", "-c", child])
"""


@contextmanager
def holding(place: Path) -> Iterator[int]:
    words = [sys.executable, "-c", HOLDS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=place, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == b"up\n"
        yield process.pid
        process.stdin.close()


def test_open_files_maps_and_directories_are_found(tmp_path: Path) -> None:
    with holding(tmp_path) as pid:
        held = held_files(pid)
        shared = shared_maps(pid)
    here = {path.removeprefix(f"{tmp_path}/") for path in held.files if str(tmp_path) in path}
    assert here >= {"renamed", "mapped", "mapped only for this process", "of child"}
    assert not here & {"log", "gone", "first", "closed"}
    assert os.stat(tmp_path / "second").st_ino in held.linked_inodes
    assert {str(tmp_path), str(tmp_path / "place")} <= held.directories
    assert str(tmp_path / "mapped") in shared
    assert str(tmp_path / "mapped only for this process") not in shared
