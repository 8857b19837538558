"""Reading a journal back: events, steps, torn ends, journals that are still written."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import START, Covered, RunLog, Spot
from paddock.journal.writer import Journal, Rhythm
from paddock.model.action import Verdict
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.events import (
    Answered,
    Asked,
    Closed,
    Head,
    Marked,
    Opened,
    ProgramStarted,
    Proposed,
    Record,
    Settled,
)
from unit.journal.conftest import OPENED, Opener, decided, proposed, settled, write_steps


def test_records_come_back_in_order_over_all_segments(closed_run: Path) -> None:
    records = list(RunLog(closed_run).events())
    assert [record.n for record in records] == list(range(len(records)))
    assert isinstance(records[0].event, Opened)
    assert [type(record.event) for record in records[-2:]] == [Closed, Head]


def test_only_events_of_the_wanted_types_come_back_each_with_its_place(closed_run: Path) -> None:
    log = RunLog(closed_run)
    records = list(log.events(Proposed, Settled))
    assert [type(record.event) for record in records] == [Proposed, Settled] * 6
    spots = [spot for spot, _, _ in log.scan(START)]
    assert [log.record_at(spot) for spot in spots] == list(log.events())
    last = records[-2]
    assert list(log.events(Proposed, since=spots[last.n])) == [last]
    assert list(log.events(Asked)) == []


def test_first_event_says_which_run_it_is(closed_run: Path) -> None:
    log = RunLog(closed_run)
    assert (log.opened.run, log.opened.agent) == (OPENED.run, OPENED.agent)
    assert log.opening.n == 0
    assert log.opening.event is log.opened


def test_journal_that_begins_with_another_event_opens_no_run(closed_run: Path) -> None:
    path = closed_run / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(IntegrityError, match="does not open a run"):
        _ = RunLog(closed_run).opened


def test_step_has_all_records_of_one_action(closed_run: Path) -> None:
    log = RunLog(closed_run)
    step = log.step(4)
    assert step.arguments["query"] == "ticket 4"
    assert step.verdict is Verdict.ALLOW
    assert step.result == {"number": 4}
    assert [event.program for event in step.events(ProgramStarted)] == ["/bin/cat"]
    assert step.asked is step.answered is None
    assert [one.number for one in log.steps()] == log.step_numbers() == list(range(6))


def test_steps_that_run_at_the_same_time_are_told_apart(opener: Opener) -> None:
    journal = opener()
    numbers = (1, 2)
    for step in numbers:
        journal.append(proposed(step), step)
    for step in numbers:
        journal.append(decided(why=f"of {step}"), step)
    for step in numbers:
        journal.append(Asked(f"approval of {step}", None), step)
    for step in numbers:
        journal.append(Answered(f"approval of {step}"), step)
    for step in numbers:
        journal.append(settled({"of": step}), step)
    for one in RunLog(journal.directory).steps():
        assert len(one.records) == 5
        assert one.arguments["query"] == f"ticket {one.number}"
        assert one.why == f"of {one.number}"
        assert one.asked is not None and one.answered is not None
        assert one.asked.approval == one.answered.approval == f"approval of {one.number}"
        assert one.result == {"of": one.number}


def test_decision_that_was_made_again_is_the_one_that_counts(opener: Opener) -> None:
    journal = opener()
    for verdict in ("ask", "allow"):
        journal.append(decided(verdict), 1)
    assert RunLog(journal.directory).step(1).verdict is Verdict.ALLOW


def test_journal_is_read_while_it_is_written(opener: Opener) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=1500))
    log = RunLog(journal.directory)
    for step in range(6):
        write_steps(journal, 1, first=step)
        assert log.step_numbers()[-1] == step
        assert log.step(step).settled is not None


def test_follower_gets_every_record_until_the_run_is_closed(opener: Opener) -> None:
    journal = opener()
    followed: list[Record] = []
    follower = threading.Thread(
        target=lambda: followed.extend(RunLog(journal.directory).follow(START))
    )
    follower.start()
    write_steps(journal, 3)
    journal.close()
    follower.join(30)
    assert [record.n for record in followed] == list(range(len(followed)))
    assert isinstance(followed[-1].event, Closed)


def test_follower_of_a_run_that_nobody_writes_any_more_ends(opener: Opener) -> None:
    journal = opener()
    write_steps(journal, 1)
    journal.abandon()
    records = list(RunLog(journal.directory).follow())
    assert records == list(RunLog(journal.directory).events())


def test_torn_end_is_passed_over(closed_run: Path) -> None:
    whole = len(list(RunLog(closed_run).events()))
    last = sorted(closed_run.glob("*.jsonl"))[-1]
    with open(last, "ab") as file:
        file.write(b'{"after":"0123')
    assert len(list(RunLog(closed_run).events())) == whole


def test_damage_before_the_end_is_an_error_with_its_place(closed_run: Path) -> None:
    path = closed_run / "000002.jsonl"
    path.write_bytes(b"damage\n" + path.read_bytes())
    with pytest.raises(IntegrityError, match=r"000002\.jsonl, byte 0"):
        list(RunLog(closed_run).events())


def test_step_that_is_not_there_is_said_to_be_missing(closed_run: Path) -> None:
    with pytest.raises(NotFound, match="no step 99"):
        RunLog(closed_run).step(99)


def test_directory_without_a_journal_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InvalidInput):
            RunLog(place)


def test_last_head_is_the_one_that_closed_the_run(opener: Opener) -> None:
    journal = opener()
    head = journal.close()
    assert RunLog(journal.directory).last_head() == head


def test_last_head_of_a_log_is_one_that_is_covered(closed_run: Path, key: SigningKey) -> None:
    heads = list(RunLog(closed_run).events(Head))
    leaves = bytearray()
    verify(closed_run, key.public, leaves=leaves)
    covered = Covered(bytes(leaves), heads[2].n + 1)
    assert RunLog(closed_run, covered).last_head() == heads[2].event


def test_page_has_the_wanted_steps_with_what_is_near_their_beginning(opener: Opener) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=3000))
    journal.append(proposed(0), 0)
    write_steps(journal, 200, first=1)
    journal.append(settled(), 0)
    log = RunLog(journal.directory)
    spots: dict[int, Spot] = {}
    for spot, _, (_, step, tag) in log.scan(START):
        if step is not None and tag == b"proposed":
            spots[step] = spot
    page = log.page({number: spots[number] for number in (0, 3, 100)})
    assert [step.number for step in page] == [0, 3, 100]
    assert page[0].settled is None  # it comes too late
    assert [step.records for step in page[1:]] == [log.step(3).records, log.step(100).records]
    assert log.step_from(0, spots[0]).records == log.step(0).records


def test_listeners_of_the_writer_get_what_a_reader_gets(opener: Opener) -> None:
    journal = opener()
    told: list[Record] = []
    journal.listeners.append(told.append)
    write_steps(journal, 2)
    journal.append(Marked("long " * 5000))
    journal.close()
    assert told == list(RunLog(journal.directory).events())[2:]  # `opened` and its head came before


def _large_step(journal: Journal) -> dict[str, Any]:
    arguments = {"rows": [f"row {number}" for number in range(9000)]}
    journal.append(proposed(1, arguments=arguments), 1)
    journal.append(settled({"body": "x" * 50_000}), 1)
    return arguments


def test_whole_step_has_all_its_large_values(opener: Opener) -> None:
    journal = opener()
    arguments = _large_step(journal)
    log = RunLog(journal.directory)
    step = log.step(1)
    assert step.arguments == {}
    assert len(step.result["body"]) < 2000
    whole = log.whole_step(step)
    assert (whole.arguments, whole.result) == (arguments, {"body": "x" * 50_000})
    assert [record.n for record in whole.records] == [record.n for record in step.records]
    assert log.whole_step(whole).records == whole.records
