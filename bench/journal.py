"""Measures the journal: durable records a second, verification, and opening a run of many steps."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, Limit, alternate, median, number, timed
from bench.rig import Rig, file_system
from paddock.journal.index.index import RunIndex
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal, JournalEntry
from paddock.model.action import Effect, Kind, Outcome, Verdict
from paddock.model.errors import IntegrityError
from paddock.model.events import Decided, Opened, Proposed, Settled

_PROPOSED = Proposed(
    kind=Kind.TOOL,
    name="issue_refund",
    arguments={"amount": 1200, "customer": "cus_1928", "reason": "late delivery, two mails"},
    effect=Effect.WRITE,
    is_reversible=True,
    is_contained=False,
)  # with its envelope about 300 bytes
_DECIDED = Decided(Verdict.ALLOW, "small-refunds", "Within the budget.", Effect.WRITE)
_SETTLED = Settled(Outcome.DONE, {"refund": "re_81"})
_WRITERS = 512
_PAGE = 100


def journal(rig: Rig) -> list[Figure]:
    """Measure appending, verifying and opening, all on the file system that holds the sandboxes'
    state."""
    key = SigningKey.open(rig.scratch / "journal-keys")
    return [_append(rig, key), _verify(rig, key), *_open(rig, key)]


def _append(rig: Rig, key: SigningKey) -> Figure:
    steps = rig.count(20_000, 5_000)

    def run() -> float:
        with _scratch(rig, "append") as directory:
            writer = _created(directory, key)
            began = time.perf_counter()
            asyncio.run(_write_durably(writer, steps))
            writer.sync()
            seconds = time.perf_counter() - began
            writer.close()
        return seconds

    (samples,) = alternate(rig.count(5, 3), run)
    return Figure(
        name="journal-append",
        title="journal: records with group commit",
        value=3 * steps / median(samples),
        unit="records/s",
        n=len(samples),
        limit=Limit(20_000, is_floor=True),
        note=f"{_WRITERS} writers: proposed and decided, wait for the disk, settled; "
        f"on {file_system(rig.scratch)}",
    )


async def _write_durably(writer: Journal, steps: int) -> None:
    """Do what the gate does for an action whose intent must be on disk before it happens."""
    numbers = itertools.count()

    async def one() -> None:
        while (step := next(numbers)) < steps:
            intent = (JournalEntry(_PROPOSED, step), JournalEntry(_DECIDED, step))
            await writer.durable(writer.extend(intent))
            writer.append(_SETTLED, step)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_WRITERS):
            tasks.create_task(one())


def _verify(rig: Rig, key: SigningKey) -> Figure:
    count = rig.count(100_000, 30_000)
    with _scratch(rig, "verify") as directory:
        writer = _created(directory, key)
        for step in range(count):
            writer.append(_PROPOSED, step)
        writer.close()
        size = sum(path.stat().st_size for path in directory.glob("*.jsonl")) / count

        def run() -> None:
            report = verify(directory, key.public, expect_closed=True)
            if not report.ok:
                raise IntegrityError(f"the journal of the bench does not verify: {report}")

        (samples,) = alternate(rig.count(7, 3), timed(run))
    return Figure(
        name="journal-verify",
        title="journal: verified records",
        value=count / median(samples),
        unit="records/s",
        n=len(samples),
        limit=Limit(100_000, is_floor=True),
        note=f"{size:.0f} bytes a record; chain, tree and signatures, one core",
    )


def _open(rig: Rig, key: SigningKey) -> list[Figure]:
    count = rig.count(100_000, 20_000)
    with _scratch(rig, "open") as directory:
        _write_steps(_created(directory, key), count)
        path = directory.parent / "journal-index" / "index.db"
        began = time.perf_counter()
        with RunIndex(path) as index:
            records = index.update(directory)
        indexed = records / (time.perf_counter() - began)
        (samples,) = alternate(rig.count(20, 10), timed(lambda: _open_run(path, directory, count)))
        shutil.rmtree(path.parent)
    return [
        Figure("journal-open", f"journal: open a run of {count:,} steps", median(samples), "s",
               len(samples), limit=Limit(1),
               note=f"header, counts, a page of {_PAGE} steps and its first step from the journal"),
        Figure("journal-index", "journal: index a run from nothing", indexed, "records/s", 1,
               limit=Limit(50_000, is_floor=True), note=f"{number(records)} records"),
    ]  # fmt: skip


def _write_steps(writer: Journal, count: int) -> None:
    for step in range(count):
        writer.extend(
            (
                JournalEntry(_PROPOSED, step),
                JournalEntry(_DECIDED, step),
                JournalEntry(_SETTLED, step),
            )
        )
    writer.close()


def _open_run(path: Path, directory: Path, count: int) -> None:
    with RunIndex(path) as index:
        index.update(directory)
        run = index.run("bench")
        page = index.steps("bench", after=count // 2, limit=_PAGE)
        first = RunLog(directory).record_at(page[0].spot)
    if run.steps != count or len(page) != _PAGE or first.step != page[0].step:
        raise IntegrityError("the index does not say what the journal says")


def _created(directory: Path, key: SigningKey) -> Journal:
    return Journal.create(directory, opened=Opened(run="bench", agent="bench"), key=key)


@contextlib.contextmanager
def _scratch(rig: Rig, name: str) -> Iterator[Path]:
    """A directory for one journal, gone after the block."""
    path = rig.scratch / "journals" / name
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
