"""What a run stores when its budget is used up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.journal.blobs import LARGE_BYTES
from paddock.journal.budget import RecordBudget
from paddock.journal.errors import JournalFull
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal
from paddock.model.action import Kind
from paddock.model.errors import HostCannot, OutOfSpace
from paddock.model.events import (
    BudgetUsedUp,
    Closed,
    LeftOut,
    Marked,
    Opened,
    ProgramStarted,
    Proposed,
    Record,
    Settled,
)
from unit.journal.conftest import proposed, settled

LARGE = 4 * LARGE_BYTES


def journal_with(directory: Path, key: SigningKey, budget: RecordBudget) -> Journal:
    return Journal.create(directory, opened=Opened("run-1", "a"), key=key, budget=budget)


def arguments_of(log: RunLog, record: Record) -> dict[str, Any]:
    event = log.whole(record).event
    assert isinstance(event, Proposed)
    return event.arguments


def stored_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_beyond_the_budget_only_preview_digest_and_size_are_kept(
    tmp_path: Path, key: SigningKey
) -> None:
    budget = RecordBudget(6 * LARGE)
    journal = journal_with(tmp_path / "run", key, budget)
    for number in range(50):
        journal.append(proposed(1, arguments={"body": f"{number:02}" * (LARGE // 2)}), 1)
    journal.close()
    log = RunLog(tmp_path / "run")
    records = list(log.events(Proposed))
    assert [one.is_whole for one in records] == [True] * 5 + [False] * 45
    assert arguments_of(log, records[0]) == {"body": "00" * (LARGE // 2)}
    (ref,) = records[-1].blobs
    assert (ref.size_bytes, ref.is_kept) == (LARGE, False)
    assert arguments_of(log, records[-1]) == {"body": "49" * 128}
    assert stored_bytes(tmp_path / "run") < 7 * LARGE
    assert verify(tmp_path / "run", key.public).ok
    assert [one.event for one in log.events(BudgetUsedUp)] == [BudgetUsedUp(6 * LARGE)]
    assert [one.event for one in log.events(Closed)] == [Closed(left_out=LeftOut(45, 45 * LARGE))]


def test_many_small_values_are_left_out_as_well(tmp_path: Path, key: SigningKey) -> None:
    """A record of many small parts has none that is large: its lists and objects are bounded."""
    budget = RecordBudget(64 << 10)
    journal = journal_with(tmp_path / "run", key, budget)
    arguments = {"host": "h.example", "headers": {f"x-{n}": "v" * 50 for n in range(2000)}}
    argv = ["a" * 100] * 2000
    for _ in range(50):
        journal.append(proposed(1, kind=Kind.HTTP, arguments=arguments), 1)
        journal.append(ProgramStarted("/bin/a", argv), 1)
    journal.close()
    log = RunLog(tmp_path / "run")
    assert arguments_of(log, list(log.events(Proposed))[-1]) == {"host": "h.example"}
    assert list(log.events(ProgramStarted))[-1].event == ProgramStarted("/bin/a")
    assert stored_bytes(tmp_path / "run") < 400 << 10
    assert verify(tmp_path / "run", key.public).ok


def test_messages_of_models_count(tmp_path: Path, key: SigningKey) -> None:
    journal = journal_with(tmp_path / "run", key, RecordBudget(64 << 10))
    for number in range(40):
        text = f"{number:03}" * 3000
        said = journal.conversations.request(
            {"messages": [{"role": "user", "c": text}]}, "messages"
        )
        journal.append(proposed(1, kind=Kind.MODEL, arguments=said), 1)
    journal.close()
    assert stored_bytes(tmp_path / "run") < 180 << 10
    assert verify(tmp_path / "run", key.public).ok


def test_a_long_text_stored_ahead_of_its_record_counts(tmp_path: Path, key: SigningKey) -> None:
    journal = journal_with(tmp_path / "run", key, RecordBudget(LARGE))
    kept = [journal.store("a" * (LARGE - 8192)), journal.store("b" * LARGE)]
    journal.append(settled({"body": kept[0]}), 1)
    journal.append(settled({"body": kept[1]}), 2)
    journal.close()
    log = RunLog(tmp_path / "run")
    records = list(log.events(Settled))
    assert [one.is_whole for one in records] == [True, False]
    assert log.whole(records[0]).event == settled({"body": "a" * (LARGE - 8192)})
    assert verify(tmp_path / "run", key.public).ok


def test_records_beyond_all_room_end_the_run_with_a_sound_journal(
    tmp_path: Path, key: SigningKey
) -> None:
    journal = journal_with(tmp_path / "run", key, RecordBudget(8 << 10, max_beyond=8 << 10))
    told: list[HostCannot] = []
    journal.failure_listeners.append(told.append)
    with pytest.raises(JournalFull, match="has used up what it may store") as caught:
        for number in range(10_000):
            journal.append(Marked(str(number)))
    assert isinstance(caught.value, OutOfSpace)
    with pytest.raises(JournalFull):
        journal.append(Marked("m"))
    assert [str(one) for one in told] == [str(caught.value)]
    journal.close("no room")
    report = verify(tmp_path / "run", key.public, expect_closed=True)
    assert report.ok and report.is_closed


def test_what_fits_is_counted_by_several_threads_without_a_loss() -> None:
    import threading

    budget = RecordBudget(1000)
    taken: list[bool] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(budget.take(1) for _ in range(300)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(taken), budget.used, budget.left_out) == (1000, 1000, 1400)
