"""A bubblewrap that fails, dies or lies in the middle of its work: the sandbox is refused at once
and nothing is left. Never is there one on a root that was not made whole.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.conftest import MakeBox
from conformance.differences import CGROUP_MEMORY
from conformance.host import children, layer_names, nursery_pid, sandboxes_of
from conformance.waiting import Calls, eventually, result_of
from paddock import Sandbox
from paddock.fence import bubblewrap as bubblewrap_module
from paddock.fence.bubblewrap import find as find_bubblewrap
from paddock.fence.container import boot as container_boot
from paddock.fence.container import cgroups
from paddock.fence.guest.agreed import GO_FD, INFO_FD, PIDNS_FD, PROGRAM_FD
from paddock.model.errors import CannotEnforce, HostCannot
from repetition import times

SOON_S = 20.0  # less than the time that a start or a call may take
SCRIPT = """#!/bin/sh
here={here} real={real}
. {here}/behaviour
exec $real "$@"
"""
_SAY_OWN_PID = f"printf '{{\\n  \"child-pid\": %d\\n}}\\n' $$ >&{INFO_FD}"
_WITHOUT_FDS = f"{INFO_FD}>&- {GO_FD}>&- {PIDNS_FD}>&-"


class Bubblewrap:
    """A script in the place of bubblewrap: does as it is told, then becomes the real one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "bwrap"
        # Copied: sandboxes' uids may have no way to where the tests are installed.
        package = Path(find_bubblewrap()).parent.parent
        for name in (package.name, f"{package.name}.libs"):
            if (package.parent / name).exists():
                shutil.copytree(package.parent / name, directory / name)
        real = directory / package.name / "_bin" / "bwrap"
        self.path.write_text(SCRIPT.format(here=directory, real=real))
        self.path.chmod(0o755)
        self.behave("")

    def behave(self, shell: str) -> None:
        path = self.directory / "behaviour"
        path.write_text(shell + "\n")
        path.chmod(0o644)


