"""The end of a sandbox while others wait on it: every call returns at once and knows why."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.host import init_pid, keeper_pid, processes_with, zombies
from conformance.waiting import Calls, eventually, result_of
from paddock import Sandbox, SandboxDied

SOON_S = 20.0  # less than the time that a start or a call may take


def _locked_twice(box: Sandbox) -> None:
    with box.files.lock("held"), box.files.lock("held"):
        pass


def _twenty_calls(box: Sandbox) -> Calls:
    """Twenty calls of every kind that can wait, all of them waiting."""
    handle = box.commands.run(["sleep", "1000"], background=True)
    blocked = box.commands.run(["sleep", "1000"], background=True, stdin=True)
    box.files.write("large", bytes(64 << 20))
    kinds: list[Callable[[], Any]] = [
        lambda: box.commands.run(["sleep", "1000"]),
        lambda: box.commands.run("sleep 1000", timeout=None),
        handle.wait,
        lambda: blocked.send_stdin(bytes(16 << 20)),
        lambda: box.run_code("import time; time.sleep(1000)"),
        lambda: _locked_twice(box),
        lambda: box.pty.create(cmd=["sleep", "1000"]).wait(),
        lambda: box.commands.connect(handle.pid).wait(),
        lambda: box.commands.run("echo x; sleep 1000", on_stdout=lambda _: time.sleep(0.1)),
        lambda: box.files.write("endless", _Endless()),
    ]
    calls = Calls(kinds * 2)
    eventually(lambda: len(box.commands.list()) >= 11, timeout_s=30)
    return calls


class _Endless:
    """A file without an end."""

    def read(self, size: int) -> bytes:
        time.sleep(0.02)
        return bytes(1000)


def _all_died(calls: Calls, reason: str) -> None:
    results = calls.results(SOON_S)
    assert len(results) == 20
    for result in results:
        assert isinstance(result, SandboxDied), repr(result)
        assert reason in result.reason, result


def test_kill_from_another_thread_ends_twenty_waiting_calls(box: Sandbox) -> None:
    calls = _twenty_calls(box)
    box.kill()
    _all_died(calls, "killed by its owner")
    assert box.get_info().ended_by == "killed by its owner"


def test_kill_9_of_its_first_process_ends_waiting_calls(box: Sandbox) -> None:
    calls = _twenty_calls(box)
    os.kill(init_pid(box), signal.SIGKILL)
    _all_died(calls, "")
    assert box.get_info().state == "ended"
    with pytest.raises(SandboxDied) as caught:
        box.commands.run("true")
    assert caught.value.reason == box.get_info().ended_by
    assert "guest" in caught.value.reason or "first process" in caught.value.reason


def test_sandbox_whose_first_process_was_killed_is_cleaned_up(make_box: MakeBox) -> None:
    from pathlib import Path

    box = make_box()
    directory = Path(os.environ["PADDOCK_HOME"], "sandboxes", box.sandbox_id)
    assert directory.exists()
    os.kill(init_pid(box), signal.SIGKILL)
    eventually(lambda: not directory.exists())
    box.kill()


def test_stopped_first_process_does_not_keep_kill_waiting(box: Sandbox) -> None:
    os.kill(init_pid(box), signal.SIGSTOP)
    waiting = Calls([lambda: box.commands.run("true")])
    result_of(box.kill, SOON_S)
    assert isinstance(waiting.results(SOON_S)[0], SandboxDied)


def test_kill_is_final_and_may_be_repeated(box: Sandbox) -> None:
    box.kill()
    box.kill()
    Calls([box.kill] * 5).results(SOON_S)
    assert not box.is_running()
    with pytest.raises(SandboxDied, match=box.sandbox_id):
        box.files.read("x")


def test_end_of_one_sandbox_leaves_others_alone(make_box: MakeBox) -> None:
    first, second = make_box(), make_box()
    handle = second.commands.run("read x; echo $x", background=True, stdin=True)
    os.kill(init_pid(first), signal.SIGKILL)
    eventually(lambda: first.get_info().state == "ended")
    handle.send_stdin("fine\n")
    assert handle.wait().stdout == "fine\n"


def test_context_manager_ends_the_sandbox_also_on_an_error(driver: str) -> None:
    with pytest.raises(LookupError), Sandbox.create() as box:
        box.commands.run(["sleep", "48151623"], background=True)
        raise LookupError
    assert not box.is_running()
    assert not processes_with("sleep 48151623")


def test_processes_are_gone_when_kill_returns(box: Sandbox) -> None:
    box.commands.run("for i in $(seq 20); do setsid sleep 16234248 & done")
    box.commands.run("trap '' TERM HUP INT; sleep 16234248", background=True)
    assert len(processes_with("sleep 16234248")) >= 20
    box.kill()
    assert processes_with("sleep 16234248") == []


def test_callback_that_hangs_does_not_keep_kill_waiting(box: Sandbox) -> None:
    import threading

    release, hangs = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        hangs.set()
        release.wait(30)

    calls = Calls([lambda: box.commands.run("echo x; sleep 1000", on_stdout=hang)])
    assert hangs.wait(10)
    result_of(box.kill, SOON_S)
    release.set()
    assert isinstance(calls.results(SOON_S)[0], SandboxDied)


@pytest.mark.usefixtures("private_home")
class TestKeeper:
    """The keeper is the process that owns the sandboxes of this one."""

    def test_kill_9_of_the_keeper_ends_waiting_calls_and_processes(self, make_box: MakeBox) -> None:
        box = make_box()
        calls = _twenty_calls(box)
        box.commands.run("setsid sleep 23421508 >/dev/null 2>&1 &")
        assert processes_with("sleep 23421508")
        os.kill(keeper_pid(), signal.SIGKILL)
        _all_died(calls, "")
        assert box.get_info().state == "ended"
        eventually(lambda: not processes_with("sleep 23421508"))

    def test_sandboxes_can_be_made_again_after_the_keeper_was_killed(
        self, make_box: MakeBox
    ) -> None:
        lost = make_box()
        lost_pid = keeper_pid()
        os.kill(lost_pid, signal.SIGKILL)
        eventually(lambda: lost.get_info().state == "ended", timeout_s=SOON_S)
        box = make_box()
        assert box.commands.run("echo again").stdout == "again\n"
        assert keeper_pid() != lost_pid
        # It is reaped and its socket closed: nothing of it waits for the garbage collector.
        assert lost_pid not in zombies()
