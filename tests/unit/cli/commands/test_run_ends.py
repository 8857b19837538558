"""How a run ends that does not end by itself, and what is said about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unit.cli.commands.test_run_live import FILE
from unit.cli.conftest import Call
from unit.cli.terminals import INTERRUPT, in_terminal


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


def test_agent_whose_time_is_over_ends_with_124_and_a_line_also_when_quiet(
    home: Path, project: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    said = call("run", "--timeout", "1s", "-q", "--", "sleep", "30")

    assert said.code == 124
    line, hint = said.err.splitlines()
    assert line == "paddock: the agent was ended before it was done: timeout"
    assert "--timeout" in hint


def test_interrupt_at_a_question_is_told_when_all_of_it_is_on_record(
    home: Path, project: Path
) -> None:
    (project / "paddock.yaml").write_text(FILE)
    shown, code = in_terminal(["run", "--", "sh", "-c", "rm x"], project, home, INTERRUPT)

    assert code == 130, shown
    assert re.search(r"> \^C\s+the question was withdrawn", shown), shown
    assert re.search(r"ended +after .*\(interrupted by you\), 2 steps", shown), shown
    assert "asked     1: without an answer 1" in shown
    assert "no end was recorded" not in shown


def test_interrupted_agent_has_not_ended_by_itself(
    home: Path, project: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "--", "sh", "-c", "echo begun; sleep 60"]
    shown, code = in_terminal(words, project, home, INTERRUPT, when=b"begun\r\n")

    assert code == 130, shown
    assert re.search(r"ended +after .*\(interrupted by you\), ", shown), shown
    monkeypatch.chdir(project)
    assert re.search(r"ended +after .*\(interrupted\), ", call("show", "last").out)


LOUD = ["sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; sleep 60"]


def test_agent_beyond_its_output_limit_is_told_how_to_raise_it_and_that_helps(
    home: Path, project: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    said = call("run", "-q", "--set", "sandbox.limits.output=64KiB", "--", *LOUD)

    assert said.code == 137
    assert said.err == (
        "paddock: the agent was ended by the output limit of 64KiB\n"
        "  hint: raise it with --set sandbox.limits.output=128KiB, or in the paddock file\n"
    )
    quick = [*LOUD[:2], LOUD[2].replace("; sleep 60", "")]
    raised = call("run", "-q", "--set", "sandbox.limits.output=256KiB", "--", *quick)
    assert (raised.code, raised.err, len(raised.out)) == (0, "", 200_000)


def test_command_beyond_its_output_limit_is_told_how_to_raise_it(home: Path, call: Call) -> None:
    said = call("exec", "--limit", "output=64KiB", "--", *LOUD)

    assert said.code == 137
    assert said.err == (
        "paddock: stopped by the output limit of 64KiB\n"
        "  hint: raise it with --limit output=128KiB\n"
    )
