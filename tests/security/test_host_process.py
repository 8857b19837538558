"""Harming the host process itself by what it parses, lists, keeps and waits for."""

from __future__ import annotations

import threading
import time

import pytest

from paddock import Sandbox
from paddock.model.errors import PaddockError
from security.attack import memory_bytes, run, shell
from security.conftest import MakeBox

NAMES = ["a\nb", "a\tb\x1b[31m", "-rf *", "$(reboot)", "é" * 127, "x" * 255, " ", "\\", "\x7f\x01",
         "\udcff\udcfe", "\udced\udca0\udc80", "...", "\u202egnp.exe"]  # fmt: skip
DEEP = (
    "import os\nos.chdir('/home/user')\nfor _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\n"
)


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_survive_the_trip(shared_box: Sandbox, name: str) -> None:
    shared_box.files.write(f"odd/{name}", "x")
    assert name in [entry.name for entry in shared_box.files.list("odd")]
    assert shared_box.files.read(f"odd/{name}") == "x"
    shared_box.files.remove(f"odd/{name}")


def test_names_made_inside_are_listed_as_they_are(box: Sandbox) -> None:
    program = """
    os.mkdir("/home/user/raw")
    for number in range(1, 256):
        if number != 47:
            os.close(os.open(b"/home/user/raw/" + bytes([number]) * 200, os.O_CREAT))
    os.symlink(b"\\xff" * 4000, "/home/user/raw/link")
    """
    run(box, program)
    entries = box.files.list("raw")
    assert len(entries) == 255
    names = {entry.name.encode("utf-8", "surrogateescape") for entry in entries}
    assert b"\xff" * 200 in names


def still_alive(box: Sandbox) -> bool:
    return box.is_running() and box.commands.run("echo fine").stdout == "fine\n"


def refusal(action: object) -> str:
    """What a call came to: nothing, or a clear refusal. Anything else is the test's failure."""
    try:
        action()  # type: ignore[operator]
    except PaddockError as error:
        return str(error)
    return ""


def test_deep_tree_can_be_listed_and_removed(box: Sandbox) -> None:
    run(box, DEEP)
    refusal(lambda: box.files.list(".", depth=64))
    assert still_alive(box)
    refusal(lambda: box.files.remove("d"))
    assert still_alive(box)


def test_deep_tree_does_not_end_the_sandbox_when_it_is_watched(box: Sandbox) -> None:
    run(box, DEEP)
    refusal(lambda: box.files.watch_dir(".", recursive=True).stop())
    assert still_alive(box)


def test_deep_tree_moved_into_a_watched_directory_does_not_end_the_sandbox(box: Sandbox) -> None:
    box.files.make_dir("watched")
    watch = box.files.watch_dir("watched", recursive=True)
    run(box, DEEP)
    shell(box, "mv d watched/")
    time.sleep(0.5)
    assert still_alive(box)
    watch.stop()


@pytest.mark.parametrize("op", ["write", "make_dir", "rename", "read", "lock"])
def test_path_of_many_parts_does_not_end_the_sandbox(box: Sandbox, op: str) -> None:
    """Agents choose names that their callers pass on."""
    path = "a/" * 1900 + "x"
    calls = {
        "write": lambda: box.files.write(path, "x"),
        "make_dir": lambda: box.files.make_dir(path),
        "rename": lambda: box.files.rename("/etc/hosts", path),
        "read": lambda: box.files.read(path),
        "lock": lambda: box.files.lock(path).__enter__(),
    }
    refusal(calls[op])
    assert still_alive(box)


def test_deep_tree_can_be_forked_saved_compared_and_swept(box: Sandbox) -> None:
    run(box, DEEP)
    for action in (lambda: box.fork().kill(), box.snapshot, box.changes):
        refusal(action)
    assert still_alive(box)
    box.kill()
    with Sandbox.create() as other:  # what is left of the deep one stands in nobody's way
        assert still_alive(other)


