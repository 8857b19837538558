"""A journal that cannot be written fails closed: real full disks, limits and read-only places."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.journal.errors import JournalBroken
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal, Rhythm
from paddock.model.events import Marked
from unit.journal.conftest import OPENED, Opener

# Writes until the limit of a file's size is reached; says what was acknowledged and what came then.
FULL = """
import resource, signal, sys
from pathlib import Path
from paddock.journal.errors import JournalBroken
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.writer import Journal
from paddock.model.events import Marked
from paddock.model.events import Opened
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
key = SigningKey.open(Path(sys.argv[2]))
journal = Journal.create(Path(sys.argv[1]), opened=Opened("r", "a"), key=key)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
last, refusals = -1, 0
for i in range(500):
    try:
        last = journal.append(Marked("x" * 80, {"i": i}))
    except JournalBroken:
        refusals += 1
print(last, refusals, journal.is_broken)
"""


def test_limit_of_a_files_size_breaks_the_journal_and_loses_nothing(
    tmp_path: Path, key: SigningKey
) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "run"), str(key.directory)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    last, refusals, is_broken = said.split()
    assert (tmp_path / "run" / "000001.jsonl").stat().st_size <= 20_000
    assert is_broken == "True"
    assert int(refusals) > 300
    assert [r.n for r in RunLog(tmp_path / "run").events()] == list(range(int(last) + 1))
    assert verify(tmp_path / "run", key.public).ok
    again = Journal.recover(tmp_path / "run", key=key)
    again.close()
    assert verify(tmp_path / "run", key.public, expect_closed=True).ok


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip(
            "only root can mount a small disk; the limit of a file's size is tested instead"
        )
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine does not let root mount a tmpfs: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_full_disk_breaks_the_journal_for_good_and_loses_nothing(
    tiny_disk: Path, key: SigningKey
) -> None:
    journal = Journal.create(tiny_disk / "run", opened=OPENED, key=key)
    last = _fill(journal)
    with pytest.raises(JournalBroken, match=r"No space left|there was room for"):
        journal.append(Marked("m"))
    (tiny_disk / "run" / "lock").write_bytes(b"")
    for attempt in (
        lambda: journal.append(Marked("m")),
        journal.sync,
        journal.sign,
        journal.close,
    ):
        with pytest.raises(JournalBroken):
            attempt()
    with pytest.raises(JournalBroken):
        asyncio.run(journal.durable(0))
    journal.abandon()
    assert [r.n for r in RunLog(tiny_disk / "run").events()] == list(range(last + 1))
    assert verify(tiny_disk / "run", key.public).ok


def test_full_disk_at_a_blob_breaks_the_journal(tiny_disk: Path, key: SigningKey) -> None:
    journal = Journal.create(tiny_disk / "run", opened=OPENED, key=key)
    with pytest.raises(JournalBroken):
        journal.append(Marked(os.urandom(200_000).hex()))
    assert journal.is_broken
    journal.abandon()
    assert verify(tiny_disk / "run", key.public).ok
    assert not list((tiny_disk / "run" / "blobs").rglob(".*"))


def test_journal_is_not_begun_on_a_disk_that_is_full(tiny_disk: Path, key: SigningKey) -> None:
    with open(tiny_disk / "filler", "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(JournalBroken):
        Journal.create(tiny_disk / "run", opened=OPENED, key=key)


def test_read_only_place_is_refused(tmp_path: Path, key: SigningKey, tiny_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(JournalBroken, match="Read-only"):
        Journal.create(tiny_disk / "run", opened=OPENED, key=key)


def test_place_that_turns_read_only_breaks_the_journal(tiny_disk: Path, key: SigningKey) -> None:
    first = Journal.create(tiny_disk / "run", opened=OPENED, key=key)
    first.abandon()
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(JournalBroken, match="Read-only"):
        Journal.recover(tiny_disk / "run", key=key)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it may not")
def test_directory_without_permission_is_refused(tmp_path: Path, key: SigningKey) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(JournalBroken):
            Journal.create(tmp_path / "run", opened=OPENED, key=key)
    finally:
        tmp_path.chmod(0o700)


def test_new_segment_that_cannot_be_made_breaks_the_journal(opener: Opener) -> None:
    journal = opener(rhythm=Rhythm(segment_bytes=1500))
    (journal.directory / "000002.jsonl").mkdir()
    last = journal.position
    with pytest.raises(JournalBroken):
        for _ in range(20):
            last = journal.append(Marked("x" * 200))
    assert journal.is_broken
    journal.abandon()
    (journal.directory / "000002.jsonl").rmdir()
    assert [r.n for r in RunLog(journal.directory).events()][-1] == last


def test_flush_that_fails_is_not_tried_again(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opener()
    journal.append(Marked("m"))

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("paddock.journal.segments.os.fdatasync", fail)
    with pytest.raises(JournalBroken, match="Input/output error"):
        asyncio.run(journal.durable())
    monkeypatch.undo()
    with pytest.raises(JournalBroken):
        asyncio.run(journal.durable())
    with pytest.raises(JournalBroken):
        journal.sync()


def test_interrupt_within_a_write_breaks_the_journal_and_not_the_chain(
    opener: Opener, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opener()

    def interrupted(fd: int, data: bytes) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("paddock.journal.segments.os.write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        journal.append(Marked("m"))
    monkeypatch.undo()
    with pytest.raises(JournalBroken):
        journal.append(Marked("m"))
    assert verify(journal.directory, key.public).ok


def test_no_descriptor_is_left_open(tmp_path: Path, key: SigningKey) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "b"):
        rhythm = Rhythm(segment_bytes=1000)
        journal = Journal.create(tmp_path / name, opened=OPENED, key=key, rhythm=rhythm)
        for _ in range(20):
            journal.append(Marked("y" * 20_000))
        journal.close() if name == "a" else journal.abandon()
    assert len(os.listdir("/proc/self/fd")) == before


def _fill(journal: Journal) -> int:
    last = journal.position
    try:
        while True:
            last = journal.append(Marked("x" * 500))
    except JournalBroken:
        return last
