"""`paddock runs remove`: what goes, what stays, and who is asked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from paddock.cli.commands import runs_remove
from paddock.model.events import FilesRecorded
from paddock.run.files import store_of
from paddock.state.home import Home
from unit.cli.conftest import Call
from unit.cli.past import begin_run
from unit.run.compare.journeys import fork_of, tool, write_run


def names(call: Call) -> set[str]:
    return {one["run"] for one in call("runs", "--json").json}


def with_files(home: Path, run: str, text: str) -> str:
    """A run whose journal notes a tree with one file of this text; all an hour and more ago."""
    files = home / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "shared").write_text("in all of them")
    (files / "own").write_text(text)
    tree = store_of(Home(home)).recorder({"/home": files}).record().tree
    write_run(home, run, [tool("x")], notes=[FilesRecorded(tree, changed=1)])
    long_ago = time.time() - 7200
    for one in (home / "trees" / "objects").glob("*/*"):
        os.utime(one, (long_ago, long_ago))
    return tree


def test_a_run_goes_with_its_world_and_the_files_that_no_other_needs(
    home: Path, call: Call
) -> None:
    gone, left = with_files(home, "gone", "a"), with_files(home, "left", "b")
    for run in ("gone", "left"):
        (home / "worlds" / run).mkdir(parents=True)
        (home / "worlds" / run / "world.json").write_text("{}")
    said = call("runs", "remove", "gone", "--yes", "--json")
    assert said.code == 0 and said.json["removed"] == ["gone"] and said.json["tree_bytes"] > 0
    assert names(call) == {"left"}
    assert os.listdir(home / "worlds") == os.listdir(home / "runs") == ["left"]
    store = store_of(Home(home))
    assert store.verify(left) == 3
    assert not store.objects.has(gone)
    assert not list((home / "cache").glob("removed-*"))


def test_no_file_goes_where_it_is_not_known_who_needs_it(home: Path, call: Call) -> None:
    gone = with_files(home, "gone", "a")
    damaged = write_run(home, "damaged", [tool("x")]) / "000001.jsonl"
    damaged.write_bytes(b"not a record\n" + damaged.read_bytes())
    said = call("runs", "remove", "gone", "--yes")
    assert said.code == 0 and "still there" in said.err
    assert store_of(Home(home)).verify(gone) == 3


def test_one_that_is_going_is_not_removed(home: Path, call: Call) -> None:
    running = begin_run(home, "alive")
    try:
        said = call("runs", "remove", "alive", "--yes")
        assert said.code == 1 and "still going" in said.err
        assert (home / "runs" / "alive" / "000001.jsonl").exists()
    finally:
        running.abandon()
    assert call("runs", "remove", "alive", "--yes").code == 0


def test_what_others_come_from_goes_only_with_them(home: Path, call: Call) -> None:
    write_run(home, "root", [tool("x")])
    write_run(home, "fork", [tool("x")], opened=fork_of("root", 2))
    write_run(home, "fork-2", [tool("x")], opened=fork_of("fork", 2, "root"))
    said = call("runs", "remove", "root", "--yes")
    assert said.code == 1 and "fork comes from it" in said.err
    assert names(call) == {"root", "fork", "fork-2"}
    assert call("runs", "remove", "root", "fork", "--yes").code == 1
    assert call("runs", "remove", "root", "fork", "fork-2", "--yes").out == "removed 3 runs\n"
    assert names(call) == set()


def test_older_ones_go_but_for_those_that_younger_ones_come_from(
    home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("root", "lone"):
        write_run(home, run, [tool("x")])
    write_run(home, "fork", [tool("x")], opened=fork_of("root", 2))
    assert call("runs", "remove", "--older", "30d", "--yes").out == "removed 0 runs\n"
    rows = {one["run"]: one["ended_at"] for one in call("runs", "--json").json}
    monkeypatch.setattr("paddock.cli.render.units.since", lambda *_: rows["fork"])
    said = call("runs", "remove", "--older", "1h", "--yes")
    assert said.out == "removed 1 run\n" and "root stays: fork" in said.err
    assert names(call) == {"root", "fork"}


def test_it_asks_and_no_answer_is_no(
    home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(home, "one", [tool("x")])
    said = call("runs", "remove", "one")
    assert said.code == 2 and "--yes" in said.err
    monkeypatch.setattr(runs_remove, "check_person", lambda *, is_json: None)
    for answer, code in ((b"", 1), (b"n\n", 1), (b"what\n", 1), (b"y\n", 0)):
        assert names(call) == {"one"}
        said = call("runs", "remove", "one", stdin=answer)
        assert said.code == code and "remove 1 run for good?" in said.out
    assert names(call) == set()


@pytest.mark.parametrize("words", [(), ("one", "--older", "1d"), ("--older", "soon"), ("none",)])
def test_what_names_no_run_removes_nothing(home: Path, call: Call, words: tuple[str, ...]) -> None:
    write_run(home, "one", [tool("x")])
    assert call("runs", "remove", "--yes", *words).code != 0
    assert names(call) == {"one"}


def test_a_directory_elsewhere_is_not_removed(home: Path, call: Call, tmp_path: Path) -> None:
    elsewhere = write_run(tmp_path / "other", "one", [tool("x")])
    said = call("runs", "remove", str(elsewhere), "--yes")
    assert said.code == 2 and elsewhere.is_dir()
