"""Many forks at once: what is said while they go on, and of those that are over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unit.cli.conftest import Call
from unit.cli.terminals import INTERRUPT, in_terminal


@pytest.fixture
def project(home: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    assert call("run", "-q", "--", "sh", "-c", "env true; env sleep 0.7; true").code == 0
    return place


def test_each_fork_that_is_over_is_told_with_a_counter(project: Path, call: Call) -> None:
    said = call("fork", "last", "--at", "3", "-n", "2")

    assert said.code == 0, said.err
    told = re.findall(r"^paddock: fork (\d) of 2: (\w+), exit code 0$", said.err, re.M)
    assert [number for number, _ in told] == ["1", "2"]
    assert all(run in said.out for _, run in told)


def test_fork_with_one_fault_alone_is_told_with_it(project: Path, call: Call) -> None:
    faults = [f"{{id: {name}, match: {{kind: http}}, fault: {{status: 500}}}}" for name in "ab"]
    words = [word for fault in faults for word in ("--each-fault", fault)]
    said = call("fork", "last", "--at", "3", *words)

    assert set(re.findall(r"^paddock: fork \d of 2, fault (\w): ", said.err, re.M)) == {"a", "b"}


def test_forks_for_programs_say_nothing_on_the_way(project: Path, call: Call) -> None:
    said = call("fork", "last", "--at", "3", "-n", "2", "--json")

    assert said.err == ""
    assert len(said.json["runs"]) == 3


def test_interrupt_gives_the_table_of_what_is_done(home: Path, project: Path) -> None:
    words = ["fork", "last", "--at", "3", "-n", "20", "-j", "1"]
    # Not before the line is complete: the terminal echoes the key into the middle of it.
    shown, code = in_terminal(words, project, home, INTERRUPT, when=b"1 of 20 forks are over")

    assert code == 130, shown
    assert "0 of 20 forks are over" in shown
    done = re.findall(r"fork \d+ of 20: (\w+), exit code 0\r\n", shown)
    assert 0 < len(done) < 20  # on a busy machine the key takes its time
    table = shown.rpartition("forks are over")[2]
    assert all(run in table for run in done), shown


def test_hundreds_of_forks_are_made_only_when_that_is_said(project: Path, call: Call) -> None:
    said = call("fork", "last", "--at", "3", "-n", "201")

    assert said.code == 2
    assert "201 forks" in said.err
    assert "--yes" in said.err
