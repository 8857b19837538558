"""Pausing: nothing inside runs, calls are refused, and everything goes on afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.waiting import eventually, result_of
from paddock import Conflict, Sandbox, SandboxDied

# Two kinds of programs: a shell that starts others all the time, and one that never leaves the CPU.
COUNT = "while :; do echo x >> /shared/count; sleep 0.01; done"
SPIN = "import os\nwhile True:\n    with open('/shared/spun', 'a') as file: file.write('x')\n"


def _sizes(directory: Path) -> list[int]:
    return [(directory / name).stat().st_size for name in ("count", "spun")]


def test_nothing_runs_while_paused_and_all_goes_on_after(
    make_box: MakeBox, shared_directory: Path
) -> None:
    box = make_box(mounts=[{"source": str(shared_directory), "target": "/shared", "mode": "write"}])
    handle = box.commands.run(COUNT, background=True)
    box.commands.run(["python3", "-c", SPIN], background=True)
    eventually(lambda: (shared_directory / "spun").exists() and all(_sizes(shared_directory)))
    box.pause()
    before = _sizes(shared_directory)
    time.sleep(0.5)
    assert _sizes(shared_directory) == before
    box.resume()
    eventually(lambda: all(a > b for a, b in zip(_sizes(shared_directory), before, strict=True)))
    assert handle.pid in {p.pid for p in box.commands.list()}


def test_calls_on_a_paused_sandbox_raise_at_once(box: Sandbox) -> None:
    box.pause()
    for call in (
        lambda: box.commands.run("true"),
        lambda: box.files.read("x"),
        lambda: box.files.write("x", "y"),
        lambda: box.run_code("1"),
        lambda: box.pty.create(),
        lambda: box.commands.list(),
        lambda: box.pause(),
    ):
        with pytest.raises(Conflict, match="paused"):
            result_of(call)
    box.resume()
    assert box.commands.run("echo on").stdout == "on\n"


def test_state_says_paused(box: Sandbox) -> None:
    box.pause()
    assert box.get_info().state == "paused"
    assert not box.is_running()
    box.resume()
    assert box.get_info().state == "running"
    assert box.is_running()


def test_resume_of_what_runs_changes_nothing(box: Sandbox) -> None:
    box.resume()
    assert box.commands.run("echo on").stdout == "on\n"


def test_command_that_was_waiting_ends_after_the_pause(box: Sandbox) -> None:
    handle = box.commands.run("sleep 0.3; echo done", background=True)
    box.pause()
    time.sleep(0.5)
    box.resume()
    assert result_of(handle.wait).stdout == "done\n"


def test_interpreter_keeps_its_state_over_a_pause(box: Sandbox) -> None:
    box.run_code("x = 1")
    box.pause()
    box.resume()
    assert box.run_code("x + 1").text == "2"


def test_time_out_stands_still_while_paused(make_box: MakeBox) -> None:
    box = make_box(timeout=1.5)
    box.pause()
    time.sleep(2)
    assert box.get_info().state == "paused"
    box.resume()
    assert box.commands.run("echo alive").stdout == "alive\n"
    eventually(lambda: box.get_info().state == "ended")


def test_paused_sandbox_can_be_killed(box: Sandbox) -> None:
    box.pause()
    result_of(box.kill)
    with pytest.raises(SandboxDied, match="killed by its owner"):
        box.commands.run("true")
    with pytest.raises(SandboxDied):
        box.resume()


def test_metrics_of_a_paused_sandbox_can_be_read(box: Sandbox) -> None:
    box.pause()
    assert result_of(box.metrics).pids >= 1


def test_programs_stopped_by_the_agent_itself_stay_stopped(box: Sandbox) -> None:
    handle = box.commands.run(["bash", "-c", "kill -STOP $$; echo went on"], background=True)
    state = f"cut -d' ' -f3 /proc/{handle.pid}/stat"
    eventually(lambda: box.commands.run(state).stdout == "T\n")
    box.pause()
    box.resume()
    assert box.commands.run(state).stdout == "T\n"
    handle.kill()
