"""Limits on processes, open files and CPU."""

from __future__ import annotations

import time

import pytest

from conformance.conftest import MakeBox
from conformance.inside import python
from conformance.waiting import eventually, result_of
from paddock import CommandExitException, Sandbox, SandboxError

BOMB = (
    "import os, time\n"
    "print('lit', flush=True)\n"
    "while True:\n"
    "    try: os.fork()\n"
    "    except OSError: time.sleep(0.01)\n"
)
# Opens as many as it can and tells how many that were.
OPEN = (
    "import os\n"
    "count = 0\n"
    "try:\n"
    "    while True:\n"
    "        os.open('/dev/null', os.O_RDONLY); count += 1\n"
    "except OSError as error:\n"
    "    print(count, error.strerror)\n"
)
SPIN = "import time\nend = time.time() + 30\nwhile time.time() < end: pass"


def test_fork_bomb_is_held_at_its_limit_and_named(make_box: MakeBox) -> None:
    box = make_box(limits={"pids": 40})
    handle = box.commands.run(["python3", "-c", BOMB], background=True)
    eventually(lambda: box.metrics().pids >= 35)
    for _ in range(5):
        assert box.metrics().pids <= 41
        time.sleep(0.05)
    handle.kill()
    with pytest.raises(CommandExitException) as caught:
        result_of(handle.wait)
    assert "pids" in caught.value.result.limits_hit
    eventually(lambda: box.metrics().pids < 5)
    assert box.commands.run("echo usable").stdout == "usable\n"


def test_fork_bomb_leaves_another_sandbox_responsive(make_box: MakeBox) -> None:
    bombed, other = make_box(limits={"pids": 64}), make_box(limits={"pids": 64})
    handle = bombed.commands.run(["python3", "-c", BOMB], background=True)
    eventually(lambda: "lit" in handle.stdout)
    for number in range(10):
        assert other.commands.run(f"echo {number} | cat").stdout == f"{number}\n"
    bombed.kill()
    assert bombed.get_info().state == "ended"


def test_fork_bomb_of_a_shell_ends_with_its_timeout(make_box: MakeBox) -> None:
    box = make_box(limits={"pids": 40})
    with pytest.raises(CommandExitException) as caught:
        result_of(lambda: box.commands.run("b() { b | b & b; }; b", timeout=1.5), 40)
    assert caught.value.killed_by in ("pids", "timeout")
    eventually(lambda: _is_usable(box), timeout_s=20)


def test_call_in_a_full_sandbox_is_an_error_and_does_not_hang(make_box: MakeBox) -> None:
    box = make_box(limits={"pids": 16})
    handle = box.commands.run(["python3", "-c", BOMB], background=True)
    eventually(lambda: box.metrics().pids >= 15)
    with pytest.raises(SandboxError):
        for _ in range(20):
            result_of(lambda: box.commands.run("true | true"))
    handle.kill()
    eventually(lambda: _is_usable(box), timeout_s=20)


def test_threads_count_as_processes(make_box: MakeBox) -> None:
    box = make_box(limits={"pids": 30})
    program = (
        "import threading, time\n"
        "count = 0\n"
        "try:\n"
        "    for _ in range(200):\n"
        "        threading.Thread(target=time.sleep, args=(5,), daemon=True).start(); count += 1\n"
        "except RuntimeError: pass\n"
        "print(count)\n"
    )
    assert int(python(box, program)) <= 30


def _is_usable(box: Sandbox) -> bool:
    try:
        return box.commands.run("echo usable | cat").stdout == "usable\n"
    except Exception:
        return False


def test_open_files_are_limited(make_box: MakeBox) -> None:
    box = make_box(limits={"files": 64})
    count, why = python(box, OPEN).split(" ", 1)
    assert 55 <= int(count) <= 64
    assert why == "Too many open files\n"
    assert python(box, "print('usable')") == "usable\n"


def test_open_files_limit_cannot_be_raised_inside(make_box: MakeBox) -> None:
    box = make_box(limits={"files": 64})
    program = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))"
    with pytest.raises(CommandExitException, match=r"ValueError|PermissionError"):
        python(box, program)


def test_more_commands_than_files_allow_are_an_error_that_passes(make_box: MakeBox) -> None:
    box = make_box(limits={"files": 64, "pids": 200})
    handles = []
    with pytest.raises(SandboxError, match="Too many open files"):
        for _ in range(100):
            handles.append(box.commands.run(["sleep", "60"], background=True))
    assert len(handles) >= 10
    for handle in handles:
        handle.kill()
    eventually(lambda: _is_usable(box))
    assert python(box, OPEN).startswith("6")


def test_two_spinners_on_one_cpu_use_about_one(make_box: MakeBox) -> None:
    box = make_box(limits={"cpu": 1})
    for _ in range(2):
        box.commands.run(["python3", "-c", SPIN], background=True)
    time.sleep(0.3)
    began, before = time.monotonic(), box.metrics().cpu_used_s
    time.sleep(2)
    used = (box.metrics().cpu_used_s - before) / (time.monotonic() - began)
    assert used < 1.35
    assert used > 0  # a busy machine may leave little to them


def test_spinner_leaves_its_own_sandbox_and_others_responsive(make_box: MakeBox) -> None:
    busy, other = make_box(limits={"cpu": 1}), make_box(limits={"cpu": 1})
    for _ in range(4):
        busy.commands.run(["python3", "-c", SPIN], background=True)
    for box in (other, busy):
        for number in range(5):
            assert box.commands.run(["echo", str(number)]).stdout == f"{number}\n"
