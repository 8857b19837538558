"""What is said when a replay or a fork leaves its record, and what can be done then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paddock.cli.render.replay import vary_options
from paddock.run.matching.recorded_step import Difference, DivergedBy
from paddock.run.replay.session import Divergence
from unit.cli.conftest import Call


@pytest.fixture
def changed(home: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose agent does something else by now."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "word").write_text("one")
    (project / "agent.sh").write_text('true; env echo "$(cat word)"; env sleep 0\n')
    monkeypatch.chdir(project)
    assert call("run", "-q", "--", "sh", "agent.sh").code == 0
    (project / "word").write_text("two")
    return project


def test_replay_that_left_its_record_was_stopped_and_says_what_lets_it_through(
    changed: Path, call: Call
) -> None:
    said = call("replay", "last", "--agent")

    assert said.code == 5
    assert re.search(r"exit code 137 \(stopped: it left its record\)", said.err), said.err
    hint = re.search(r"--vary (\S+) lets this differ", said.err)
    assert hint is not None, said.err
    assert "--on-divergence live" in said.err
    again = call("replay", "last", "--agent", "--vary", hint[1].strip("'"))
    assert again.code == 0, again.err


def test_replay_that_goes_on_live_does_not_say_that_it_kept_to_its_record(
    changed: Path, call: Call
) -> None:
    said = call("replay", "last", "--agent", "--on-divergence", "live")

    assert said.code == 0
    assert "kept to its record" not in said.err
    at = re.search(r"left its record at step (\d+); went on live as (\w+)", said.err)
    assert at is not None, said.err
    assert f"run       {at[2]}, a fork of" in said.err


def test_fork_that_left_its_record_shows_both_sides(changed: Path, call: Call) -> None:
    said = call("fork", "last", "--at", "last")

    assert said.code == 5
    assert re.search(r"recorded +proposed", said.err), said.err
    assert re.search(r'"one" +\| "two"', said.err), said.err
    assert re.search(r"--vary \S+=any'? lets this differ", said.err)
    assert re.search(r"--at \d+ forks where they part", said.err)


@pytest.mark.parametrize("at", ["host", "method", "exit_code", "body.\x1b[2J", "body." + "x" * 300])
def test_no_place_is_offered_that_cannot_vary_or_is_not_to_be_shown(at: str) -> None:
    found = Divergence(DivergedBy.CHANGED, 3, (Difference(at, "a", "b"),), None, None)

    assert vary_options(found) == []


def test_body_that_is_compared_by_its_digest_is_offered_as_a_whole() -> None:
    differences = (Difference("body_bytes", 7, 8), Difference("body_sha256", "a", "b"))
    found = Divergence(DivergedBy.CHANGED, 3, differences, None, None)

    assert vary_options(found) == ["--vary body=any"]
