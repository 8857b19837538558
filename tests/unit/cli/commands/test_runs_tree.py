"""`paddock runs --tree`: forks and replays below the run that they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.render.runs import branches
from paddock.journal.index.index import RunIndex
from paddock.state.home import Home
from unit.cli.conftest import Call
from unit.run.compare.journeys import fork_of, tool, write_records, write_run

DEEDS = (tool("one"), tool("two"))


def replay_of(run: str) -> dict[str, object]:
    return {"kind": "replay", "lineage": {"run": run, "root": run}}


@pytest.fixture
def family(home: Path) -> Path:
    write_run(home, "root", DEEDS)
    write_run(home, "other", DEEDS)
    write_run(home, "fork-a", DEEDS, opened={**fork_of("root", 2), "stage": "narrow"})
    write_run(home, "again", DEEDS, opened=replay_of("root"))
    write_run(home, "fork-aa", DEEDS, opened=fork_of("fork-a", 3, "root"), is_closed=False)
    return home


def test_forks_stand_below_their_origin_with_what_was_changed(family: Path, call: Call) -> None:
    said = call("runs", "--tree")
    assert said.code == 0
    lines = said.out.splitlines()
    assert [line[:12].rstrip() for line in lines[1:]] == [
        "root", "  fork-a", "    fork-aa", "  again", "other",
    ]  # fmt: skip
    assert "fork at 2" in lines[2]
    assert lines[2].endswith("ended        stage narrow")
    assert "fork at 3" in lines[3]
    assert "interrupted" in lines[3]
    assert lines[3].endswith("stage draft")
    assert "replay" in lines[4]


def test_json_says_parent_step_and_place(family: Path, call: Call) -> None:
    told = call("runs", "--tree", "--json").json
    assert [(one["run"], one["kind"], one["parent"], one["forked_at"], one["depth"])
            for one in told] == [
        ("root", "run", None, None, 0),
        ("fork-a", "fork", "root", 2, 1),
        ("fork-aa", "fork", "fork-a", 3, 2),
        ("again", "replay", "root", None, 1),
        ("other", "run", None, None, 0),
    ]  # fmt: skip
    assert told[1]["changed"] == ["stage narrow"]
    flat = {one["run"]: one for one in call("runs", "--json").json}
    assert (flat["fork-a"]["parent"], flat["fork-a"]["forked_at"]) == ("root", 2)
    assert flat["other"]["kind"] == "run"


def test_origins_are_shown_although_the_limit_leaves_them_out(family: Path, call: Call) -> None:
    told = call("runs", "--tree", "--json", "--limit", "1").json
    assert [one["run"] for one in told] == ["root", "fork-a", "fork-aa"]


def test_origin_that_is_gone_is_said_to_be(home: Path, call: Call) -> None:
    write_run(home, "one", DEEDS, opened=fork_of("lost", 2))
    write_run(home, "two", DEEDS, opened=fork_of("lost", 3))
    told = call("runs", "--tree", "--json").json
    assert [(one["run"], one["depth"]) for one in told] == [("lost", 0), ("one", 1), ("two", 1)]
    assert told[0]["state"] == "gone"
    assert call("runs", "--tree").out.splitlines()[1].split()[0] == "lost"


def test_runs_that_come_from_each_other_are_each_shown_once(home: Path, call: Call) -> None:
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self"), ("x", "a")):
        write_run(home, name, DEEDS, opened=fork_of(parent, 2))
    told = call("runs", "--tree", "--json").json
    assert sorted(one["run"] for one in told) == ["a", "b", "c", "self", "x"]


@pytest.mark.parametrize(
    "lineage",
    [5, [], {"run": 7}, {"run": "r", "at": "2"}, {"run": "r", "at": True},
     {"run": "r", "at": 1e300}, {"run": "r", "at": [2]}],
)  # fmt: skip
def test_run_whose_lineage_cannot_be_read_is_named_and_hides_no_other(
    home: Path, call: Call, lineage: object
) -> None:
    write_run(home, "base", DEEDS)
    opened = {"run": "odd", "agent": "a", "lineage": lineage}
    write_records(home, "odd", [("opened", opened, None)])
    said = call("runs", "--tree", "--json")
    assert (said.code, [one["run"] for one in said.json]) == (0, ["base"])
    assert "odd: the first record" in said.err


def test_step_that_no_run_has_is_no_place_of_a_fork(home: Path, call: Call) -> None:
    write_run(home, "odd", DEEDS, opened={"lineage": {"run": "r", "at": -1}})
    told = {one["run"]: one for one in call("runs", "--tree", "--json").json}
    assert told["odd"]["forked_at"] is None


def test_words_of_a_journal_cannot_act_on_the_terminal(home: Path, call: Call) -> None:
    evil = "\x1b[2J\u202e"
    write_run(home, "base", DEEDS)
    opened = {"lineage": {"run": "base", "at": 2}, "kind": evil, "stage": evil, "command": [evil]}
    write_run(home, "evil", DEEDS, opened=opened)
    write_run(home, "lost", DEEDS, opened={"lineage": {"run": evil}})
    said = call("runs", "--tree")
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out


def test_long_line_of_forks_is_drawn_without_running_off_the_screen(home: Path, call: Call) -> None:
    write_run(home, "f0", DEEDS)
    for number in range(1, 40):
        write_run(home, f"f{number}", DEEDS, opened=fork_of(f"f{number - 1}", 2))
    last = call("runs", "--tree").out.splitlines()[-1]
    assert last.lstrip().startswith("(39) f39")
    assert len(last) < 160


def test_tree_without_runs_is_empty(home: Path, call: Call) -> None:
    assert call("runs", "--tree").out == ""
    assert call("runs", "--tree", "--json").json == []


def test_lines_are_in_the_order_of_their_newest_run(home: Path) -> None:
    write_run(home, "old", DEEDS)
    write_run(home, "young", DEEDS)
    write_run(home, "newest", DEEDS, opened=fork_of("old", 2))
    with RunIndex(home / "index.sqlite") as index:
        index.update_all(Home(home).runs)
        names = [one.name for one in branches(index.runs(), index)]
    assert names == ["old", "newest", "young"]
