"""Writers that are killed: what they were told is written, is there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal
from repetition import times

# Serves commands on its input: a directory to write in until it is killed. Prints what it wrote.
WRITER = """
import os, sys
from pathlib import Path
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.writer import Journal
from paddock.journal.writer import Rhythm
from paddock.model.events import Marked
from paddock.model.events import Opened
from paddock.journal.writer import JournalEntry
key = SigningKey.open(Path(sys.argv[1]))
rhythm = Rhythm(head_records=20, segment_bytes=20_000)
for line in sys.stdin:
    directory = Path(line.strip())
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        print("gone", flush=True)
        continue
    print("pid", os.getpid(), flush=True)
    journal = Journal.create(directory, opened=Opened(directory.name, "a"), key=key,
                             rhythm=rhythm)
    i = 0
    while True:
        i += 1
        one = JournalEntry(Marked("x" * (i * 37 % 3000), {"i": i}))
        many = [one] * (1 + i % 3)
        os.write(1, b"%d\\n" % journal.extend(many))
        if i % 50 == 0:
            journal.append(Marked(str(i) * 9000))
"""


@pytest.mark.repeated
def test_kills_lose_no_acknowledged_record(tmp_path: Path, key: SigningKey) -> None:
    command = [sys.executable, "-c", WRITER, str(key.directory)]
    chance = random.Random(8785)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        for kill in range(times(20, 200)):
            directory = tmp_path / f"run-{kill}"
            writer.stdin.write(f"{directory}\n".encode())
            writer.stdin.flush()
            pid = int(writer.stdout.readline().split()[1])
            # The writer runs on while this is read: the kill strikes it anywhere.
            said = [int(writer.stdout.readline()) for _ in range(chance.randrange(60))]
            os.kill(pid, signal.SIGKILL)
            _check(directory, said + _until_gone(writer), key)
            shutil.rmtree(directory, ignore_errors=True)


def _until_gone(writer: subprocess.Popen[bytes]) -> list[int]:
    assert writer.stdout is not None
    said: list[int] = []
    while (line := writer.stdout.readline().strip()) != b"gone":
        said.append(int(line))
    return said


def _check(directory: Path, said: list[int], key: SigningKey) -> None:
    if not said:
        return  # killed before the first record
    before = {record.n for record in RunLog(directory).events()}
    assert max(said) in before
    assert before == set(range(max(before) + 1))
    journal = Journal.recover(directory, key=key)
    journal.close()
    report = verify(directory, key.public, expect_closed=True)
    assert report.ok, report
    after = {record.n for record in RunLog(directory).events()}
    assert before <= after
