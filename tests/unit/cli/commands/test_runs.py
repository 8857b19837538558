"""`paddock runs` and `paddock reindex`, over real journals."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.cli.render.runs import run_table
from paddock.journal.index.index import RunIndex
from paddock.policy.file import load
from unit.cli.conftest import Call
from unit.cli.past import begin_run, make_run, search
from unit.run.compare.journeys import fork_of, tool, write_run


def test_runs_are_listed_newest_first_with_what_was_not_ordinary(home: Path, call: Call) -> None:
    make_run(home, "older")
    make_run(home, "newer", [search("x")])
    said = call("runs")
    assert said.code == 0
    header, first, second = said.out.splitlines()
    assert header.split() == ["ID", "WHAT", "STARTED", "TOOK", "STEPS", "EXIT", "OUTCOMES",
                              "COMMAND"]  # fmt: skip
    assert first.startswith("newer  run ")
    assert first.endswith("1      -     -                     -")
    assert "4      -     refused 1, drafted 1  -" in second


def test_a_run_is_found_by_its_command_its_end_and_its_origin(home: Path, call: Call) -> None:
    write_run(home, "root-of-all", [tool("x")], exit_code=3)
    write_run(home, "other", [tool("x")], opened={"command": ["sh", "-c", "echo 'a b'"]})
    write_run(home, "fork", [tool("x")], opened=fork_of("root-of-all", 2), is_closed=False)
    found = {line.split()[0]: line for line in call("runs").out.splitlines()}
    assert found["root-of-all"].split()[-4:] == ["3", "-", "python", "agent.py"]
    assert found["other"].endswith("""sh -c 'echo '"'"'a b'"'"''""")
    assert " fork of root-o " in found["fork"] and " interrupted " in found["fork"]
    told = {one["run"]: one for one in call("runs", "--json").json}
    assert (told["root-of-all"]["exit_code"], told["other"]["exit_code"]) == (3, 0)
    assert told["root-of-all"]["command"] == "python agent.py"


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_the_table_is_no_wider_than_the_terminal(home: Path, call: Call, width: int) -> None:
    long = ["python", "-m", "agent", "x" * 300]
    write_run(home, "one", [tool("x")] * 3, opened={"command": long})
    write_run(home, "two", [], opened={"command": long, "agent": "b", **fork_of("one", 2)})
    with RunIndex(home / "index.sqlite") as index:
        index.update_all(home / "runs")
        shown = run_table(index.runs(), width).splitlines()
    assert max(map(len, shown)) <= width and len(shown) == 3
    assert ("python -m" in shown[1]) == (width >= 60)


def test_outcomes_are_whole_in_a_terminal_of_80_columns(home: Path) -> None:
    deeds = [replace(tool("x"), outcome=one) for one in ("refused", "failed")]
    write_run(home, "one", deeds, opened={"command": ["python", "agent.py", "--all-of-them"]})
    with RunIndex(home / "index.sqlite") as index:
        index.update_all(home / "runs")
        shown = run_table(index.runs(), 80)
    assert "failed 1, refused 1" in shown or "refused 1, failed 1" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_run_says_whether_it_runs_ended_or_has_no_end(home: Path, call: Call) -> None:
    make_run(home, "closed")
    crashed = begin_run(home, "crashed")
    crashed.abandon()
    running = begin_run(home, "alive")
    try:
        states = {run["run"]: run["state"] for run in call("runs", "--json").json}
    finally:
        running.abandon()
    assert states == {"closed": "ended", "crashed": "interrupted", "alive": "running"}


def test_asked_actions_are_counted(home: Path, call: Call) -> None:
    asks = "{id: all, match: {kind: tool}, decide: ask, why: x}"
    text = (
        f"version: 1\nagent: a\nstage: broad\ntools: {{search: {{effect: read}}}}\nrules: [{asks}]"
    )
    make_run(home, "r", [search("x")], policy=load(text + "\napprovals: {timeout: 1s}"))
    [run] = call("runs", "--json").json
    assert run["verdicts"] == {"ask": 1}
    assert "refused 1, asked 1" in call("runs").out


def test_runs_are_chosen_by_agent_time_and_number(home: Path, call: Call) -> None:
    other = load(
        "version: 1\nagent: other\nstage: observe\ntools: {search: {effect: read}}\nrules: []"
    )
    make_run(home, "one")
    make_run(home, "two")
    make_run(home, "three", [search("x")], policy=other)

    def names(*words: str) -> list[str]:
        return [run["run"] for run in call("runs", "--json", *words).json]

    assert names() == ["three", "two", "one"]
    assert names("--agent", "support-bot") == ["two", "one"]
    assert names("--agent", "nobody") == []
    assert names("--limit", "1") == ["three"]
    assert names("--since", "1h") == ["three", "two", "one"]
    assert names("--since", "2999-01-01") == []
    assert names("--since", "2020-01-01T10:00", "--agent", "other") == ["three"]


def test_only_the_newest_are_listed_and_how_many_more_there_are_is_said(
    home: Path, call: Call
) -> None:
    for number in range(22):
        begin_run(home, f"r{number:02}").close()
    listed = call("runs")
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == [
        f"r{number:02}" for number in range(21, 1, -1)
    ]
    assert listed.err == "paddock: 2 older runs not shown: --all, or -n N\n"
    assert len(call("runs", "--json").json) == 20
    for words in (["--all"], ["-n", "22"]):
        said = call("runs", "--json", *words)
        assert (len(said.json), said.err) == (22, "")
    said = call("runs", "-n", "21")
    assert (len(said.out.splitlines()), said.err) == (22, "")


def test_one_of_a_kind_is_not_said_to_be_many(home: Path, call: Call) -> None:
    make_run(home, "r", [search("x")])
    assert call("reindex").out == "1 run, 1 step\n"
    assert "it has 1 step\n" in call("show", "r", "--step", "9").err
    assert "\n1 step in " in call("replay", "r").out
    make_run(home, "s", [search("x"), search("y")])
    assert call("reindex").out == "2 runs, 3 steps\n"
    assert "\n2 steps in " in call("replay", "s").out


def test_empty_home_has_no_runs_and_that_is_no_error(home: Path, call: Call) -> None:
    assert call("runs") == call("runs", "--agent", "a")
    assert (call("runs").code, call("runs").out) == (0, "")
    assert call("runs", "--json").json == []


def test_damaged_journal_is_told_and_hides_no_other(home: Path, call: Call) -> None:
    make_run(home, "good")
    bad = make_run(home, "bad") / "000001.jsonl"
    bad.write_bytes(b"not a record\n" + bad.read_bytes())
    said = call("runs", "--json")
    assert [run["run"] for run in said.json] == ["good"]
    assert said.err.startswith("paddock: ")
    assert "runs/bad" in said.err
    assert call("reindex").code == 1
    assert len(call("reindex", "--json").json["troubles"]) == 1


@pytest.mark.parametrize("word", ["soon", "", "-1h", "2026-13-01", "9" * 30])
def test_time_that_is_none_is_refused_with_what_to_write(word: str, home: Path, call: Call) -> None:
    said = call("runs", f"--since={word}")
    assert said.code == (0 if not word else 2)
    assert not word or said.err.startswith("paddock: --since: ")


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5", "9" * 30, "٣"])
def test_number_that_is_none_is_refused(word: str, home: Path, call: Call) -> None:
    said = call("runs", f"--limit={word}")
    assert said.code == 2
    assert "--limit" in said.err


def test_index_is_built_again_from_the_journals(home: Path, call: Call) -> None:
    make_run(home, "one")
    make_run(home, "two")
    before = call("runs", "--json").json
    with sqlite3.connect(home / "index.sqlite") as db:
        db.execute("DELETE FROM steps")
        db.execute("UPDATE runs SET agent = 'forged'")
    db.close()
    assert call("reindex").out == "2 runs, 8 steps\n"
    assert call("runs", "--json").json == before


def test_run_that_was_removed_is_forgotten(home: Path, call: Call) -> None:
    make_run(home, "one")
    shutil.rmtree(make_run(home, "two"))
    assert [run["run"] for run in call("runs", "--json").json] == ["one"]


def test_index_that_cannot_be_used_is_a_sentence(home: Path, call: Call) -> None:
    make_run(home, "one")
    (home / "index.sqlite").mkdir()
    said = call("runs")
    assert said.code == 3
    assert said.err.startswith("paddock: the index of runs cannot be used")


def test_index_that_is_no_database_is_made_anew(home: Path, call: Call) -> None:
    make_run(home, "one")
    (home / "index.sqlite").write_bytes(b"no database" * 1000)
    assert [run["run"] for run in call("runs", "--json").json] == ["one"]
