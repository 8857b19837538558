"""`paddock run` is killed at any moment: what was recorded stays, verifies, and has a future."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cli.journals import state_of
from paddock.doors.machine.engine import Engine
from paddock.gate.run_gate import signing_key
from paddock.gate.signed_journals import check_trusted
from paddock.journal.index.index import RunIndex
from paddock.journal.integrity.findings import Status
from paddock.journal.integrity.verify import verify
from paddock.model.errors import InvalidInput, NotSigned
from paddock.run.replay.fork import LAST, ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.state.home import Home
from repetition import times

AGENTS = Path(__file__).with_name("agents")
KILLS, PARTS = times(5, 50), times(1, 5)
EARLY = KILLS // PARTS // 5  # of each part: before there is a run


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Nobody else begins a run there. Its path is short, because sockets lie below it."""
    place = Path(tempfile.mkdtemp(prefix="pdk-"))
    monkeypatch.setenv("PADDOCK_HOME", str(place))
    yield Engine.current().home
    Engine.current().close()
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.repeated
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_killed_run_is_interrupted_verifies_and_can_be_forked(
    part: int, tmp_path: Path, own_home: Home
) -> None:
    project = tmp_path / "project"
    shutil.copytree(AGENTS, project)
    chance, home = random.Random(part), own_home
    key = signing_key(home).public
    forked = 0
    start(project).wait()  # what is made once for a home is made
    began = time.monotonic()
    whole = start(project)
    begun_s = until_begun(whole, home, set(os.listdir(home.runs))) - began
    assert whole.wait() == 0
    lasts_s = time.monotonic() - began - begun_s
    for number in range(KILLS // PARTS):
        before = set(os.listdir(home.runs))
        process = start(project)
        # One share of the time each, so that no part of a run's life is left out.
        share = (number - EARLY + chance.random()) / (KILLS // PARTS - EARLY)
        if number >= EARLY:
            until_begun(process, home, before)
        time.sleep(share * lasts_s if number >= EARLY else chance.random() * begun_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        made = set(os.listdir(home.runs)) if home.runs.exists() else set()
        for name in made - before:
            directory = home.runs / name
            if (
                not any(directory.glob("*.jsonl"))
                or not (directory / "000001.jsonl").stat().st_size
            ):
                continue  # it was killed before it had begun
            with RunIndex(tmp_path / f"{name}.sqlite") as index:
                index.update(directory)
                state = state_of(index.run(name))
            assert state in ("interrupted", "ended"), state
            report = verify(directory, key)
            assert report.status is (Status.ENDED if state == "ended" else Status.INTERRUPTED)
            if has_setting(directory, home):
                future = fork(directory, ForkOptions(at=LAST))[0]
                assert future.divergence is None, future.divergence.text
                assert future.exit_code == 0
                forked += 1
    assert forked >= KILLS // PARTS // 3


def until_begun(process: subprocess.Popen[bytes], home: Home, before: set[str]) -> float:
    """Returns when there is a new run, with the time."""
    while process.poll() is None and set(os.listdir(home.runs)) <= before:
        time.sleep(0.005)
    return time.monotonic()


def start(project: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "paddock.cli.main",
        "run",
        "-q",
        "--",
        "python3",
        "one_by_one.py",
    ]
    environment = {**os.environ, "PADDOCK_HOME": str(Engine.current().home.root)}
    return subprocess.Popen(command, cwd=project, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def has_setting(directory: Path, home: Home) -> bool:
    """Return whether the signed part of the run is long enough to continue from."""
    try:
        return bool(RecordedRun(directory, check_trusted(directory, home)).steps)
    except (NotSigned, InvalidInput):  # killed before its configuration was signed, or recorded
        return False
