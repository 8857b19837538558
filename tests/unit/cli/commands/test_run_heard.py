"""What is heard of an agent while it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.journals import find_journal
from paddock.run.changes import configuration_of
from paddock.run.replay.replay import replay
from unit.cli.conftest import Call
from unit.cli.terminals import in_terminal

FILE = """\
version: 1
agent: bot
stage: observe
rules:
  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}
"""
# What Python holds back in a buffer is lost with this end.
AGENT = "import os\nprint('hello')\nos._exit(4)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "agent.py").write_text(AGENT)
    monkeypatch.chdir(place)
    return place


def test_python_holds_nothing_back_in_a_run_and_in_its_replay(
    home: Path, project: Path, call: Call
) -> None:
    said = call("run", "-q", "--", "python3", "agent.py")
    run = find_journal("last")

    assert (said.code, said.out) == (4, "hello\n")
    assert configuration_of(run).envs["PYTHONUNBUFFERED"] == "1"
    again = replay(run)
    assert again.divergence is None
    assert configuration_of(again.directory).envs["PYTHONUNBUFFERED"] == "1"


def test_file_may_say_that_python_holds_back(home: Path, project: Path, call: Call) -> None:
    (project / "paddock.yaml").write_text(FILE + 'sandbox: {envs: {PYTHONUNBUFFERED: ""}}\n')

    said = call("run", "-q", "--", "python3", "agent.py")
    assert (said.code, said.out) == (4, "")


def test_person_without_a_paddock_file_is_told_what_holds(
    home: Path, project: Path, call: Call
) -> None:
    told = "paddock: no paddock.yaml here: nothing leaves the fence; paddock init writes one\n"

    assert call("run", "--", "true").err.startswith(told)
    assert call("run", "-q", "--", "true").err == ""


def test_paddock_file_of_a_parent_is_pointed_at(
    home: Path, project: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "paddock.yaml").write_text(FILE)
    (project / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(project / "a" / "b")

    said = call("run", "--", "true")
    assert "there is one in ../../: say -f ../../paddock.yaml\n" in said.err
    assert "no paddock.yaml" not in call("run", "-f", "../../paddock.yaml", "--", "true").err


def test_agent_that_wants_to_be_typed_to_is_told_how_it_gets_input(
    home: Path, project: Path
) -> None:
    (project / "agent.py").write_text("input()\n")
    told = "give it what it reads: echo ... | paddock run -- python3 agent.py\r\n"
    shown, code = in_terminal(["run", "--", "python3", "agent.py"], project, home)
    assert code == 1
    assert shown.endswith(told), shown

    (project / "agent.py").write_text("import sys\nprint('EOFError', file=sys.stderr)\n")
    shown, code = in_terminal(["run", "--", "python3", "agent.py"], project, home)
    assert code == 0
    assert told not in shown
