"""A disk that fills up, for real: a small file system as PADDOCK_HOME, in a mount namespace.

The run ends with a sentence and exit code 8; what was acknowledged is on record, and whoever looks
at the journal afterwards reads it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
FULL = 8

PRELUDE = """
import os, subprocess, sys
from pathlib import Path

home = Path(os.environ["PADDOCK_HOME"])

def paddock(*words):
    command = [sys.executable, "-m", "paddock.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr, done.stderr
    return done

def fill(leave=0):
    with open(home / "filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            os.ftruncate(file.fileno(), max(0, file.tell() - leave))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pdf-") as name:
        (Path(name) / "h").mkdir()
        (Path(name) / "project").mkdir()
        yield Path(name)


def run_on_small_disk(place: Path, script: str, size: str = "48m") -> str:
    """Run a script whose home has that size; return what it printed."""
    mount = f'mount -t tmpfs -o size={size} none {place}/h && exec {sys.executable} -c "$SCRIPT"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount],
        env={**os.environ, "PADDOCK_HOME": f"{place}/h", "SCRIPT": PRELUDE + script},
        cwd=place / "project",
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_nothing_starts_on_a_full_disk(place: Path) -> None:
    run_on_small_disk(
        place,
        f"""
fill()
for command in (["run", "--", "true"], ["exec", "true"]):
    done = paddock(*command)
    assert done.returncode == {FULL}, done
    assert "nearly full" in done.stderr and "PADDOCK_HOME" in done.stderr, done
for command in (["runs"], ["doctor"]):
    paddock(*command)
""",
    )


def test_an_agent_that_fills_the_disk_ends_and_its_journal_is_read(place: Path) -> None:
    run_on_small_disk(
        place,
        f"""
(home / "spare").write_bytes(bytes(8 << 20))
agent = '''
import os, subprocess, time
subprocess.call(["true", "first"])
with open("large", "wb", buffering=0) as file:
    try:
        while True:
            file.write(os.urandom(1 << 16))
    except OSError:
        pass
while True:
    subprocess.call(["true", "more"])
    time.sleep(0.05)
'''
done = paddock("run", "--", sys.executable, "-c", agent)
assert done.returncode == {FULL}, done
assert "full" in done.stderr, done
run = os.listdir(home / "runs")[0]
shown = paddock("show", run)
assert shown.returncode == 0 and "true first" in shown.stdout, shown
assert paddock("runs").returncode == 0
# Closed if there was room for that; else interrupted, which is a status of its own.
assert paddock("verify", run).returncode in (0, 7)
(home / "spare").unlink()
again = paddock("run", "-q", "--", "true")
assert again.returncode == 0, again
assert paddock("show", run).returncode == 0
""",
    )


@pytest.mark.parametrize("megabytes", [30, 70], ids=["in one piece", "in parts"])
def test_storing_what_an_agent_left_takes_nothing_that_is_reserved(
    place: Path, megabytes: int
) -> None:
    """It ends between two looks at the disk; its files are stored after that."""
    run_on_small_disk(
        place,
        f"""
agent = '''
import os
with open("large", "wb") as file:
    for _ in range({megabytes}):
        file.write(os.urandom(1 << 20))
    os.fsync(file.fileno())
'''
done = paddock("run", "--", sys.executable, "-c", agent)
assert done.returncode == {FULL}, done
assert "/large is not stored: the disk of" in done.stderr, done
run = os.listdir(home / "runs")[0]
assert paddock("verify", run).returncode == 0
assert "nearly full" in paddock("files", run).stderr
""",
        size=f"{megabytes * 5 // 3}m",
    )


def test_a_write_without_room_breaks_the_journal_and_loses_nothing(place: Path) -> None:
    """The disk fills up between two looks: each kind of file of a journal meets it."""
    run_on_small_disk(
        place,
        """
from paddock.journal.errors import JournalFull
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.journal.integrity.verify import verify
from paddock.journal.writer import Journal
from paddock.journal.writer import Rhythm
from paddock.model.events import Marked
from paddock.model.events import Opened

key = SigningKey.open(home / "keys")

def records(journal, number):
    journal.append(Marked("r" * 3000, {"number": number}))

def blobs(journal, number):
    journal.append(Marked(f"{number:08}" * 4000, {"number": number}))

def messages(journal, number):
    messages = [{"role": "user", "content": f"{number:08}" * 400}]
    said = journal.conversations.request({"messages": messages}, "messages")
    journal.append(Marked("asked", {"number": number, "said": said}))

for write in (records, blobs, messages):
    place = home / "runs" / write.__name__
    opened = Opened(run=write.__name__, agent="a")
    journal = Journal.create(place, opened=opened, key=key, rhythm=Rhythm(segment_bytes=1 << 20))
    told = []
    journal.failure_listeners.append(told.append)
    fill(leave=3 << 20)
    acknowledged = 0
    try:
        while True:
            write(journal, acknowledged)
            acknowledged += 1
    except JournalFull as full:
        assert "No space left" in str(full) or "room" in str(full), full
    assert acknowledged > 50 and len(told) == 1, (acknowledged, told)
    journal.abandon()
    log = RunLog(place)
    marks = list(log.events(Marked))
    assert [record.event.data["number"] for record in marks] == list(range(acknowledged))
    for record in marks:
        log.whole(record)
    assert verify(place, key.public).ok
    (home / "filling").unlink()
    again = Journal.recover(place, key=key)
    write(again, acknowledged)
    again.close()
    assert verify(place, key.public, expect_closed=True).ok
""",
    )


def test_a_store_of_approvals_without_room_says_so(place: Path) -> None:
    run_on_small_disk(
        place,
        """
import pytest
from paddock.gate.drafts import Drafts
from paddock.gate.store import GateStore
from paddock.model.action import Action
from paddock.model.action import Effect
from paddock.model.action import Kind
from paddock.model.errors import OutOfSpace

drafts = Drafts(GateStore(home / "gate.sqlite"))
fill(leave=1 << 20)
added = 0
with pytest.raises(OutOfSpace, match="full"):
    while True:
        action = Action(Kind.TOOL, "pay", {"text": "x" * 50_000}, Effect.WRITE)
        drafts.add("run", "agent", added, action, None)
        added += 1
(home / "filling").unlink()
assert len(drafts.all()) == added > 0
""",
    )


def test_runs_are_listed_and_removed_where_no_byte_is_free(place: Path) -> None:
    """SQLite needs room to open a database in WAL mode even to read it."""
    run_on_small_disk(
        place,
        """
from paddock.gate.run_gate import signing_key
from paddock.journal.writer import Journal
from paddock.model.events import Opened
from paddock.state.home import Home

key = signing_key(Home.find())
for run in ("first", "second"):
    Journal.create(home / "runs" / run, opened=Opened(run=run, agent="a"), key=key).close()
assert "second" in paddock("runs").stdout
fill()
assert paddock("approvals").returncode == 8
listed = paddock("runs")
assert listed.returncode == 0 and "second" in listed.stdout, listed.stderr
removed = paddock("runs", "remove", "second", "--yes")
assert removed.returncode == 0, removed.stderr
assert not (home / "runs" / "second").exists()
""",
        size="2m",
    )
