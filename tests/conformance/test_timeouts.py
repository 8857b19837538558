"""The time of a whole sandbox: it ends by itself, and every waiting call hears why."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime, timedelta

import pytest

from conformance.conftest import MakeBox
from conformance.waiting import Calls, eventually
from paddock import Sandbox, SandboxDied


def _hold_lock(box: Sandbox) -> None:
    with box.files.lock("lock"), box.files.lock("lock"):
        pass


def test_set_timeout_ends_every_waiting_call_with_the_reason(box: Sandbox) -> None:
    handle = box.commands.run("sleep 1000", background=True)
    full = box.commands.run("sleep 1000", background=True, stdin=True)
    waiting = Calls(
        [
            lambda: box.commands.run("sleep 1000"),
            lambda: box.commands.run("sleep 1000", stdin=bytes(8 << 20)),
            handle.wait,
            lambda: full.send_stdin(bytes(8 << 20)),
            lambda: box.run_code("import time; time.sleep(1000)"),
            lambda: _hold_lock(box),
            lambda: box.pty.create(cmd=["sleep", "1000"]).wait(),
        ]
    )
    eventually(lambda: len(box.commands.list()) >= 5)
    box.set_timeout(0.3)
    for result in waiting.results(10):
        assert isinstance(result, SandboxDied), result
        assert result.reason == "timeout"


def test_ended_sandbox_says_so_and_refuses_calls_with_the_reason(make_box: MakeBox) -> None:
    box = make_box(timeout=0.3)
    eventually(lambda: box.get_info().state == "ended")
    assert box.get_info().ended_by == "timeout"
    assert not box.is_running()
    for call in (
        lambda: box.commands.run("true"),
        lambda: box.files.read("x"),
        lambda: box.run_code("1"),
        box.pause,
        box.fork,
        box.snapshot,
        box.changes,
        box.metrics,
    ):
        with pytest.raises(SandboxDied, match="timeout"):
            call()
    box.kill()  # what has ended may be ended again


def test_time_limit_is_a_ceiling_that_set_timeout_cannot_raise(make_box: MakeBox) -> None:
    box = make_box(limits={"time": 1}, timeout=100)
    box.set_timeout(1000)
    eventually(lambda: box.get_info().state == "ended", timeout_s=8)
    assert box.get_info().ended_by == "time limit"


def test_set_timeout_can_extend(make_box: MakeBox) -> None:
    box = make_box(timeout=1)
    box.set_timeout("10m")
    end = box.get_info().end_at
    assert end is not None
    assert timedelta(minutes=9) < end - datetime.now(UTC) <= timedelta(minutes=10)
    assert box.commands.run("sleep 1.5; echo still here").stdout == "still here\n"


def test_end_at_tells_the_ceiling_when_that_comes_first(make_box: MakeBox) -> None:
    box = make_box(limits={"time": 60}, timeout=3600)
    end = box.get_info().end_at
    assert end is not None
    assert end - datetime.now(UTC) <= timedelta(seconds=60)


def test_time_limit_counts_while_paused(make_box: MakeBox) -> None:
    box = make_box(limits={"time": 1})
    box.pause()
    time.sleep(1.2)
    with contextlib.suppress(SandboxDied):
        box.resume()
    eventually(lambda: box.get_info().ended_by == "time limit")


def test_timeout_takes_words(make_box: MakeBox) -> None:
    box = make_box(timeout="5m")
    end = box.get_info().end_at
    assert end is not None
    assert timedelta(minutes=4) < end - datetime.now(UTC) <= timedelta(minutes=5)
