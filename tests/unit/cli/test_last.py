"""Which run `last` is: the same one for every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.journals import find_journal
from paddock.journal.log import RunLog
from paddock.model.errors import NotFound
from unit.cli.commands.test_world import make_world
from unit.cli.conftest import Call
from unit.run.recorded import Crossed, agent, record

STEPS = (Crossed(agent("python", "agent.py"), record={"exit_code": 0}),)


def past(home: Path) -> None:
    """A run, a fork of it, a replay of that, and one that never began."""
    record(home, "first", STEPS)
    record(home, "forked", STEPS, kind="fork", lineage={"run": "first", "at": 1})
    record(home, "replayed", STEPS, kind="replay", lineage={"run": "forked"})
    record(home, "never-began", ())


def test_last_is_the_newest_that_did_something_and_is_no_replay(home: Path) -> None:
    past(home)

    assert find_journal("last").name == "forked"


def test_commands_mean_the_same_run_and_say_which(home: Path, call: Call) -> None:
    past(home)
    for run in ("first", "forked"):
        make_world(home, run)

    shown = call("show", "last")
    assert "forked" in shown.out
    told = "paddock: last is forked: what is newer is a replay, or did nothing\n"
    assert shown.err == told
    for words in (["world", "list"], ["world"], ["net"], ["replay"], ["compare", "first"]):
        assert call(*words, "last").err.startswith(told), words
    assert call("show", "last", "--json").json["run"]["run"] == "forked"
    assert call("show", "last", "--json").err == ""


def test_nothing_is_said_where_last_is_simply_the_newest(home: Path, call: Call) -> None:
    record(home, "first", STEPS)

    assert call("show", "last").err == ""


def test_world_of_a_replay_names_the_run_that_it_replays(home: Path, call: Call) -> None:
    past(home)
    make_world(home, "first")
    said = call("world", "show", "replayed")

    assert said.code == 1
    assert "replayed is a replay" in said.err
    assert "paddock world show forked" in said.err


@pytest.mark.parametrize("kind", ["exec", "doctor", "send"])
def test_what_a_command_does_for_itself_is_never_last(kind: str, home: Path, call: Call) -> None:
    record(home, "first", STEPS)
    record(home, "later", STEPS, kind=kind)

    assert find_journal("last").name == "first"
    assert call("show", "last").err == ""


def test_last_is_of_the_directory_at_hand_and_those_below_it(
    home: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, sub, theirs = tmp_path / "ours", tmp_path / "ours/src/deep", tmp_path / "theirs"
    for place in (sub, theirs):
        place.mkdir(parents=True)
    (ours / "paddock.yaml").write_text("")
    (tmp_path / "link").symlink_to(ours)
    for name, place in (("of-ours", sub), ("of-theirs", theirs)):
        monkeypatch.chdir(place)
        record(home, name, STEPS)

    for place in (ours, sub, tmp_path / "link"):
        monkeypatch.chdir(place)
        assert find_journal("last").name == "of-ours"
    monkeypatch.chdir(theirs)
    assert find_journal("last").name == "of-theirs"
    monkeypatch.chdir(tmp_path)
    said = call("show", "last")
    assert said.code == 1
    assert f"no run belongs to {tmp_path}" in said.err
    assert f"of-theirs, of {theirs}" in said.err


def test_last_of_a_directory_that_was_removed_names_the_newest_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(home, "first", STEPS)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(NotFound, match="no run belongs to this directory"):
        find_journal("last")


def test_replays_alone_are_no_last_run(home: Path) -> None:
    record(home, "replayed", STEPS, kind="replay", lineage={"run": "elsewhere"})

    with pytest.raises(NotFound, match="no run yet"):
        find_journal("last")


def test_exec_tells_its_run_whose_journal_says_what_it_is(home: Path, call: Call) -> None:
    record(home, "first", STEPS)
    told = call("exec", "--json", "--", "true").json

    opened = RunLog(home / "runs" / told["run"]).opened
    assert (opened.kind, opened.project) == ("exec", str(Path.cwd()))
    assert find_journal("last").name == "first"
