"""The nursery, the process that guests are forked from: its end takes its sandboxes along, and
nothing else. The same for guests that end before they are ready.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.host import (
    cgroups_with,
    children,
    init_pid,
    keeper_pid,
    layer_names,
    nursery_pid,
    processes_with,
    sandboxes_of,
)
from conformance.waiting import Calls, eventually, result_of
from paddock import Sandbox, SandboxDied
from paddock.model.errors import PaddockError

SOON_S = 20.0  # less than the time that a start or a call may take
AT_ONCE = 4
EACH = 6
MOST = 200  # creates in a thread that waits for the killer
STRIKES = 10


@pytest.fixture(scope="module", autouse=True)
def home(private_home: Path) -> Iterator[Path]:
    """No pool: every guest there is belongs to a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PADDOCK_POOL", "0")
        yield private_home


@pytest.fixture
def marker(monkeypatch: pytest.MonkeyPatch) -> str:
    """What the ids of this test's sandboxes begin with: so do their directories and cgroups."""
    from paddock.doors.machine import box
    from paddock.state.home import new_id

    marker = new_id()[:6]
    monkeypatch.setattr(box, "new_id", lambda: marker + new_id()[:6])
    return marker


def _check_nothing_left(home: Path, marker: str) -> None:
    eventually(lambda: not sandboxes_of(home), what="directories of sandboxes gone")
    eventually(lambda: not layer_names(), what="layers gone")
    eventually(lambda: not children(nursery_pid()), what="guests gone")
    assert cgroups_with(marker) == []


def _check_works(box: Sandbox) -> None:
    assert box.commands.run("echo fine").stdout == "fine\n"


# ---- the end of the nursery ----------------------------------------------------------------------


def test_kill_of_the_nursery_ends_its_sandboxes_and_all_that_waits_on_them(
    make_box: MakeBox, home: Path, marker: str
) -> None:
    boxes = [make_box() for _ in range(3)]
    waits: list[Callable[[], Any]] = []
    for box in boxes:
        waits.append(partial(box.commands.run, ["sleep", "31415926"]))
        waits.append(box.commands.run(["sleep", "31415926"], background=True).wait)
        waits.append(box.pty.create(cmd=["sleep", "31415926"]).wait)
    calls = Calls(waits)
    eventually(lambda: len(processes_with("sleep 31415926")) == 9)
    os.kill(nursery_pid(), signal.SIGKILL)
    for result in calls.results(SOON_S):
        assert isinstance(result, SandboxDied), repr(result)
        assert "guest" in result.reason or "first process" in result.reason
    for box in boxes:
        assert box.get_info().state == "ended"
        assert box.get_info().ended_by
    eventually(lambda: not processes_with("sleep 31415926"))
    make_box()
    eventually(lambda: len(sandboxes_of(home)) == 1)
    assert len(children(nursery_pid())) == 1


def test_next_sandbox_after_a_kill_of_the_nursery_has_the_same_keeper(
    make_box: MakeBox, home: Path, marker: str
) -> None:
    lost = make_box()
    keeper, nursery = keeper_pid(), nursery_pid()
    os.kill(nursery, signal.SIGKILL)
    eventually(lambda: lost.get_info().state == "ended", timeout_s=SOON_S)
    box = result_of(make_box, SOON_S)
    _check_works(box)
    assert keeper_pid() == keeper
    assert nursery_pid() != nursery
    eventually(lambda: children(keeper) == [nursery_pid()], what="the killed one was waited for")
    box.kill()
    _check_nothing_left(home, marker)


def test_nursery_is_the_only_parent_and_has_no_other_children(make_box: MakeBox) -> None:
    boxes = [make_box() for _ in range(5)]
    assert sorted(children(nursery_pid())) == sorted(init_pid(box) for box in boxes)
    assert [children(init_pid(box)) for box in boxes] == [[]] * 5  # bubblewrap has gone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_that_is_meant_for_the_host_process_does_not_end_the_nursery(
    make_box: MakeBox, number: int
) -> None:
    """A Ctrl-C goes to everything that a terminal started; the host process decides what it is."""
    box = make_box()
    nursery = nursery_pid()
    os.kill(nursery, number)
    _check_works(box)
    _check_works(make_box())
    assert nursery_pid() == nursery


