"""Every format that was ever written is still read and verified, from files that never change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from paddock.journal.codec import decode, encode
from paddock.journal.conversations import conversation_of
from paddock.journal.export.formats import Format, export
from paddock.journal.index.index import RunIndex
from paddock.journal.integrity.findings import Status
from paddock.journal.integrity.heads import parse_head
from paddock.journal.integrity.keys import PublicKey
from paddock.journal.integrity.proof import check_proof, is_complete, prove
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.events import Head, Recovered, Unknown

FORMATS = sorted((Path(__file__).resolve().parents[2] / "journals").glob("v*"))
V1, _, V3 = FORMATS


def _key(place: Path) -> PublicKey:
    return PublicKey.load(place / "journal.pub")


def _head(place: Path) -> Head:
    return parse_head(json.loads((place / "head.json").read_text()))


@pytest.mark.parametrize("place", FORMATS, ids=lambda place: place.name)
def test_journal_of_this_format_verifies_against_its_saved_head(place: Path) -> None:
    report = verify(place / "run", _key(place), expected_head=_head(place), expect_closed=True)
    assert report.ok, report
    assert report.head == _head(place)
    assert report.blobs > 0
    assert report.segments > 1


@pytest.mark.parametrize("place", FORMATS, ids=lambda place: place.name)
def test_a_run_of_this_format_that_ended_has_ended(place: Path) -> None:
    assert verify(place / "run", _key(place)).status is Status.ENDED


@pytest.mark.parametrize("place", FORMATS, ids=lambda place: place.name)
def test_every_line_of_this_format_is_a_record_that_can_be_read_whole(place: Path) -> None:
    log = RunLog(place / "run")
    records = [log.whole(record) for record in log.events()]
    assert [record.n for record in records] == list(range(len(records)))
    assert sum(len(step.records) for step in log.steps()) == sum(
        record.step is not None for record in records
    )


def test_proofs_are_complete_since_the_second_format() -> None:
    assert [is_complete(prove(place / "run", 1)) for place in FORMATS] == [False, True, True]


def test_first_format_has_every_type_of_record_and_reads_as_it_was_meant() -> None:
    log = RunLog(V1 / "run")
    assert {json.loads(line)["type"] for line in log.lines()} == {
        "opened", "proposed", "decided", "asked", "answered", "settled", "observed", "noted",
        "head", "recovered", "closed",
    }  # fmt: skip
    assert log.opened.format == 1
    asked = log.step(2)
    assert asked.arguments["authorization"] == "Bearer {{secret:PAYMENTS_KEY}}"
    assert asked.answered is not None
    assert asked.answered.by == "ann"
    report = log.whole_step(log.step(3))
    assert report.result["stdout"] == "line of a long report\n" * 1200
    first = log.step(1)
    assert first.arguments["query"] == "Lieferung verspätet 📦"
    assert first.settled is not None
    assert first.settled.result == [{"id": "t-1", "score": 0.75}]
    (recovered,) = log.events(Recovered)
    assert isinstance(recovered.event, Recovered)
    assert recovered.event.cut_bytes == 23


def test_every_field_of_the_typed_events_keeps_its_name_and_meaning() -> None:
    """The third run has each event with all its fields, and with none but those that it needs."""
    names = set()
    for line in RunLog(V3 / "run").lines():
        record = decode(line)
        assert not isinstance(record.event, Unknown), line
        if not record.blobs:
            assert f'"body":{encode(record.event)},'.encode() in line
            names.add(record.type)
    assert len(names) == 38


def test_typed_events_read_as_they_were_meant() -> None:
    log = RunLog(V3 / "run")
    assert (log.opened.run, log.opened.format) == ("typed-events", 2)
    assert log.opened.lineage is not None
    assert log.opened.lineage.at == 42
    searched = log.whole_step(log.step(90))
    assert searched.arguments == {
        "query": "Lieferung verspätet 📦",
        "authorization": "Bearer {{secret:PAYMENTS_KEY}}",
    }
    assert searched.result == {"stdout": "line of a long report\n" * 1200}
    assert log.step(91).arguments == {}
    assert log.whole_step(log.step(91)).arguments == {"rows": [f"row {n}" for n in range(9000)]}
    said = conversation_of(log, log.step(92).arguments)
    assert said == [{"role": "user", "content": "Hallo " * 2000}]


def test_first_format_can_be_proved_exported_and_indexed(tmp_path: Path) -> None:
    assert check_proof(prove(V1 / "run", 2), _key(V1))[0].step == 2
    for form in Format:
        assert "".join(export(V1 / "run", form))
    with RunIndex(tmp_path / "index.db") as index:
        assert index.update_all(V1) == []
        run = index.run("first-format")
    assert (run.steps, run.state) == (8, "closed")
    assert run.verdicts == {"allow": 2, "ask": 1, "block": 1, "simulate": 4}


def test_change_of_any_hundredth_byte_of_a_copy_is_found(tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(V1 / "run", copy)
    for path in sorted(path for path in copy.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for at in range(0, len(whole), 100):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert not verify(copy, _key(V1)).ok, (path, at)
        path.write_bytes(whole)
    assert verify(copy, _key(V1), expected_head=_head(V1), expect_closed=True).ok