def test_long_listing_does_not_end_the_sandbox(box: Sandbox) -> None:
    """Ten thousand paths of nearly four kilobytes: more than a frame, more than a queue."""
    program = """
    os.chdir("/home/user")
    for _ in range(15):
        os.mkdir("d" * 250)
        os.chdir("d" * 250)
    for number in range(9500):
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
    """
    run(box, program, timeout=60)
    before = memory_bytes()
    refusal(lambda: box.files.list("/home/user" + ("/" + "d" * 250) * 15))
    assert still_alive(box)
    assert memory_bytes() - before < 300 << 20


def test_flood_of_watch_events_does_not_end_the_sandbox(box: Sandbox) -> None:
    """Names of four kilobytes, ten thousand times, while the caller is slow to listen."""
    box.commands.run("mkdir -p w/" + "/".join(["d" * 250] * 14))
    before = memory_bytes()
    watch = box.files.watch_dir("w", lambda event: time.sleep(0.01), recursive=True)
    program = """
    os.chdir("/home/user/w/" + "/".join(["d" * 250] * 14))
    for number in range(12_000):
        os.close(os.open("x" * 200, os.O_CREAT | os.O_WRONLY))
        os.unlink("x" * 200)
    """
    run(box, program, timeout=60)
    assert still_alive(box)
    assert memory_bytes() - before < 300 << 20
    watch.stop()


GARBAGE = """
import glob, os
payload = {payload}
for process in glob.glob("/proc/[0-9]*"):
    try:
        names = os.listdir(process + "/fd")
    except OSError:
        continue
    for name in names:
        try:
            if os.readlink(f"{{process}}/fd/{{name}}").startswith("pipe:"):
                os.write(os.open(f"{{process}}/fd/{{name}}", os.O_WRONLY | os.O_NONBLOCK), payload)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "payload",
    [
        "b'\\xff' * 5000",
        "(5000).to_bytes(4, 'big') + b'[' * 5000",
        "(4).to_bytes(4, 'big') + b'null' + bytes(4)",
        "b'\\x7f' * 65536",
    ],
)
def test_garbage_from_the_code_interpreter_is_an_error_and_no_more(
    box: Sandbox, payload: str
) -> None:
    """A cell can reach the interpreter's own pipes. The next cell must have a working one."""
    outcomes: list[object] = []

    def attack() -> None:
        try:
            outcomes.append(box.run_code(GARBAGE.format(payload=payload), timeout=5))
        except PaddockError as error:
            outcomes.append(error)

    thread = threading.Thread(target=attack, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "run_code hangs"
    assert still_alive(box)
    answers = []
    for _ in range(3):  # the first may still find out that the interpreter is of no more use
        try:
            answers.append(str(box.run_code("6 * 7", timeout=8).text))
        except PaddockError as error:
            answers.append(str(error))
        if answers[-1] == "42":
            return
    pytest.fail(f"no working interpreter any more: {answers}")


def test_huge_sparse_file_is_read_as_a_stream_without_filling_memory(make_box: MakeBox) -> None:
    box = make_box(limits={"disk": "1GiB"})
    box.commands.run("truncate -s 300M sparse")
    before = memory_bytes()
    size = sum(len(chunk) for chunk in box.files.read("sparse", format="stream"))
    assert size == 300 << 20
    assert memory_bytes() - before < 64 << 20


@pytest.mark.parametrize("kind", ["fifo", "socket", "/dev/zero", "/dev/tty", "/proc/kmsg", "loop"])
def test_odd_files_do_not_hold_a_call_up(box: Sandbox, kind: str) -> None:
    shell(
        box,
        "mkfifo fifo; ln -s loop loop;"
        " python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"",
    )
    began = time.monotonic()
    assert refusal(lambda: box.files.read(kind)) or kind == "/proc/kmsg"
    assert refusal(lambda: box.files.write(kind, "x"))
    assert time.monotonic() - began < 10
