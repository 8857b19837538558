"""Writing a journal: what is in the file, when it is durable, who may write, what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.journal.codec import FORMAT
from paddock.journal.errors import JournalBroken
from paddock.journal.integrity.heads import is_signed_by
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.run_directory import is_held
from paddock.journal.secrets.mask import Masker
from paddock.journal.writer import Journal, JournalEntry, Rhythm
from paddock.model.errors import Conflict, InvalidInput, PaddockError
from paddock.model.events import (
    Closed,
    Head,
    Marked,
    Opened,
    Record,
    Recovered,
    Unknown,
)
from paddock.model.version import __version__
from unit.journal.conftest import OPENED, Opener, proposed, settled, write_steps


def test_first_record_says_who_wrote_it_and_with_which_key(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    opened = RunLog(journal.directory).opened
    assert opened.format == FORMAT == 2
    assert opened.key_id == key.public.key_id
    assert opened.public_key == key.public.hex
    assert opened.agent == "support-bot"
    assert opened.paddock == __version__
    assert {"kernel", "machine", "python"} <= set(opened.host)


def test_caller_cannot_claim_another_key_or_format(opener: Opener, key: SigningKey) -> None:
    claims = {"key_id": "x", "format": 9, "public_key": "y", "paddock": "z", "host": {"name": "w"}}
    journal = opener(opened=replace(OPENED, **claims))
    opened = RunLog(journal.directory).opened
    assert (opened.key_id, opened.format) == (key.public.key_id, FORMAT)
    assert opened.public_key == key.public.hex
    assert "w" not in opened.host.values()


def test_journal_without_the_name_of_its_run_is_refused(opener: Opener) -> None:
    with pytest.raises(InvalidInput):
        opener(opened=replace(OPENED, run=""))


def test_append_returns_the_number_that_the_record_has(opener: Opener) -> None:
    journal = opener()
    positions = [journal.append(Marked(str(i)), i) for i in range(5)]
    marks = [(record.n, record.event) for record in RunLog(journal.directory).events(Marked)]
    assert marks == [(n, Marked(str(i))) for i, n in enumerate(positions)]


def test_appended_record_is_in_the_file_at_once(opener: Opener) -> None:
    journal = opener()
    journal.append(Marked("hello"))
    assert b"hello" in (journal.directory / "000001.jsonl").read_bytes()


def test_files_and_directories_are_for_their_owner_only(closed_run: Path) -> None:
    for base, directories, files in os.walk(closed_run):
        assert os.stat(base).st_mode & 0o777 == 0o700
        for name in files:
            assert os.stat(os.path.join(base, name)).st_mode & 0o777 == 0o600
        assert directories or files


def test_second_writer_is_refused_while_the_first_lives(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    with pytest.raises(Conflict, match="has a writer already"):
        Journal.recover(journal.directory, key=key)
    assert is_held(journal.directory)
    journal.abandon()
    assert not is_held(journal.directory)
    second = Journal.recover(journal.directory, key=key)
    with pytest.raises(JournalBroken):
        journal.append(Marked("m"))
    second.close()


def test_directory_that_holds_something_is_not_made_a_journal(
    opener: Opener, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").write_text("mine")
    with pytest.raises(Conflict):
        opener()
    assert (tmp_path / "run" / "file").read_text() == "mine"


def test_key_inside_the_directory_of_a_run_is_refused(tmp_path: Path) -> None:
    key = SigningKey.open(tmp_path / "run" / "keys")
    with pytest.raises(InvalidInput, match="inside the run"):
        Journal.create(tmp_path / "run", opened=OPENED, key=key)


def test_segments_roll_by_size_and_the_chain_goes_through_them(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=2000))
    write_steps(journal, 8)
    journal.close()
    report = verify(journal.directory, key.public)
    assert report.ok, report
    assert report.segments > 3


def test_heads_are_signed_every_so_many_records(opener: Opener, key: SigningKey) -> None:
    journal = opener(rhythm=Rhythm(head_records=10))
    for i in range(100):
        journal.append(Marked("m", {"i": i}))
    journal.close()
    report = verify(journal.directory, key.public)
    assert 9 <= report.heads <= 12
    assert report.head == journal.head


def test_heads_are_signed_after_so_much_time(opener: Opener, key: SigningKey) -> None:
    journal = opener(rhythm=Rhythm(head_us=0))
    for i in range(5):
        journal.append(Marked("m", {"i": i}))
    assert verify(journal.directory, key.public).heads >= 4


def test_sign_covers_all_that_was_written(opener: Opener, key: SigningKey) -> None:
    journal = opener()
    position = journal.append(Marked("m"))
    head = journal.sign()
    assert head.size == position + 1
    assert is_signed_by(head, key.public)
    assert verify(journal.directory, key.public, expected_head=head).ok


def test_closed_journal_takes_no_more_records_and_is_not_reopened(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    journal.close()
    for attempt in (
        lambda: journal.append(Marked("m")),
        journal.sync,
        journal.close,
        journal.sign,
    ):
        with pytest.raises(JournalBroken, match="closed"):
            attempt()
    with pytest.raises(Conflict, match="closed"):
        Journal.recover(journal.directory, key=key)


@pytest.mark.parametrize(
    "event",
    [
        OPENED,
        Head("r", 1, "", 1, "", ""),
        Recovered(),
        Closed(),
        Unknown("x", {}),
        "rumour",
        {"what": "mark"},
        None,
    ],
    ids=repr,
)
def test_events_that_are_the_journals_own_cannot_be_appended(opener: Opener, event: Any) -> None:
    journal = opener()
    before = journal.position
    with pytest.raises(InvalidInput):
        journal.append(event)
    with pytest.raises(InvalidInput):
        journal.extend([JournalEntry(Marked("fine")), JournalEntry(event)])
    assert not journal.is_broken
    assert journal.position == before


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (float("nan"), "nan"),
        ("\ud800", "\\ud800"),
        ({1: 2}, {"1": 2}),
        (2**60, str(2**60)),
        (b"x", {"base64": "eA=="}),
    ],
)
def test_value_that_json_does_not_have_is_written_as_text(
    opener: Opener, key: SigningKey, value: Any, recorded: Any
) -> None:
    journal = opener()
    journal.append(Marked("m", {"a": value}))
    journal.close()
    assert verify(journal.directory, key.public).ok
    (record,) = RunLog(journal.directory).events(Marked)
    assert record.event == Marked("m", {"a": recorded})


@pytest.mark.parametrize("step", [-1, 1.5, True, "1", 2**60])
def test_step_that_is_no_number_is_refused(opener: Opener, step: Any) -> None:
    with pytest.raises(InvalidInput):
        opener().append(Marked("m"), step)


def test_records_of_one_extend_are_refused_together(opener: Opener) -> None:
    journal = opener()
    before = journal.position
    with pytest.raises(InvalidInput):
        journal.extend([JournalEntry(Marked("fine")), JournalEntry(Marked("of no step"), -1)])
    assert journal.position == before


def test_twenty_threads_append_and_every_record_is_there_once(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener(rhythm=Rhythm(head_records=50, segment_bytes=20_000))
    positions: list[int] = []

    def work(name: int) -> None:
        positions.extend(journal.append(Marked(f"{name}: {i}")) for i in range(50))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    assert verify(journal.directory, key.public, expect_closed=True).ok
    marks = list(RunLog(journal.directory).events(Marked))
    assert sorted(positions) == [record.n for record in marks]
    written = {record.event for record in marks}
    assert written == {Marked(f"{name}: {i}") for name in range(20) for i in range(50)}


def test_many_tasks_wait_for_the_disk_together(opener: Opener) -> None:
    journal = opener()

    async def work(i: int) -> int:
        position = journal.append(Marked("m", {"i": i}))
        await journal.durable(position)
        return position

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(work(i) for i in range(200)))

    positions = asyncio.run(all_of_them())
    assert sorted(positions) == positions
    asyncio.run(journal.durable())  # and from another loop, when nothing is left to do


def test_waiting_for_a_record_that_was_never_written_is_an_error(opener: Opener) -> None:
    journal = opener()
    with pytest.raises(InvalidInput):
        asyncio.run(journal.durable(journal.position + 1))


def test_cancelled_wait_harms_nobody(opener: Opener) -> None:
    journal = opener()

    async def cancel_one() -> None:
        journal.append(Marked("m"))
        waits = [asyncio.create_task(journal.durable()) for _ in range(3)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.gather(*waits[1:])

    asyncio.run(cancel_one())
    journal.close()


def test_child_process_does_not_write_into_its_parents_journal(
    opener: Opener, key: SigningKey
) -> None:
    journal = opener()
    child = os.fork()
    if child == 0:
        try:
            journal.append(Marked("from the child"))
        except PaddockError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    journal.append(Marked("from the parent"))
    journal.close()
    assert verify(journal.directory, key.public).ok


def test_secrets_do_not_reach_the_file_nor_the_blobs(opener: Opener) -> None:
    secret = "sk-live-0123456789"
    journal = opener(masker=Masker({"API_KEY": secret}))
    journal.append(proposed(1, arguments={"header": f"Bearer {secret}", secret: 1}), 1)
    journal.append(settled(f"{'x' * 20000}{secret}{'y' * 20000}"), 1)
    journal.close(secret)
    found = b"".join(path.read_bytes() for path in journal.directory.rglob("*") if path.is_file())
    assert secret.encode() not in found
    assert found.count(b"{{secret:API_KEY}}") >= 4


def test_clock_that_is_set_back_stands_still(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opener()
    times = iter([5 * 10**18, 4 * 10**18, 6 * 10**18, 6 * 10**18])
    monkeypatch.setattr("paddock.journal.writer.time.time_ns", lambda: next(times, 7 * 10**18))
    for _ in range(3):
        journal.append(Marked("m"))
    ats = [record.at for record in RunLog(journal.directory).events()]
    assert ats == sorted(ats)


def test_lines_are_canonical_json_and_chained_by_their_first_key(closed_run: Path) -> None:
    for line in RunLog(closed_run).lines():
        fields = json.loads(line)
        assert list(fields) == sorted(fields)
        assert next(iter(fields)) == "after"


def test_records_of_a_journal_that_goes_quiet_are_signed_soon(opener: Opener) -> None:
    """An agent that waits for an answer writes nothing, and may be killed meanwhile."""
    journal = opener(rhythm=Rhythm(head_us=1000))
    signed = threading.Event()

    def hear(record: Record) -> None:
        if isinstance(record.event, Head):
            signed.set()

    journal.listeners.append(hear)
    position = journal.append(Marked("m"))
    assert signed.wait(30)
    assert journal.head is not None
    assert journal.head.size > position


def test_a_quick_journal_is_signed_from_its_first_record_on(opener: Opener) -> None:
    journal = opener(is_quick=True)
    events = [record.event for record in RunLog(journal.directory).events()]
    assert [type(event) for event in events] == [Opened, Head]


def test_steps_of_one_burst_share_a_head(opener: Opener) -> None:
    journal = opener()
    for step in range(50):
        journal.append(Marked("m"), step)
    journal.close()
    assert len(list(RunLog(journal.directory).events(Head))) < 10
