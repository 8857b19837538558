"""The index over many journals: built, kept up to date, shared, thrown away and built again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.journal.index.index import RunIndex
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal, Rhythm
from paddock.model.errors import NotFound
from paddock.model.events import Proposed, RefusedAgain
from unit.journal.conftest import OPENED, Opener, decided, proposed, settled, write_steps

UPDATE = """
import sys
from pathlib import Path
from paddock.journal.index.index import RunIndex
with RunIndex(Path(sys.argv[1])) as index:
    sys.stdin.readline()
    for _ in range(5):
        assert index.update_all(Path(sys.argv[2])) == []
"""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RunIndex]:
    with RunIndex(tmp_path / "index" / "index.db") as index:
        yield index


def test_run_is_listed_with_its_counts(opener: Opener, index: RunIndex) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=1500))
    write_steps(journal, 5)
    journal.append(decided("block", decided_by="no"), 9)
    journal.append(settled(outcome="refused"), 9)
    assert index.update(journal.directory) == journal.position + 1
    run = index.run("run-1")
    assert (run.agent, run.stage, run.policy_digest) == ("support-bot", "draft", "p" * 64)
    assert (run.state, run.ended_at, run.steps) == ("open", None, 6)
    assert run.verdicts == {"allow": 5, "block": 1}
    assert run.outcomes == {"done": 5, "refused": 1}
    assert run.records == journal.position + 1
    assert index.runs() == [run]


def test_refusals_that_are_only_counted_are_in_the_counts(opener: Opener, index: RunIndex) -> None:
    journal = opener()
    journal.append(decided("block"), 1)
    journal.append(settled(outcome="refused"), 1)
    journal.append(RefusedAgain(40, 1, 2), 1)
    index.update(journal.directory)
    journal.append(RefusedAgain(2, 3, 4), 1)
    index.update(journal.directory)
    run = index.run("run-1")
    assert (run.steps, run.verdicts, run.outcomes) == (1, {"block": 43}, {"refused": 43})


@pytest.mark.parametrize(
    ("result", "exit_code"),
    [({"exit_code": 3}, 3), ({"exit_code": 2**40}, None), ({"exit_code": True}, None), ("3", None)],
)
def test_exit_code_of_the_agent_is_that_of_its_run(
    opener: Opener, index: RunIndex, result: Any, exit_code: int | None
) -> None:
    journal = opener()
    journal.append(settled(result), 1)
    journal.append(settled({"exit_code": 9}), 2)
    index.update(journal.directory)
    assert index.run("run-1").exit_code == exit_code


@pytest.mark.parametrize("line", [b"at", b"step", b"body"])
def test_record_that_another_program_wrote_does_not_stop_the_index(
    opener: Opener, index: RunIndex, line: bytes
) -> None:
    """The end of a line names a step and a type, and what stands before it may say otherwise."""
    journal = opener()
    journal.append(proposed(1), 1)
    journal.abandon()
    forged = {
        b"at": b'{"after":"x","at":"soon","body":{},"n":3,"step":7,"type":"proposed"}',
        b"step": b'{"after":"x","at":1,"body":{},"step":7,"n":3,"type":"proposed"}',
        b"body": b'{"after":"x","at":1,"body":{"kind":7},"n":3,"step":7,"type":"proposed"}',
    }[line]
    with open(journal.directory / "000001.jsonl", "ab") as file:
        file.write(forged + b"\n")
    troubles = index.update_all(journal.directory.parent)
    if line == b"at":
        assert "not a record of a journal" in troubles[0]
    else:
        assert troubles == []
        assert index.step("run-1", 1).name == "search"


def test_step_is_found_and_its_place_in_the_journal_is_right(
    opener: Opener, index: RunIndex
) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=1500))
    write_steps(journal, 8)
    index.update(journal.directory)
    step = index.step("run-1", 6)
    assert (step.kind, step.name, step.effect) == ("tool", "search", "read")
    assert (step.verdict, step.rule, step.outcome) == ("allow", "reads", "done")
    read = RunLog(journal.directory).step(6)
    assert RunLog(journal.directory).record_at(step.spot) == read.record(Proposed)
    assert (step.at, step.duration_us) == (read.at, read.waited_us)


def test_only_what_is_new_is_read(opener: Opener, index: RunIndex) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=1500))
    index.update(journal.directory)
    for step in range(6):
        before = journal.position
        journal.append(proposed(step, name="a"), step)
        assert index.update(journal.directory) == journal.position - before
        assert index.step("run-1", step).duration_us is None
        journal.append(settled(), step)
        index.update(journal.directory)
        assert index.step("run-1", step).duration_us is not None
        assert index.step("run-1", step).name == "a"
    assert index.update(journal.directory) == 0
    journal.close()
    index.update(journal.directory)
    assert index.run("run-1").state == "closed"


def test_steps_come_in_pages_and_by_verdict(opener: Opener, index: RunIndex) -> None:
    journal = opener()
    write_steps(journal, 25)
    journal.append(decided("block"), 30)
    index.update(journal.directory)
    first = index.steps("run-1", limit=10)
    second = index.steps("run-1", limit=10, after=first[-1].step)
    assert [step.step for step in first + second] == list(range(20))
    assert [step.step for step in index.steps("run-1", verdict="block")] == [30]
    assert index.steps("nowhere") == []


def test_rebuilt_index_is_the_same_as_one_that_was_kept_up_to_date(
    opener: Opener, index: RunIndex, tmp_path: Path
) -> None:
    for number in range(3):
        journal = opener(f"runs/{number}", opened=replace(OPENED, run=f"run-{number}"))
        write_steps(journal, 3 + number)
        index.update(journal.directory)
        write_steps(journal, 2, first=50)
        if number:
            journal.close()
        index.update(journal.directory)
    runs = index.runs()
    steps = [index.steps(run.run) for run in runs]
    assert index.rebuild(tmp_path / "runs") == []
    assert index.runs() == runs
    assert [index.steps(run.run) for run in runs] == steps


def test_index_that_is_damaged_or_of_another_version_is_made_anew(
    opener: Opener, tmp_path: Path
) -> None:
    journal = opener("runs/a")
    path = tmp_path / "index.db"
    for damage in (b"this is not a database at all" * 100, None):
        if damage is not None:
            path.write_bytes(damage)
        else:
            import sqlite3

            with sqlite3.connect(path) as db:
                db.execute("PRAGMA user_version = 99")
            db.close()
        with RunIndex(path) as index:
            assert index.runs() == []
            index.update_all(tmp_path / "runs")
            assert [run.run for run in index.runs()] == [journal.run]


def test_journal_that_was_put_in_the_place_of_another_is_read_from_its_beginning(
    opener: Opener, index: RunIndex, key: SigningKey
) -> None:
    journal = opener("a")
    write_steps(journal, 10)
    index.update(journal.directory)
    journal.abandon()
    shutil.rmtree(journal.directory)
    other = opener("a", opened=replace(OPENED, run="other"))
    index.update(other.directory)
    assert [run.run for run in index.runs()] == ["other"]
    with pytest.raises(NotFound):
        index.run("run-1")


def test_run_that_vanished_is_forgotten_and_one_that_moved_is_found(
    opener: Opener, index: RunIndex, tmp_path: Path
) -> None:
    journal = opener("runs/a")
    journal.close()
    index.update_all(tmp_path / "runs")
    journal.directory.rename(tmp_path / "runs" / "b")
    assert index.update_all(tmp_path / "runs") == []
    assert index.run("run-1").directory.endswith("/b")
    shutil.rmtree(tmp_path / "runs" / "b")
    index.update_all(tmp_path / "runs")
    assert index.runs() == []


def test_copy_of_a_run_is_reported_and_not_mixed_up(
    opener: Opener, index: RunIndex, tmp_path: Path
) -> None:
    opener("runs/a").close()
    shutil.copytree(tmp_path / "runs" / "a", tmp_path / "runs" / "b")
    (trouble,) = index.update_all(tmp_path / "runs")
    assert "indexed already" in trouble
    assert len(index.runs()) == 1


def test_damaged_journal_does_not_keep_others_from_being_indexed(
    opener: Opener, index: RunIndex, tmp_path: Path
) -> None:
    for name in "abc":
        opener(f"runs/{name}", opened=replace(OPENED, run=name)).close()
    segment = tmp_path / "runs" / "b" / "000001.jsonl"
    segment.write_bytes(b"damage\n" + segment.read_bytes())
    (tmp_path / "runs" / "d").mkdir()
    (tmp_path / "runs" / "d" / "000001.jsonl").write_bytes(b"")
    troubles = index.update_all(tmp_path / "runs")
    assert [run.run for run in index.runs()] == ["c", "a"]
    assert len(troubles) == 1


def test_several_processes_and_threads_keep_one_index(
    opener: Opener, index: RunIndex, tmp_path: Path
) -> None:
    journals = [opener(f"runs/{n}", opened=replace(OPENED, run=f"run-{n}")) for n in range(4)]
    for journal in journals:
        write_steps(journal, 40)
    command = [sys.executable, "-c", UPDATE, str(index.path), str(tmp_path / "runs")]
    others = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(3)]
    threads = [threading.Thread(target=index.update_all, args=(tmp_path / "runs",)) for _ in "ab"]
    for thread in threads:
        thread.start()
    for other in others:
        other.communicate(b"go\n", timeout=60)
    for thread in threads:
        thread.join()
    assert [other.returncode for other in others] == [0, 0, 0]
    index.update_all(tmp_path / "runs")
    for run, journal in zip(sorted(r.run for r in index.runs()), journals, strict=True):
        row = index.run(run)
        assert (row.records, row.steps) == (journal.position + 1, 40)
        assert row.verdicts == {"allow": 40}


def test_recovered_run_is_open_again(opener: Opener, index: RunIndex, key: SigningKey) -> None:
    journal = opener()
    journal.close()
    segment = journal.directory / "000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:-1]))
    index.update(journal.directory)
    assert index.run("run-1").state == "closed"
    again = Journal.recover(journal.directory, key=key)
    index.update(journal.directory)
    assert index.run("run-1").state == "open"
    again.abandon()


def test_index_is_for_its_owner_only(index: RunIndex) -> None:
    assert index.path.stat().st_mode & 0o777 == 0o600
