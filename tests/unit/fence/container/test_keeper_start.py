"""A keeper that gets up before anybody needs it: who gets it, and that it goes when nobody does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.fence.container import keeper_start
from paddock.fence.container.keeper_link import KeeperLink
from paddock.model.errors import HostCannot
from paddock.state.home import Home

WAIT_S = 30.0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    return Home.find()


def _started(home: Home) -> int:
    """The pid of the keeper that a link gets; it is hung up on again."""

    async def start() -> int:
        link = await asyncio.wait_for(KeeperLink.start(home), WAIT_S)
        link.close()
        return link._process.pid

    return asyncio.run(start())


def _early_pid() -> int:
    ((_, process),) = keeper_start._early.values()
    return process.pid


def test_the_first_link_gets_the_keeper_that_is_up(home: Home) -> None:
    with keeper_start.early_keeper():
        pid = _early_pid()
        assert _started(home) == pid


def test_a_second_link_gets_a_keeper_of_its_own(home: Home) -> None:
    with keeper_start.early_keeper():
        assert _started(home) != _started(home)


def test_a_link_for_another_home_gets_another_keeper(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.make()
    with keeper_start.early_keeper():
        pid = _early_pid()
        assert _started(other) != pid
        assert _early_pid() == pid


def test_a_keeper_that_nobody_asked_for_has_gone_afterwards(home: Home) -> None:
    with keeper_start.early_keeper():
        pid = _early_pid()
    assert keeper_start._early == {}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_has_gone_as_well_when_something_fails_meanwhile(home: Home) -> None:
    with pytest.raises(ValueError, match="meanwhile"), keeper_start.early_keeper():
        pid = _early_pid()
        raise ValueError("meanwhile")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_home_that_cannot_be_used_is_said_and_leaves_no_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "file" / "home"))
    before = children()
    with pytest.raises(HostCannot, match="cannot use"), keeper_start.early_keeper():
        pytest.fail("there is no such home")
    assert children() <= before


def children() -> set[int]:
    """Of this process, which may have some from tests before."""
    found = (Path("/proc/self/task") / one / "children" for one in os.listdir("/proc/self/task"))
    return {int(pid) for path in found for pid in path.read_text().split()}


def test_a_keeper_that_died_meanwhile_is_said(home: Home) -> None:
    keeper = keeper_start.start_keeper()
    keeper.process.kill()
    keeper.process.wait()
    with pytest.raises(HostCannot, match="keeper"):
        keeper_start.send_home(keeper, str(home.root))
    keeper.sock.close()


def test_a_forked_child_does_not_hold_the_keeper(home: Home) -> None:
    with keeper_start.early_keeper():
        child = os.fork()
        if child == 0:
            os._exit(len(keeper_start._early))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert _early_pid() > 0


def test_it_loads_nothing_heavy() -> None:
    program = (
        "import sys, paddock.fence.container.keeper_start;"
        "print(*sorted({'asyncio', 'dataclasses', 'pathlib', 'json'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    assert done.stdout.strip() == ""
