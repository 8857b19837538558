"""Advisory locks: between calls, between sandboxes on one volume, and with flock inside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from conformance.conftest import MakeBox
from conformance.waiting import Calls, result_of
from paddock import CommandExitException, FileError, Sandbox, TimeoutReached, Volume

TRY = (
    "import fcntl, sys\n"
    "file = open(sys.argv[2], 'r+')\n"
    "how = fcntl.LOCK_NB | (fcntl.LOCK_SH if 'shared' in sys.argv[1] else fcntl.LOCK_EX)\n"
    "getattr(fcntl, sys.argv[1].split('-')[0])(file, how)\n"
    "print('locked', flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def pair(make_volume: Callable[..., Volume], make_box: MakeBox) -> tuple[Sandbox, Sandbox]:
    """Two sandboxes that share a volume with an empty file in it."""
    volume = make_volume(quota="64MiB")
    mounts = [{"volume": volume.name, "target": "/data"}]
    first, second = make_box(mounts=mounts), make_box(mounts=mounts)
    first.files.write("/data/file", "")
    return first, second


def _can_lock(box: Sandbox, how: str) -> bool:
    try:
        box.commands.run(["python3", "-c", TRY, how, "/data/file"])
    except CommandExitException as error:
        assert "BlockingIOError" in error.stderr, error.stderr
        return False
    return True


def test_lock_of_one_sandbox_keeps_the_other_out(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    with (
        first.files.lock("/data/file"),
        pytest.raises(TimeoutReached, match="/data/file"),
        second.files.lock("/data/file", timeout=0.2),
    ):
        pass
    with second.files.lock("/data/file", timeout=5):
        pass


def test_shared_locks_go_together_and_keep_an_exclusive_one_out(
    pair: tuple[Sandbox, Sandbox],
) -> None:
    first, second = pair
    with (
        first.files.lock("/data/file", shared=True),
        second.files.lock("/data/file", shared=True, timeout=5),
        pytest.raises(TimeoutReached),
        second.files.lock("/data/file", timeout=0.1),
    ):
        pass


def test_waiting_lock_is_given_when_the_other_lets_go(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    is_free = threading.Event()

    def wait() -> bool:
        with second.files.lock("/data/file"):
            return is_free.is_set()

    with first.files.lock("/data/file"):
        waiting = Calls([wait])
        time.sleep(0.2)
        is_free.set()
    assert waiting.results(10) == [True]


def test_lock_of_the_api_holds_against_flock_inside(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    with first.files.lock("/data/file"):
        assert not _can_lock(second, "flock")
        assert not _can_lock(first, "flock")
        assert not _can_lock(second, "flock-shared")
    assert _can_lock(second, "flock")


@pytest.mark.parametrize("how", ["flock", "lockf"])
def test_locks_taken_inside_hold_between_sandboxes(pair: tuple[Sandbox, Sandbox], how: str) -> None:
    first, second = pair
    held = threading.Event()
    holder = first.commands.run(
        ["python3", "-c", TRY, how, "/data/file"],
        background=True,
        stdin=True,
        on_stdout=lambda _: held.set(),
    )
    assert held.wait(10)
    assert not _can_lock(second, how)
    holder.close_stdin()
    holder.wait()
    assert _can_lock(second, how)


def test_flock_taken_inside_holds_against_the_api(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    held = threading.Event()
    holder = first.commands.run(
        ["python3", "-c", TRY, "flock", "/data/file"],
        background=True,
        stdin=True,
        on_stdout=lambda _: held.set(),
    )
    assert held.wait(10)
    with pytest.raises(TimeoutReached), second.files.lock("/data/file", timeout=0.1):
        pass
    holder.kill()
    with second.files.lock("/data/file", timeout=5):
        pass


def test_lock_goes_with_its_sandbox(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    lock = first.files.lock("/data/file")
    lock.__enter__()
    first.kill()
    with second.files.lock("/data/file", timeout=5):
        pass
    result_of(lambda: lock.__exit__(None, None, None))


def test_lock_makes_a_missing_file(shared_box: Sandbox) -> None:
    with shared_box.files.lock("made-by-lock"):
        assert shared_box.files.exists("made-by-lock")


def test_lock_on_a_missing_directory_is_an_error(shared_box: Sandbox) -> None:
    with pytest.raises(FileError), shared_box.files.lock("no/such/dir/lock"):
        pass


def test_counter_under_a_lock_loses_no_step(pair: tuple[Sandbox, Sandbox]) -> None:
    first, second = pair
    first.files.write("/data/count", "0")

    def step(box: Sandbox) -> None:
        for _ in range(10):
            with box.files.lock("/data/file", timeout=30):
                box.files.write("/data/count", str(int(box.files.read("/data/count")) + 1))

    Calls([lambda b=b: step(b) for b in (first, second, first, second)]).results(60)
    assert first.files.read("/data/count") == "40"
