"""Ways out that Linux leaves open. Each is closed, or SECURITY.md tells people of it.

These tests make the attempt. Where it succeeds, the document must name it: a leak that is known and
unsaid is the worst kind.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import background, eventually, probe, run
from security.conftest import MakeBox

DOCUMENT = Path(__file__).parents[2] / "SECURITY.md"


def documented(words: str) -> bool:
    text = " ".join(DOCUMENT.read_text().lower().split())
    return words.lower() in text


CONNECT = """
import socket
def reach():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("/in/s")
        sock.send(b"from inside")
found["it"] = attempt(reach)
"""


@pytest.mark.parametrize("mode", ["read", "write", "overlay"])
def test_unix_socket_in_a_mounted_directory(make_box: MakeBox, source: Path, mode: str) -> None:
    """Connecting is not writing, so a read-only mount does not stop it; an overlay does, because
    its inode is not the one that was bound."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(source / "s"))
    os.chmod(source / "s", 0o777)
    server.listen()
    server.settimeout(10)
    heard: list[bytes] = []

    def serve() -> None:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with peer:
            heard.append(peer.recv(100))

    thread = threading.Thread(target=serve)
    thread.start()
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": mode}])
    answer = probe(box, CONNECT)["it"]
    if not answer.startswith("ok"):
        with socket.socket(socket.AF_UNIX) as own:  # lets the server go, and shows that it listened
            own.connect(str(source / "s"))
            own.send(b"from outside")
    thread.join()
    server.close()
    if mode == "overlay":
        assert heard == [b"from outside"]
    if heard == [b"from inside"]:
        assert documented("unix socket in a mounted directory")


def test_programs_of_the_host_seen_by_a_watch_on_usr(box: Sandbox) -> None:
    """/usr is the host's own: a watch on it tells which programs others open, and when."""
    program = """
    fd = libc.inotify_init1(0)
    wd = libc.inotify_add_watch(fd, b"/usr/bin", 0x20)
    print("watching" if wd >= 0 else "refused", flush=True)
    while wd >= 0:
        print(os.read(fd, 65536), flush=True)
    """
    handle = background(box, program)

    def is_seen() -> bool:
        subprocess.run(["/usr/bin/sum", "/dev/null"], capture_output=True, check=False)
        return "sum" in handle.stdout

    if "refused" not in handle.stdout and _within(is_seen, 3):
        assert documented("inotify")
    handle.kill()


def test_locks_on_shared_files_pass_between_sandboxes(make_box: MakeBox) -> None:
    """A lock needs no right to write: two sandboxes can signal each other, and hold up the host,
    through any file of /usr that both see."""
    first, second = make_box(), make_box()
    holder = """
    import fcntl
    fd = os.open("/usr/bin/sum", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(30)
    """
    background(first, holder)
    program = """
    import fcntl
    fd = os.open("/usr/bin/sum", os.O_RDONLY)
    found["it"] = attempt(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    """
    if probe(second, program)["it"] == "EAGAIN":
        assert documented("flock") or documented("file locks")


def test_paths_of_the_host_are_named_in_the_mount_table(make_box: MakeBox, source: Path) -> None:
    box = make_box(mounts=[{"source": str(source), "target": "/in", "mode": "read"}])
    table = run(box, "print(open('/proc/self/mountinfo').read())").stdout
    if str(source) in table or os.environ["PADDOCK_HOME"] in table:
        assert documented("mountinfo") or documented("names of mounted paths")


def test_load_and_memory_of_the_host_are_seen(box: Sandbox) -> None:
    total = run(box, "print(open('/proc/meminfo').readline())").stdout.split()[1]
    host = Path("/proc/meminfo").read_text().split()[1]
    if total == host:
        assert documented("/proc/meminfo")


def test_crashes_are_handed_to_the_hosts_core_handler() -> None:
    """Only where the host's pattern is a pipe; then its handler parses what an agent made."""
    if Path("/proc/sys/kernel/core_pattern").read_text().startswith("|"):
        assert documented("core_pattern") or documented("core handler")


def _within(condition: object, timeout_s: float) -> bool:
    try:
        eventually(condition, timeout_s)  # type: ignore[arg-type]
    except BaseException as failure:
        if type(failure).__name__ != "Failed":
            raise
        return False
    return True
