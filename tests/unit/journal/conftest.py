"""What the tests of the journal share: a key, journals to write, and a run that was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paddock.journal.integrity.keys import SigningKey
from paddock.journal.writer import Journal, JournalEntry, Rhythm
from paddock.model.action import Effect, Kind, Outcome, Verdict
from paddock.model.events import Decided, Marked, Opened, ProgramStarted, Proposed, Settled

OPENED = Opened(run="run-1", agent="support-bot", stage="draft", policy_digest="p" * 64)
Opener = Callable[..., Journal]


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return SigningKey.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def opener(tmp_path: Path, key: SigningKey) -> Iterator[Opener]:
    """Opens journals below `tmp_path`; what a test leaves open is let go."""
    opened: list[Journal] = []

    def create(name: str = "run", **options: Any) -> Journal:
        options.setdefault("opened", OPENED)
        options.setdefault("key", key)
        opened.append(Journal.create(tmp_path / name, **options))
        return opened[-1]

    yield create
    for journal in opened:
        journal.abandon()


@pytest.fixture
def closed_run(opener: Opener) -> Path:
    """A closed journal with several heads, segments and blobs."""
    journal = opener(rhythm=Rhythm(head_records=7, segment_bytes=3000))
    write_steps(journal, 6)
    journal.append(Marked("long " * 5000))
    journal.close("done")
    return journal.directory


def write_steps(journal: Journal, count: int, first: int = 0) -> None:
    for step in range(first, first + count):
        journal.extend(
            [JournalEntry(proposed(step), step), JournalEntry(decided(decided_by="reads"), step)]
        )
        journal.append(ProgramStarted("/bin/cat"), step)
        journal.append(settled({"number": step}), step)


def proposed(step: int, **changes: Any) -> Proposed:
    """Return the proposal of a tool call, with some fields changed."""
    event = Proposed(
        kind=Kind.TOOL,
        name="search",
        arguments={"query": f"ticket {step}", "limit": 3},
        effect=Effect.READ,
        is_reversible=True,
        is_contained=False,
    )
    return msgspec.structs.replace(event, **changes)


def decided(verdict: str = "allow", *, decided_by: str = "rule", **fields: Any) -> Decided:
    fields.setdefault("why", "fine")
    return Decided(Verdict(verdict), decided_by, **fields)


def settled(result: Any = None, outcome: str = "done", **fields: Any) -> Settled:
    return Settled(Outcome(outcome), result, **fields)
