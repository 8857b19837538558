"""Processes outside the sandbox, and what pausing, ending and time-outs hold against."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import Sandbox
from security.attack import background, eventually, init_pid, layer_of, probe, run, shell
from security.differences import KERNEL_FREEZER


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the host under the same user."""
    process = subprocess.Popen(["sleep", "120"])
    yield process
    process.kill()
    process.wait()


def test_process_of_the_host_is_not_seen_signalled_or_traced(
    shared_box: Sandbox, victim: subprocess.Popen[bytes]
) -> None:
    program = """
    pid = int(sys.argv[1])
    found["stat"] = attempt(os.stat, "/proc/%d" % pid)
    found["kill"] = attempt(os.kill, pid, 9)
    found["tgkill"] = call(234, pid, pid, 9)
    found["pidfd"] = attempt(os.pidfd_open, pid)
    found["priority"] = attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)
    found["affinity"] = attempt(os.sched_getaffinity, pid)
    found["limits"] = call(302, pid, 7, 0, 0)
    found["session"] = attempt(os.getsid, pid)
    """
    pid = victim.pid
    if pid < 200:
        pytest.skip("the victim's number could be one of the sandbox's own processes")
    assert set(probe(shared_box, program, str(pid)).values()) <= {"ESRCH", "ENOENT", "EPERM"}
    assert victim.poll() is None


def test_only_the_own_processes_are_listed(shared_box: Sandbox) -> None:
    program = """
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    found["names"] = [open(f"/proc/{pid}/comm").read().strip() for pid in pids]
    """
    names = probe(shared_box, program)["names"]
    assert "bwrap" not in names
    assert "pytest" not in names
    assert len(names) <= 3


def test_processes_inside_have_the_sandboxs_uid_on_the_host(box: Sandbox) -> None:
    shell(box, "sleep 30 & sleep 30 &")
    uid = str(box.get_info().uid)
    children = Path(f"/proc/{init_pid(box)}/task/{init_pid(box)}/children")
    pids = [init_pid(box), *map(int, children.read_text().split())]
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            fields = next(line for line in lines if line.startswith("Uid:")).split()[1:]
            assert fields == [uid] * 4
    assert uid != "0"


def test_program_that_ignores_every_signal_ends_at_its_time_out(box: Sandbox) -> None:
    program = """
    import signal
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        time.sleep(1)
    """
    result = run(box, program, timeout=1)
    assert result.killed_by == "timeout"


def test_tree_that_keeps_forking_ends_with_its_command(box: Sandbox) -> None:
    """Each process is replaced before it can be hit; the sandbox stays usable and can be ended."""
    program = """
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
    """
    words = ["python3", "-c", f"import os\n{program.replace(chr(10) + '    ', chr(10))}"]
    box.commands.run(words, background=True)
    time.sleep(0.5)
    assert box.commands.run("echo fine", timeout=20).stdout == "fine\n"
    pid = init_pid(box)
    box.kill()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


KEEPS_WAKING_ITSELF = """
import signal
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int),
                ("rest", ctypes.c_int * 12)]
event = Event(signo=signal.SIGCONT, notify=0)
for number in range(500):  # one timer for each moment: a pending signal is thrown away by a stop
    timer = ctypes.c_void_p()
    libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer))
    spec = (ctypes.c_long * 4)(0, 0, number // 100, 1 + number % 100 * 10_000_000)
    libc.timer_settime(timer, 0, spec, None)
signal.signal(signal.SIGCONT, lambda *_: None)
print("armed", flush=True)
with open("/home/user/count", "w") as file:
    number, end = 0, time.time() + 8
    while time.time() < end:
        number += 1
        file.seek(0)
        file.write(str(number))
        file.flush()
        time.sleep(0.001)
"""


def test_program_cannot_wake_itself_while_the_sandbox_is_paused(box: Sandbox) -> None:
    """Without a freezer a pause is SIGSTOP, which a timer of the program's own can undo."""
    KERNEL_FREEZER.require(box)
    background(box, KEEPS_WAKING_ITSELF)
    count = layer_of(box) / "home" / "count"
    eventually(lambda: count.exists() and count.read_text())
    box.pause()
    before = int(count.read_text())
    time.sleep(1.5)
    after = int(count.read_text())
    box.resume()
    # A watcher that stops it again and again is enough; running on is not.
    assert after - before < 50, f"{after - before} steps while paused"


def test_paused_sandbox_cannot_be_resumed_from_inside(box: Sandbox) -> None:
    program = """
    import signal
    if os.fork() == 0:
        while True:
            os.kill(-1, signal.SIGCONT)
    print("up", flush=True)
    with open("/home/user/count", "w") as file:
        number = 0
        while True:
            number += 1
            file.seek(0)
            file.write(str(number))
            file.flush()
            time.sleep(0.001)
    """
    background(box, program)
    count = layer_of(box) / "home" / "count"
    eventually(lambda: count.exists() and count.read_text())
    box.pause()
    before = count.read_text()
    time.sleep(0.7)
    assert count.read_text() == before
    box.resume()
    eventually(lambda: count.read_text() != before)


def test_everything_is_gone_when_the_sandbox_ends(box: Sandbox) -> None:
    shell(
        box,
        "setsid nohup sleep 987 >/dev/null 2>&1 & (setsid setsid sleep 987 &) ; trap '' TERM; true",
    )
    pid = init_pid(box)
    inside = Path(f"/proc/{pid}/ns/pid").stat().st_ino if os.geteuid() == 0 else None
    box.kill()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    for name in os.listdir("/proc"):
        if name.isdigit() and inside is not None:
            with contextlib.suppress(OSError):
                assert Path(f"/proc/{name}/ns/pid").stat().st_ino != inside
