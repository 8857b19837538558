"""The demo as a user starts it: it ends well, what it promises to show is there, what it prints can
be typed, and its run can be played again, exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clients.docs.blocks import ROOT, commands_of, fits
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from repetition import times

TIMES = times(1, 20)
NAMED = (
    "show {first}",
    "world diff {first}",
    "drafts list --run {first}",
    "runs --tree",
    "compare {first} {fork}",
    "verify {first}",
    "verify {fork}",
)
pytestmark = pytest.mark.timeout(600)


def paddock(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One demo, for programs."""
    place = tmp_path_factory.mktemp("demo") / "project"
    done = paddock("demo", "--json", "--keep", str(place))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def directory(run: str) -> Path:
    return Path(os.environ["PADDOCK_HOME"]) / "runs" / run


def test_demo_shows_everything_that_it_is_there_to_show(demo: dict[str, Any]) -> None:
    assert demo["told"] == {
        "blocked": 2,  # the key: to a host, and in a letter
        "asked": 2,
        "person": 2,
        "drafted": 2,
        "fault": 2,
        "recovered": 2,
    }
    assert demo["judgements"] == {"reused-idempotency-key": 1, "retried-with-backoff": 1}


def test_fork_of_the_demo_keeps_the_money_that_the_first_run_lost(demo: dict[str, Any]) -> None:
    assert demo["refunded_cents"] == {"first": 2000 + 14597 + 3 * 9600, "fork": 2000 + 14597}


def test_fork_of_the_demo_blocks_at_the_bad_step_and_asks_nobody(demo: dict[str, Any]) -> None:
    fork = RecordedRun(directory(demo["runs"]["fork"]))
    assert fork.decision(demo["bad_step"]).decided_by == "refund-budget"
    asked = paddock("approvals", "list", "--run", demo["runs"]["fork"], "--all", "--json")
    assert json.loads(asked.stdout) == []


@pytest.mark.parametrize("words", NAMED)
def test_commands_that_the_demo_names_work_afterwards(demo: dict[str, Any], words: str) -> None:
    done = paddock(*words.format(**demo["runs"]).split())
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_page_of_the_comparison_has_both_runs(demo: dict[str, Any]) -> None:
    text = Path(demo["page"]).read_text()
    assert demo["runs"]["first"] in text
    assert demo["runs"]["fork"] in text


@pytest.mark.repeated
def test_replay_of_the_demo_is_exact_every_time(demo: dict[str, Any]) -> None:
    recorded = RecordedRun(directory(demo["runs"]["first"]))
    rows = [(row.number, row.kind, row.name) for row in recorded.steps]
    for _ in range(TIMES):
        again = replay(recorded.directory)
        assert again.divergence is None, again.divergence.text if again.divergence else ""
        assert again.exit_code == 0
        assert again.differs == ()
        played = RecordedRun(again.directory)
        assert [(row.number, row.kind, row.name) for row in played.steps] == rows


@pytest.mark.thorough
def test_demo_tells_its_story_without_colour_when_piped(tmp_path: Path) -> None:
    done = paddock("demo", "--keep", str(tmp_path / "project"))
    assert done.returncode == 0, done.stderr
    assert "\033" not in done.stdout
    told = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("   ")]
    for label in ("blocked", "asked", "you", "drafted", "recovered", "BAD", "page", "replayed"):
        assert label in told
    assert max(map(len, done.stdout.splitlines())) <= 200
    shown = [
        command for command in commands_of(ROOT / "README.md") if command.text == "paddock demo"
    ]
    assert all(fits(command.output, done.stdout) for command in shown), done.stdout
    assert shown
