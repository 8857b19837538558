"""Runs that were recorded in format 1 of the journal are read, replayed and forked as before.

`tests/journals/format-1/home.tar.gz` is a home with three runs that an earlier version recorded,
and their project: an agent in sh (a fault, a model call, an approval, a draft, blocked programs and
a count of them, marks, a prompt, memory, files), a fork of it under another policy, and a replay
that left its record. Paths in a journal are absolute, so the project has to lie where it was.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.journal.log import RunLog
from paddock.model.events import Unknown
from paddock.run.replay.recorded_run import RecordedRun

ARCHIVE = Path(__file__).parents[2] / "journals" / "format-1" / "home.tar.gz"
PROJECT = Path("/tmp/paddock-format-1/project")
FIRST, FORK, DIVERGED = "5aasajzts5t8", "wbrfaky4hvcf", "6ukt2647uqkv"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    shutil.rmtree(PROJECT.parent, ignore_errors=True)  # what a test that was killed has left
    subprocess.run(["tar", "-xzf", ARCHIVE, "-C", tmp_path, "--no-same-owner"], check=True)
    PROJECT.parent.mkdir()
    shutil.move(tmp_path / "project", PROJECT)
    yield tmp_path / "home"
    shutil.rmtree(PROJECT.parent)


def paddock(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paddock.cli.main", *arguments],
        cwd=PROJECT,
        env={**os.environ, "PADDOCK_HOME": str(home), "OPENAI_API_KEY": "sk-not-a-real-key"},
        capture_output=True,
        text=True,
        timeout=100,
    )


def json_of(home: Path, *arguments: str) -> Any:
    done = paddock(home, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_runs_of_format_1_verify_show_replay_and_fork(home: Path) -> None:
    for run in (FIRST, FORK, DIVERGED):
        assert paddock(home, "verify", run).returncode == 0
        events = [record.event for record in RunLog(home / "runs" / run).events()]
        assert not [event for event in events if isinstance(event, Unknown)]
    _check_reports(home)
    recorded = RecordedRun(home / "runs" / FIRST)
    assert (recorded.last_step, recorded.memory_at(229)) == (228, {"count": 3})

    replayed = json_of(home, "replay", FIRST, "--agent", "--json")
    assert replayed["divergence"] is None
    for source, at in ((FIRST, "14"), (FORK, "20")):
        forked = json_of(home, "fork", source, "--at", at, "--set", "rules.0.why=Later.", "--json")
        again = RecordedRun(home / "runs" / _run_of(forked))
        assert _names(again)[: int(at)] == _names(RecordedRun(home / "runs" / source))[: int(at)]
        assert RunLog(again.directory).opened.format == 2


def _check_reports(home: Path) -> None:
    steps = json_of(home, "show", FIRST, "--json", "--limit", "300")["steps"]
    assert len(steps) == 228
    assert [step["name"] for step in steps if step["verdict"] == "ask"] == ["POST api.stripe.com"]
    changes = json_of(home, "changes", FIRST, "--json")
    assert len(changes["changes"]) == 6
    left = json_of(home, "compare", FIRST, DIVERGED, "--json")
    assert left["runs"][1]["run"] == DIVERGED


def _names(run: RecordedRun) -> list[tuple[int, str]]:
    return [(step.number, step.name) for step in run.steps]


def _run_of(forked: Any) -> str:
    first = forked[0] if isinstance(forked, list) else forked
    run: str = first["run"]
    return run
