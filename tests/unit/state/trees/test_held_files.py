"""A restore leaves alone what processes hold, and what belongs to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.model.errors import HostCannot
from paddock.state.trees.held_files import HeldFiles, NotWrittenByAgent
from paddock.state.trees.restore import Restored
from paddock.state.trees.store import TreeStore


class Files:
    """A directory that has been recorded, and is other now."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        self.home.mkdir()
        self.store = TreeStore(place / "store")
        self.recorder = self.store.recorder({"home": self.home})

    def record(self) -> str:
        return self.recorder.record().tree

    def restore(
        self,
        tree: str,
        *held: str,
        first: str | None = None,
        nameless: frozenset[tuple[str, int]] = frozenset(),
    ) -> Restored:
        files = HeldFiles(frozenset(f"home/{name}" for name in held), nameless=nameless)
        roots = {"home": self.home}
        return self.store.restore(tree, roots, recorder=self.recorder, held=files, first=first)

    def texts(self) -> dict[str, str]:
        found = (path for path in self.home.rglob("*") if path.is_file())
        return {str(path.relative_to(self.home)): path.read_text() for path in found}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_held_file_stays_and_is_named_while_others_are_restored(files: Files) -> None:
    (files.home / "log").write_text("recorded")
    (files.home / "other").write_text("recorded")
    tree = files.record()
    (files.home / "log").write_text("of this process")
    (files.home / "other").write_text("of nobody")
    restored = files.restore(tree, "log")
    assert files.texts() == {"log": "of this process", "other": "recorded"}
    assert restored.kept == ("home/log",)
    assert restored.written == ("home/other",)


def test_a_held_file_that_is_as_recorded_is_not_named(files: Files) -> None:
    (files.home / "log").write_text("recorded")
    tree = files.record()
    (files.home / "other").write_text("of nobody")
    assert files.restore(tree, "log").kept == ()
    assert files.texts() == {"log": "recorded"}


@pytest.mark.parametrize("was_there", [True, False])
def test_no_journal_comes_or_goes_beside_a_database_that_is_open(
    files: Files, was_there: bool
) -> None:
    """A hot journal that is put back would roll back a database that was left alone."""
    journal = files.home / "a.db-journal"
    (files.home / "a.db").write_text("the same")
    if was_there:
        journal.write_text("recorded")
    tree = files.record()
    journal.unlink() if was_there else journal.write_text("of this process")
    restored = files.restore(tree, "a.db")
    assert journal.exists() is not was_there
    assert restored.kept == ("home/a.db-journal",)


def test_files_named_after_a_held_one_stay_where_that_differs(files: Files) -> None:
    for name in ("a.log", "a.log.1", "b.log", "b.log.1"):
        (files.home / name).write_text("recorded")
    tree = files.record()
    for name in ("a.log", "a.log.1", "b.log.1"):
        (files.home / name).write_text("of this process")
    assert files.restore(tree, "a.log", "b.log").kept == ("home/a.log", "home/a.log.1")
    assert files.texts()["b.log.1"] == "recorded"


def test_names_that_the_record_does_not_have_stay_beside_a_held_file_that_differs(
    files: Files,
) -> None:
    (files.home / "cache").mkdir()
    (files.home / "cache" / "cache.db").write_text("recorded")
    tree = files.record()
    (files.home / "cache" / "cache.db").write_text("refers to 12/value")
    (files.home / "cache" / "12").mkdir()
    (files.home / "cache" / "12" / "value").write_text("value")
    (files.home / "elsewhere").write_text("of nobody")
    restored = files.restore(tree, "cache/cache.db")
    assert files.texts() == {"cache/cache.db": "refers to 12/value", "cache/12/value": "value"}
    assert restored.kept == ("home/cache/12", "home/cache/cache.db")


def test_a_directory_with_a_held_file_is_neither_removed_nor_replaced(files: Files) -> None:
    (files.home / "a").write_text("a file then")
    tree = files.record()
    (files.home / "a").unlink()
    for name in ("a", "b/deep"):
        (files.home / name).mkdir(parents=True)
        (files.home / name / "log").write_text("open")
    restored = files.restore(tree, "a/log", "b/deep/log")
    assert files.texts() == {"a/log": "open", "b/deep/log": "open"}
    assert restored.kept == ("home/a", "home/b")


def test_an_open_file_is_known_by_its_other_name(files: Files) -> None:
    (files.home / "log").write_text("recorded")
    tree = files.record()
    (files.home / "log").unlink()
    (files.home / "first").write_text("open")
    os.link(files.home / "first", files.home / "log")
    inode = os.stat(files.home / "log").st_ino
    (files.home / "first").unlink()  # the name under which it was opened
    restored = files.restore(tree, nameless=frozenset({("home/first (deleted)", inode)}))
    assert files.texts() == {"log": "open"}
    assert restored.kept == ("home/log",)


def test_a_file_is_held_under_all_of_its_names(files: Files) -> None:
    """Also where processes see another inode number than a scan does, as they may in an overlay."""
    (files.home / "log").write_text("recorded")
    tree = files.record()
    (files.home / "log").write_text("open")
    os.link(files.home / "log", files.home / "another")
    restored = files.restore(tree, "another")
    assert files.texts() == {"log": "open", "another": "open"}
    assert restored.kept == ("home/another", "home/log")


def test_nothing_is_restored_where_the_names_of_an_open_file_are_not_known(files: Files) -> None:
    (files.home / "log").write_text("recorded")
    tree = files.record()
    (files.home / "log").write_text("open")
    with pytest.raises(HostCannot, match=r"home/first \(deleted\) is held open"):
        files.restore(tree, nameless=frozenset({("home/first (deleted)", 1)}))
    assert files.texts() == {"log": "open"}
    elsewhere = frozenset({("/tmp/first (deleted)", 1)})
    assert files.restore(tree, nameless=elsewhere).written == ("home/log",)


def test_bytes_that_came_from_elsewhere_do_not_go_into_an_open_file(files: Files) -> None:
    (files.home / "notes").write_text("as it began")
    first = files.record()
    (files.home / "notes").write_text("from elsewhere")
    (files.home / "other").write_text("recorded")
    tree = files.record()
    (files.home / "notes").write_text("as it began")
    (files.home / "other").unlink()
    with pytest.raises(NotWrittenByAgent, match="home/notes is held open"):
        files.restore(tree, "notes", first=first)
    assert files.texts() == {"notes": "as it began"}  # nothing was changed