@pytest.fixture(scope="module")
def script(private_home: Path) -> Iterator[Bubblewrap]:
    # Not in pytest's own directory: sandboxes' uids must be able to get to it.
    directory = Path(tempfile.mkdtemp(prefix="pdk-"))
    directory.chmod(0o755)
    made = Bubblewrap(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PADDOCK_POOL", "0")
        patch.setattr(bubblewrap_module, "find", lambda: str(made.path))
        yield made
    shutil.rmtree(directory)


@pytest.fixture
def bubblewrap(script: Bubblewrap, private_home: Path) -> Iterator[Bubblewrap]:
    """Well-behaved until the test says otherwise, and again afterwards."""
    with Sandbox.create() as box:
        assert box.commands.run("echo fine").stdout == "fine\n"
    assert private_home.is_dir()
    yield script
    script.path.chmod(0o755)
    script.behave("")


def _refusal(home: Path) -> str:
    """What a start is refused with; it comes soon, and after it there is nothing."""
    with pytest.raises(HostCannot) as caught:
        result_of(Sandbox.create, SOON_S)
    _check_nothing_left(home)
    return str(caught.value)


def _check_nothing_left(home: Path) -> None:
    assert sandboxes_of(home) == []
    assert layer_names() == []
    assert children(nursery_pid()) == []


def _places(box: Sandbox) -> list[str]:
    """Every mount of the sandbox in order, as its first process sees them."""
    table = box.files.read("/proc/self/mountinfo")
    assert isinstance(table, str)
    return [line.split()[4] for line in table.splitlines()]


# ---- bubblewrap fails ----------------------------------------------------------------------------


def test_what_bubblewrap_says_is_in_the_error(bubblewrap: Bubblewrap, private_home: Path) -> None:
    bubblewrap.behave("echo 'bwrap: broken on purpose' >&2; exit 1")
    said = _refusal(private_home)
    assert "bwrap: broken on purpose" in said
    assert "paddock doctor" in said


@pytest.mark.parametrize(
    "behaviour",
    [
        "exit 1",
        "exit 0",
        "kill -9 $$",
        f"printf '{{\\n  \"child-' >&{INFO_FD}; exit 0",
        f"printf '{{}}\\n' >&{INFO_FD}; exit 0",
        f"printf '{{\\n  \"child-pid\": 4000000\\n}}\\n' >&{INFO_FD}; exit 0",
        f"{_SAY_OWN_PID}; sleep 0.1; exit 0",
        f"{_SAY_OWN_PID}; sleep 0.1; kill -9 $$",
        f"exec {INFO_FD}>&-",
        f"exec {GO_FD}>&-",
        f"exec {PIDNS_FD}>&-",
        f"exec {GO_FD}</dev/null",
    ],
    ids=[
        "silent", "content", "killed", "half a word", "no pid", "a pid of nobody", "ends unread",
        "killed unread", "no way to say", "no way to hear", "no namespace", "deaf",
    ],
)  # fmt: skip
def test_bubblewrap_that_does_not_finish_is_an_error(
    bubblewrap: Bubblewrap, private_home: Path, behaviour: str
) -> None:
    bubblewrap.behave(behaviour)
    assert "did not start" in _refusal(private_home)


def test_failure_at_the_very_last_mount_is_an_error(
    bubblewrap: Bubblewrap, private_home: Path
) -> None:
    bubblewrap.behave(
        'for word in "$@"; do shift; [ "$word" != -- ] || set -- "$@" --ro-bind /no/such /x;'
        ' set -- "$@" "$word"; done'
    )
    assert "/no/such" in _refusal(private_home)


def test_bubblewrap_is_executed_without_a_way_or_a_right_to_its_file(
    bubblewrap: Bubblewrap, make_box: MakeBox
) -> None:
    """It was opened when this process began: a closed directory or file takes nothing away."""
    bubblewrap.path.chmod(0)
    assert make_box().commands.run("echo fine").stdout == "fine\n"


def test_bubblewrap_that_hangs_is_given_up(
    bubblewrap: Bubblewrap, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_boot, "BOOT_TIMEOUT_S", 0.5)
    bubblewrap.behave("exec sleep 1000")
    assert "did not boot" in _refusal(private_home)


def test_after_a_failure_the_next_start_is_whole(
    bubblewrap: Bubblewrap, make_box: MakeBox, private_home: Path
) -> None:
    wanted = _places(make_box())
    bubblewrap.behave("exit 1")
    with pytest.raises(HostCannot):
        make_box()
    bubblewrap.behave("")
    assert _places(make_box()) == wanted


# ---- the guest ends while bubblewrap works -------------------------------------------------------


@pytest.mark.parametrize(
    "signals",
    [[signal.SIGKILL], [signal.SIGSTOP, signal.SIGKILL]],
    ids=["killed", "stopped and killed"],
)
def test_guest_that_is_killed_before_it_moved_in_is_an_error(
    bubblewrap: Bubblewrap, private_home: Path, signals: list[int]
) -> None:
    bubblewrap.behave("exec sleep 1000")
    calls = Calls([Sandbox.create])
    [guest] = eventually(lambda: children(nursery_pid()), what="the guest is there")
    eventually(lambda: children(guest), what="bubblewrap is at work")
    for number in signals:
        os.kill(guest, number)
    [result] = calls.results(SOON_S)
    assert isinstance(result, HostCannot), repr(result)
    assert "did not start" in str(result)
    _check_nothing_left(private_home)


# ---- the guest is not where it should be ---------------------------------------------------------


@pytest.fixture
def no_way_into_the_group(bubblewrap: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guests that join nothing, on a host that has control groups."""
    with Sandbox.create() as box:
        CGROUP_MEMORY.require(box)
    for kind in (cgroups.GroupV1, cgroups.GroupV2):
        monkeypatch.setattr(kind, "open_to_join", lambda self: [])


@pytest.mark.usefixtures("no_way_into_the_group")
def test_guest_outside_of_its_group_is_refused_and_leaves_nothing(private_home: Path) -> None:
    for _ in range(3):
        with pytest.raises(CannotEnforce, match="not in its group"):
            result_of(Sandbox.create, SOON_S)
    _check_nothing_left(private_home)


@pytest.mark.usefixtures("no_way_into_the_group")
def test_guest_that_is_refused_leaves_no_descriptor_open() -> None:
    with pytest.raises(CannotEnforce):
        Sandbox.create()
    before = _open_descriptors()
    for _ in range(5):
        with pytest.raises(CannotEnforce):
            Sandbox.create()
    # Not counted, because a sandbox of an earlier test may close some of its own meanwhile.
    eventually(lambda: not _open_descriptors() - before, what="no descriptor is left")


def _open_descriptors() -> set[tuple[str, str]]:
    """Return the open descriptors of this process, each with what it refers to."""
    descriptors = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since, as the one that lists them
            descriptors.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return descriptors


# ---- bubblewrap dies at any moment ---------------------------------------------------------------

# Counting takes less time than any program that sleeps takes to start. `read` starts none either.
_LATER = f"(i=0; while [ $i -lt {{count}} ]; do i=$((i+1)); done; {{strike}}) {_WITHOUT_FDS} 2>&- &"
_STRIKES = {
    "all of it": "kill -9 -1",
    "the one that mounts": "read me x </proc/self/stat; read all </proc/$$/task/$$/children;"
    " for pid in $all; do [ $pid = $me ] || kill -9 $pid; done",
}
_TRIES, _MOST_TRIES = times(15, 50), 400  # More only as long as no strike has come in time.


@pytest.mark.repeated
@pytest.mark.parametrize("strike", _STRIKES)
def test_half_made_file_system_is_never_taken_for_a_whole_one(
    bubblewrap: Bubblewrap, private_home: Path, strike: str
) -> None:
    chance = random.Random(f"{strike}-{os.getpid()}")
    with Sandbox.create() as box:
        wanted = _places(box)
    refused = 0
    for number in range(_MOST_TRIES):
        if number >= _TRIES and refused:
            break
        later = _LATER.format(count=chance.randrange(6000), strike=_STRIKES[strike])
        bubblewrap.behave(later)
        try:
            box = result_of(Sandbox.create, SOON_S)
        except HostCannot:
            refused += 1
            continue
        # Asked of the first process: the killer is in the sandbox, and may not have struck yet.
        assert _places(box) == wanted
        box.kill()
    _check_nothing_left(private_home)
    assert refused, "no strike has come in time: the test proves nothing"


def test_bubblewrap_that_makes_nothing_and_says_it_did_is_not_believed(
    bubblewrap: Bubblewrap, make_box: MakeBox, private_home: Path
) -> None:
    """Another release of it might read the word before it mounts: the host's root would stay."""
    bubblewrap.behave(f"{_SAY_OWN_PID}; head -c 1 <&{GO_FD} >/dev/null; exit 0")
    with pytest.raises(HostCannot):
        make_box()


# ---- what bubblewrap is given --------------------------------------------------------------------


def test_bubblewrap_is_given_no_descriptor_but_its_own_few(
    bubblewrap: Bubblewrap, make_box: MakeBox
) -> None:
    seen = bubblewrap.directory / "seen"
    seen.touch()
    seen.chmod(0o666)
    bubblewrap.behave("ls -l /proc/self/fd >> $here/seen")
    for _ in range(3):  # what belongs to the sandboxes before would show in the last
        make_box()
    lines = [line.split() for line in seen.read_text().splitlines() if "->" in line]
    # Without the list's own descriptor.
    others = [words for words in lines if not words[-1].startswith("/proc/")]
    found = [words[words.index("->") - 1] for words in others]
    own = map(str, (INFO_FD, GO_FD, PIDNS_FD, PROGRAM_FD))
    assert sorted(found) == sorted(["0", "1", "2", *own] * 3)


def test_bubblewrap_is_given_no_environment(bubblewrap: Bubblewrap, make_box: MakeBox) -> None:
    seen = bubblewrap.directory / "environ"
    seen.touch()
    seen.chmod(0o666)
    bubblewrap.behave("tr '\\0' '\\n' < /proc/$$/environ > $here/environ")
    make_box()
    assert seen.read_text() == ""
