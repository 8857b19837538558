"""Every format that was ever written is still read and verified, from files that never change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from paddock.journal.export import Format, export
from paddock.journal.findings import Status
from paddock.journal.heads import Head
from paddock.journal.index import Index
from paddock.journal.keys import PublicKey
from paddock.journal.prove import check_proof, is_complete, prove
from paddock.journal.reader import Reader
from paddock.journal.records import Type
from paddock.journal.verify import verify

FORMATS = sorted((Path(__file__).resolve().parents[2] / "journals").glob("v*"))
V1 = FORMATS[0]


def _key(place: Path) -> PublicKey:
    return PublicKey.load(place / "journal.pub")


def _head(place: Path) -> Head:
    return Head.parse(json.loads((place / "head.json").read_text()))


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


def test_proofs_are_complete_since_the_second_format() -> None:
    assert [is_complete(prove(place / "run", 1)) for place in FORMATS] == [False, True]


def test_first_format_has_every_type_of_record_and_reads_as_it_was_meant() -> None:
    reader = Reader(V1 / "run")
    assert {record.type for record in reader.records()} == set(Type)
    assert reader.opened().body["format"] == 1
    asked = reader.step(2)
    assert asked.proposed is not None and asked.answered is not None and asked.settled is not None
    assert asked.proposed.body["arguments"]["authorization"] == "Bearer {{secret:PAYMENTS_KEY}}"
    assert asked.answered.body["by"] == "ann"
    report = reader.step(3).settled
    assert report is not None
    assert reader.body(report)["result"]["stdout"] == "line of a long report\n" * 1200
    first = reader.step(1)
    assert first.proposed is not None and first.settled is not None
    assert first.proposed.body["arguments"]["query"] == "Lieferung verspätet 📦"
    assert first.settled.body["result"] == [{"id": "t-1", "score": 0.75}]
    recovered = next(record for record in reader.records() if record.type is Type.RECOVERED)
    assert recovered.body["cut_bytes"] == 23


def test_first_format_can_be_proved_exported_and_indexed(tmp_path: Path) -> None:
    assert check_proof(prove(V1 / "run", 2), _key(V1))[0].step == 2
    for form in Format:
        assert "".join(export(V1 / "run", form))
    with Index(tmp_path / "index.db") as index:
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
