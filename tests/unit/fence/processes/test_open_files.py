"""What processes hold is read from the kernel, under the names that the files have now."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.fence.processes.open_files import held_files, shared_maps
from paddock.model.errors import HostCannot

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
maps = []
names = ["mapped and gone", "mapped and linked", "mapped (deleted)", "new\\nline", r"back\\012"]
for name in names:
    with open(name, "w+b") as file:
        file.truncate(4096)
        maps.append(mmap.mmap(file.fileno(), 4096))
os.link("mapped and linked", "other link")
os.unlink("mapped and linked")
os.unlink("mapped and gone")
memory = mmap.mmap(-1, 4096)
with open("mapped only for this process", "w+b") as file:
    file.truncate(4096)
    private = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE)
closed = open("closed", "w").close()
os.mkdir("place")
child = "import os; os.chdir('place'); f = open('../of child', 'w'); print('up'); input()"
subprocess.run([sys.executable, "-u", "-c", child])
"""

LEADERLESS = """
import ctypes, mmap, threading
log = open("log", "w")
with open("mapped", "w+b") as file:
    file.truncate(4096)
    map = mmap.mmap(file.fileno(), 4096)
def go_on():
    while "Z" not in open(f"/proc/self/task/{os.getpid()}/stat").read():
        pass
    print("up", flush=True)
    os.read(0, 1)
    os._exit(0)
import os
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit of a thread
"""
PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-u", "-c", {child!r}])
"""
IN_FLIGHT = """
import os, socket
sent = open("sent", "w")
pairs = [socket.socketpair() for _ in range({depth})]
for here, there in pairs:
    socket.send_fds(here, [b"x"], [sent.fileno()])
    sent.close()
    sent = there  # which is sent through the next one
print("up")
input()
"""


@contextmanager
def holding(place: Path, program: str = HOLDS) -> Iterator[int]:
    words = [sys.executable, "-c", program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=place, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == b"up\n"
        yield process.pid
        process.stdin.close()


def test_open_files_maps_and_directories_are_found(tmp_path: Path) -> None:
    with holding(tmp_path) as pid:
        held = held_files(pid)
    here = {path.removeprefix(f"{tmp_path}/") for path in held.files if str(tmp_path) in path}
    assert here >= {"renamed", "mapped", "mapped only for this process", "of child"}
    assert here >= {"mapped (deleted)", "new\nline", r"back\012"}
    assert not here & {"log", "gone", "first", "closed"}
    assert {str(tmp_path), str(tmp_path / "place")} <= held.directories
    # Whose name is gone is known by its inode.
    inodes = {inode for path, inode in held.nameless if str(tmp_path) in path}
    names = ("second", "other link", "mapped (deleted)")
    assert inodes >= {os.stat(tmp_path / name).st_ino for name in names}
    assert not any(path == "gone (deleted)" for path, _ in held.nameless)


def test_shared_maps_are_found_under_every_name(tmp_path: Path) -> None:
    with holding(tmp_path) as pid:
        mapped = shared_maps(pid)
    for name in ("mapped", "mapped (deleted)", "new\nline", r"back\012"):
        assert mapped.inodes[str(tmp_path / name)] == os.stat(tmp_path / name).st_ino
    assert str(tmp_path / "mapped only for this process") not in mapped.inodes
    nameless = {"mapped and linked (deleted)", "mapped (deleted)"}
    if os.geteuid() != 0:
        nameless.add("mapped and gone (deleted)")  # only root is told that it has no link
    assert mapped.nameless == {str(tmp_path / name) for name in nameless}
    assert mapped.is_complete


def test_maps_are_found_after_the_first_thread_has_ended(tmp_path: Path) -> None:
    with holding(tmp_path, LEADERLESS) as pid:
        assert str(tmp_path / "mapped") in shared_maps(pid).inodes
        if os.geteuid() == 0:  # an ordinary user cannot look at such a process
            assert {str(tmp_path / "mapped"), str(tmp_path / "log")} <= held_files(pid).files


@pytest.mark.parametrize("depth", [1, 2], ids=["in a socket", "in a socket in a socket"])
def test_descriptors_in_flight_are_noticed(tmp_path: Path, depth: int) -> None:
    """Of a process below the first: that one is the guest, which is sent some by the host."""
    with (
        holding(tmp_path, PARENT.format(child=IN_FLIGHT.format(depth=depth))) as pid,
        pytest.raises(HostCannot, match="on their way through a socket"),
    ):
        held_files(pid)


def test_descriptors_that_have_arrived_are_files_as_any_other(tmp_path: Path) -> None:
    with holding(tmp_path, PARENT.format(child=IN_FLIGHT.format(depth=0))) as pid:
        assert str(tmp_path / "sent") in held_files(pid).files
