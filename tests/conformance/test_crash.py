"""Kill -9 of the host process at any moment: everything is gone at once or with the next start."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.host import cgroups_with, loops_of, mounts_of, sandboxes_of
from conformance.waiting import eventually
from paddock.state.home import new_id
from paddock.state.layers.layers import is_copy
from repetition import times

PROGRAMS = Path(__file__).parent / "programs"
GONE_S = "10"
POINTS = ("layer made", "cgroup made", "sandbox launched", "layer forked", "snapshot saved")
NEXT_START = (
    "import json\n"
    "from paddock import Sandbox\n"
    "from paddock.doors.machine.engine import Engine\n"
    "with Sandbox.create() as box:\n"
    "    assert box.commands.run('echo fine').stdout == 'fine\\n'\n"
    "    driver = Engine.current().opened_driver\n"
    "    print(json.dumps(sorted(driver.layers.names())))\n"
)


@pytest.fixture(scope="module")
def home(driver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One home for all crashes of this file: each start sweeps what the one before left."""
    yield tmp_path_factory.mktemp("crash") / "h"


def _kill_after(home: Path, delay_s: float, marker: str, *point: str) -> None:
    victim = [sys.executable, str(PROGRAMS / "victim.py"), marker, *point]
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "reaper.py"), str(delay_s), GONE_S, *victim],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PADDOCK_HOME": str(home), "PADDOCK_POOL": "auto"},
    )
    assert done.returncode == 0, f"processes are left:\n{done.stdout}{done.stderr}"


def _start_again(home: Path) -> list[str]:
    """What the next start finds in the way of layers."""
    done = subprocess.run(
        [sys.executable, "-c", NEXT_START],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PADDOCK_HOME": str(home), "PADDOCK_POOL": "0"},
    )
    assert done.returncode == 0, done.stderr
    layers: list[str] = json.loads(done.stdout)
    return layers


def _check_all_gone(home: Path, marker: str) -> None:
    assert mounts_of(home) == []
    eventually(lambda: not loops_of(home), what="loop devices gone")
    layers = _start_again(home)
    assert cgroups_with(marker) == []
    assert sandboxes_of(home) == []
    assert [name for name in layers if name.startswith(marker) or is_copy(name)] == []


@pytest.fixture
def marker(driver: str) -> Iterator[str]:
    """What the ids of the victim's sandboxes begin with. What a failed test left is removed."""
    marker = new_id()[:6]
    yield marker
    for group in cgroups_with(marker):
        with contextlib.suppress(OSError):
            os.rmdir(group)


@pytest.mark.repeated
@pytest.mark.parametrize("seed", range(times(3, 10)))
def test_kill_at_a_random_moment_leaves_nothing(home: Path, marker: str, seed: int) -> None:
    _kill_after(home, random.Random(f"{seed}-{os.getpid()}").uniform(0.2, 1.8), marker)
    _check_all_gone(home, marker)


@pytest.mark.parametrize("point", POINTS)
def test_kill_at_a_certain_point_leaves_nothing(home: Path, marker: str, point: str) -> None:
    _kill_after(home, 30, marker, point)
    _check_all_gone(home, marker)
