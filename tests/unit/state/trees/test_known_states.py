"""A state compared with files that several are at work on: what the record never had is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from paddock.state.trees.known_states import unlike_any
from paddock.state.trees.recorder import Recorder
from paddock.state.trees.store import TreeStore


class Record:
    """Some states of one directory, one after the other."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        self.home.mkdir()
        self.store = TreeStore(place / "store")
        self.recorder: Recorder = self.store.recorder({"home": self.home})
        self.trees: list[str] = []

    def note(self, **files: str | None) -> None:
        """Writes these, and the state that comes of it."""
        self.write(**files)
        self.trees.append(self.recorder.record().tree)

    def write(self, **files: str | None) -> None:
        for name, text in files.items():
            path = self.home / name
            path.unlink(missing_ok=True) if text is None else path.write_text(text)
        time.sleep(0.01)  # a tick of the clock that files are stamped by

    def otherwise(self, at: int) -> list[str]:
        """What is now other than in state `at`, and than in any other."""
        return unlike_any(self.store, self.recorder.record().tree, self.trees[at], self.trees)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    made = Record(tmp_path)
    made.note(log="1")
    made.note(log="2", done="by chance 17", a="a")
    made.note(log="3", b="b")
    made.note(log="4", c="c", a=None)
    return made


def test_what_is_ahead_or_still_to_come_is_not_told(record: Record) -> None:
    record.write(log="3", b="b", c=None, a="a", done="by chance 17")
    assert record.otherwise(1) == []
    record.write(log="1", a=None, b=None, c=None, done=None)
    assert record.otherwise(1) == []


def test_what_came_out_otherwise_is_told(record: Record) -> None:
    record.write(log="2, at another time", done="by chance 99", a="a", tmp4711="half of it")
    assert record.otherwise(1) == ["home/done", "home/log", "home/tmp4711"]
