"""After a crash: a torn end is cut and noted, and nothing else is ever cut."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.journal.integrity.findings import Status
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal, Rhythm
from paddock.model.errors import Conflict, IntegrityError, InvalidInput
from paddock.model.events import Marked, Opened, Recovered
from unit.journal.conftest import Opener, write_steps


def _recovered(directory: Path) -> Recovered:
    (record,) = RunLog(directory).events(Recovered)
    assert isinstance(record.event, Recovered)
    return record.event


def test_journal_goes_on_after_its_writer_is_gone(opener: Opener, key: SigningKey) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=2000))
    write_steps(journal, 5)
    journal.abandon()
    again = Journal.recover(journal.directory, key=key)
    assert again.run == "run-1"
    write_steps(again, 2, first=5)
    again.close()
    assert verify(journal.directory, key.public, expect_closed=True).ok
    assert RunLog(journal.directory).step_numbers() == list(range(7))
    assert _recovered(journal.directory).cut_bytes == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_torn_end_is_cut_and_the_record_says_what_was_cut(
    key: SigningKey, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("t") / "run"
    journal = Journal.create(directory, opened=Opened("r", "a"), key=key)
    write_steps(journal, 2)
    journal.abandon()
    segment = directory / "000001.jsonl"
    whole = segment.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    cut = data.draw(st.integers(last + 1, len(whole) - 1))
    segment.write_bytes(whole[:cut])
    report = verify(directory, key.public)
    assert (report.status, report.torn_bytes) == (Status.INTERRUPTED, cut - last)
    again = Journal.recover(directory, key=key)
    again.close()
    report = verify(directory, key.public, expect_closed=True)
    # Who went on signs what was there, and that does not make it the work of who was interrupted.
    assert report.status is Status.ENDED
    assert (report.signed, report.usable) == (report.records, 2)
    torn = whole[last:cut]
    expected = Recovered(len(torn), sha256(torn).hexdigest(), segment.name)
    assert _recovered(directory) == expected


@pytest.mark.parametrize("rubbish", [b"\x00" * 4096, b"\x00\n\x00", b'{"after":"', b"\n\n", b"}\n"])
def test_rubbish_after_the_last_record_is_cut(
    opener: Opener, key: SigningKey, rubbish: bytes
) -> None:
    journal = opener()
    position = journal.append(Marked("keep me"))
    journal.abandon()
    with open(journal.directory / "000001.jsonl", "ab") as file:
        file.write(rubbish)
    again = Journal.recover(journal.directory, key=key)
    again.close()
    assert verify(journal.directory, key.public, expect_closed=True).ok
    events = {record.n: record.event for record in RunLog(journal.directory).events()}
    assert events[position] == Marked("keep me")


def test_damage_with_records_after_it_is_not_cut(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    write_steps(journal, 3)
    journal.abandon()
    segment = journal.directory / "000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    for changed in (b"rubbish\n", lines[4].replace(b"ticket", b"TICKET"), b""):
        damaged = b"".join([*lines[:3], changed, *lines[5:]])
        segment.write_bytes(damaged)
        with pytest.raises(IntegrityError, match="verify the journal"):
            Journal.recover(journal.directory, key=key)
        assert segment.read_bytes() == damaged


def test_forged_record_at_the_end_is_not_taken_over(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    journal.abandon()
    segment = journal.directory / "000001.jsonl"
    line = segment.read_bytes().splitlines(keepends=True)[-1]
    with open(segment, "ab") as file:
        file.write(line)
    with pytest.raises(IntegrityError):
        Journal.recover(journal.directory, key=key)


def test_missing_segment_is_not_recovered_from(opener: Opener, key: SigningKey) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=1500))
    write_steps(journal, 6)
    journal.abandon()
    (journal.directory / "000002.jsonl").unlink()
    with pytest.raises(IntegrityError, match="segment is missing"):
        Journal.recover(journal.directory, key=key)


def test_closed_record_whose_head_was_torn_off_is_recovered(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    journal.close()
    segment = journal.directory / "000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:-1]) + lines[-1][:50])
    again = Journal.recover(journal.directory, key=key)
    again.close()
    assert verify(journal.directory, key.public, expect_closed=True).ok


def test_journal_of_another_key_is_not_gone_on_with(opener: Opener, tmp_path: Path) -> None:
    journal = opener()
    journal.abandon()
    with pytest.raises(Conflict, match="another key"):
        Journal.recover(journal.directory, key=SigningKey.open(tmp_path / "other"))


@pytest.mark.parametrize("content", [None, b"", b"torn"])
def test_run_that_never_began_is_not_recovered(
    tmp_path: Path, key: SigningKey, content: bytes | None
) -> None:
    (tmp_path / "run").mkdir()
    if content is not None:
        (tmp_path / "run" / "000001.jsonl").write_bytes(content)
    with pytest.raises(InvalidInput):
        Journal.recover(tmp_path / "run", key=key)
    with pytest.raises(InvalidInput):
        Journal.recover(tmp_path / "nowhere", key=key)


def test_refused_recovery_lets_go_of_the_lock(
    opener: Opener, key: SigningKey, tmp_path: Path
) -> None:
    journal = opener()
    journal.abandon()
    with pytest.raises(Conflict):
        Journal.recover(journal.directory, key=SigningKey.open(tmp_path / "other"))
    Journal.recover(journal.directory, key=key).close()
