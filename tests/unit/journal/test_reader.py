"""Reading a journal back: records, steps, torn ends, journals that are still written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import for_each
from paddock.journal.keys import SigningKey
from paddock.journal.reader import Reader
from paddock.journal.records import Record, Type
from paddock.journal.writer import Rhythm
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from unit.journal.conftest import Opener, write_steps


def test_records_come_back_in_order_over_all_segments(closed_run: Path) -> None:
    records = list(Reader(closed_run).records())
    assert [record.n for record in records] == list(range(len(records)))
    assert records[0].type is Type.OPENED
    assert [record.type for record in records[-2:]] == [Type.CLOSED, Type.HEAD]


def test_step_has_all_records_of_one_action(closed_run: Path) -> None:
    reader = Reader(closed_run)
    step = reader.step(4)
    assert step.proposed is not None and step.decided is not None and step.settled is not None
    assert step.proposed.body["arguments"]["query"] == "ticket 4"
    assert step.settled.body["result"] == {"number": 4}
    assert len(step.observed) == 1
    assert step.asked is step.answered is None
    assert [one.number for one in reader.steps()] == reader.step_numbers() == list(range(6))


def test_steps_that_run_at_the_same_time_are_told_apart(opener: Opener) -> None:
    journal = opener()
    for kind in (Type.PROPOSED, Type.DECIDED, Type.ASKED, Type.ANSWERED, Type.SETTLED):
        for step in (1, 2):
            journal.append(kind, {"of": step}, step)
    for step in Reader(journal.directory).steps():
        assert [record.body["of"] for record in step.records] == [step.number] * 5


def test_decision_that_was_made_again_is_the_one_that_counts(opener: Opener) -> None:
    journal = opener()
    for verdict in ("ask", "allow"):
        journal.append(Type.DECIDED, {"verdict": verdict}, 1)
    decided = Reader(journal.directory).step(1).decided
    assert decided is not None
    assert decided.body["verdict"] == "allow"


def test_journal_is_read_while_it_is_written(opener: Opener) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=1500))
    reader = Reader(journal.directory)
    for step in range(6):
        write_steps(journal, 1, first=step)
        assert reader.step_numbers()[-1] == step
        assert reader.step(step).settled is not None


def test_torn_end_is_passed_over(closed_run: Path) -> None:
    whole = len(list(Reader(closed_run).records()))
    last = sorted(closed_run.glob("*.jsonl"))[-1]
    with open(last, "ab") as file:
        file.write(b'{"after":"0123')
    assert len(list(Reader(closed_run).records())) == whole


def test_damage_before_the_end_is_an_error_with_its_place(closed_run: Path) -> None:
    path = closed_run / "000002.jsonl"
    path.write_bytes(b"damage\n" + path.read_bytes())
    with pytest.raises(IntegrityError, match=r"000002\.jsonl, byte 0"):
        list(Reader(closed_run).records())


def test_step_that_is_not_there_is_said_to_be_missing(closed_run: Path) -> None:
    with pytest.raises(NotFound, match="no step 99"):
        Reader(closed_run).step(99)


def test_directory_without_a_journal_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InvalidInput):
            Reader(place)


def test_last_head_is_the_one_that_closed_the_run(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    head = journal.close()
    assert Reader(journal.directory).last_head() == head


@for_each(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b'{"n":1}',
        b'{"after":"a","at":-1,"body":{},"n":1,"type":"noted"}',
        b'{"after":"a","at":1,"body":[],"n":1,"type":"noted"}',
        b'{"after":"a","at":1,"body":{},"n":1,"type":"rumour"}',
        b'{"after":"a","at":1,"blobs":[{}],"body":{},"n":1,"type":"noted"}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_line_that_is_no_record_is_an_integrity_error(line: bytes) -> None:
    with pytest.raises(IntegrityError):
        Record.parse(line)