def test_end_of_the_keeper_is_the_end_of_nursery_and_guests(make_box: MakeBox) -> None:
    guest, nursery = init_pid(make_box()), nursery_pid()
    os.kill(keeper_pid(), signal.SIGKILL)
    for pid in (nursery, guest):
        eventually(partial(_is_gone, pid), timeout_s=SOON_S)
    _check_works(make_box())


def _is_gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


# ---- ends in the middle of a start ---------------------------------------------------------------


class _Killer(threading.Thread):
    """Ends what `find` names, at random moments, until it is told to stop."""

    def __init__(self, find: Callable[[], list[int]], signals: list[int]) -> None:
        super().__init__(daemon=True)
        self._find = find
        self._signals = signals
        self._is_over = threading.Event()
        self.count = 0

    def run(self) -> None:
        chance = random.Random(os.getpid())
        while not self._is_over.wait(chance.uniform(0.001, 0.03)):
            for pid in self._find():
                with contextlib.suppress(ProcessLookupError):
                    for number in self._signals:
                        os.kill(pid, number)
                    self.count += 1

    def __enter__(self) -> _Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


def _create_many(find: Callable[[], list[int]], signals: list[int]) -> list[Any]:
    """Creates in several threads while a killer is about; what each call came to."""

    with _Killer(find, signals) as killer:

        def several() -> list[Any]:
            outcomes = [_outcome() for _ in range(EACH)]
            while killer.count < STRIKES and len(outcomes) < MOST:
                outcomes.append(_outcome())
            return outcomes

        results = Calls([several] * AT_ONCE).results(60)
    assert killer.count, "nothing was struck: the test proves nothing"
    return [outcome for part in results for outcome in part]


def _outcome() -> Any:
    began = time.monotonic()
    try:
        box = Sandbox.create()
    except PaddockError as error:
        return error if time.monotonic() - began < SOON_S else "slow"
    box.kill()
    return "made"


def _check_outcomes(outcomes: list[Any]) -> None:
    """Made, or a refusal that says so; never another exception, never a call that hangs."""
    odd = [o for o in outcomes if o != "made" and not isinstance(o, PaddockError)]
    assert odd == []
    assert all(str(o) for o in outcomes)


@pytest.mark.parametrize(
    "signals",
    [[signal.SIGKILL], [signal.SIGSTOP, signal.SIGKILL]],
    ids=["killed", "stopped and killed"],
)
def test_guest_that_ends_while_it_starts_is_an_error_and_leaves_nothing(
    home: Path, marker: str, signals: list[int]
) -> None:
    with Sandbox.create() as box:
        _check_works(box)
    nursery = nursery_pid()
    _check_outcomes(_create_many(lambda: children(nursery), signals))
    assert nursery_pid() == nursery
    _check_nothing_left(home, marker)
    with Sandbox.create() as box:
        _check_works(box)


def test_nursery_that_ends_while_sandboxes_start_is_an_error_and_leaves_nothing(
    home: Path, marker: str
) -> None:
    with Sandbox.create() as box:
        _check_works(box)
    keeper = keeper_pid()
    _check_outcomes(_create_many(lambda: children(keeper), [signal.SIGKILL]))
    with Sandbox.create() as box:
        _check_works(box)
    assert keeper_pid() == keeper
    _check_nothing_left(home, marker)


def test_spec_that_no_message_can_carry_ends_no_other_sandbox(
    make_box: MakeBox, shared_directory: Path
) -> None:
    """A message between processes holds 253 descriptors, and each mount is one."""
    other = make_box()
    nursery = nursery_pid()
    places = [{"source": str(shared_directory / str(n)), "target": f"/m/{n}"} for n in range(260)]
    for place in places:
        Path(place["source"]).mkdir()
    with contextlib.suppress(PaddockError):
        make_box(mounts=places)
    assert nursery_pid() == nursery
    _check_works(other)
