"""A state put back while others are at work: what they have under way is left to them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from paddock.state.trees.finished import Around
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

    def put_back(self, at: int) -> dict[str, str]:
        """The files after state `at` was put back, with the others around it."""
        around = Around(tuple(self.trees[: at + 1]), tuple(self.trees[at + 1 :]))
        roots = {"home": self.home}
        self.store.restore(self.trees[at], roots, recorder=self.recorder, around=around)
        return {path.name: path.read_text() for path in self.home.iterdir()}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    made = Record(tmp_path)
    made.note(log="1")
    made.note(log="2", done="by chance 17", a="a")
    made.note(log="3", b="b")
    made.note(log="4", c="c", a=None)
    return made


def test_what_is_ahead_stays(record: Record) -> None:
    record.write(log="3", b="b", c=None, a="a", done="by chance 17")
    assert record.put_back(1) == {"log": "3", "b": "b", "a": "a", "done": "by chance 17"}


def test_what_is_not_there_yet_is_left_to_come(record: Record) -> None:
    record.write(log="1", a=None, b=None, c=None)
    assert "a" not in record.put_back(1)


def test_what_was_finished_and_came_out_otherwise_is_as_it_was(record: Record) -> None:
    record.write(log="2", done="by chance 99", a="a", b=None, c=None)
    assert record.put_back(1) == {"log": "2", "done": "by chance 17", "a": "a"}


def test_what_goes_on_changing_is_left_alone(record: Record) -> None:
    record.write(log="2, at another time", a="a", b=None, c=None)
    assert record.put_back(1)["log"] == "2, at another time"


def test_nothing_is_removed_that_the_record_does_not_know(record: Record) -> None:
    record.write(tmp4711="half of it", log="2", a="a", b=None, c=None)
    assert record.put_back(1)["tmp4711"] == "half of it"
