"""What the tests of the journal share: a key, journals to write, and a run that was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.journal.keys import SigningKey
from paddock.journal.records import Type
from paddock.journal.writer import Entry, Journal, Rhythm

OPENED = {"run": "run-1", "agent": "support-bot", "stage": "draft", "policy_digest": "p" * 64}
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
    journal.append(Type.NOTED, {"output": "long " * 5000})
    journal.close({"reason": "done"})
    return journal.directory


def write_steps(journal: Journal, count: int, first: int = 0) -> None:
    for step in range(first, first + count):
        journal.extend(
            [
                Entry(Type.PROPOSED, proposed(step), step),
                Entry(
                    Type.DECIDED, {"verdict": "allow", "decided_by": "reads", "why": "fine"}, step
                ),
            ]
        )
        journal.append(Type.OBSERVED, {"path": "/etc/hosts"}, step)
        journal.append(Type.SETTLED, {"outcome": "done", "result": {"number": step}}, step)


def proposed(step: int) -> dict[str, Any]:
    return {
        "kind": "tool",
        "name": "search",
        "arguments": {"query": f"ticket {step}", "limit": 3},
        "effect": "read",
        "is_reversible": True,
        "is_contained": False,
    }
