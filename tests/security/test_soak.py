"""A sandbox that floods its host in every way, next to one that does its work, in one process.

Nothing of the other one is lost, and what the flood costs the host has bounds: memory of the host
process, and disk. What it costs in time is a figure of the bench, and decides nothing.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bench.hostile import BUDGET_BYTES, FLOODS, flooding
from paddock import Sandbox
from paddock.doors.machine.engine import Engine
from paddock.gate.run_gate import signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.action import Kind
from paddock.run.report import report_of

FLOOD_S = 60.0
MAX_MEMORY_BYTES = 768 << 20  # that a flood adds to the host process
# Records beyond the budget are short; in a minute they cannot come to more than this.
MAX_STORED_BYTES = BUDGET_BYTES + (64 << 20)


class MemoryPeak(threading.Thread):
    """Looks at the memory of this process all the time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes_before = self.peak_bytes = self._resident_bytes()
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.05):
            self.peak_bytes = max(self.peak_bytes, self._resident_bytes())

    @staticmethod
    def _resident_bytes() -> int:
        return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

    def stop(self) -> int:
        self._is_over.set()
        self.join()
        return self.peak_bytes


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_flood_takes_nothing_from_another_sandbox_and_has_bounds() -> None:
    memory = MemoryPeak()
    memory.start()
    with Sandbox.create(timeout=200) as good:
        with flooding(FLOOD_S) as bad:
            done, delays = _work(good, FLOOD_S)
        good_run, bad_run = _journal(good), _journal(bad)
        wanted = "".join(f"{number}\n" for number in range(done))
        assert good.files.read("log.txt") == wanted, "what it wrote is there"
    peak = memory.stop()
    print(f"slowest {max(delays):.2f} s of {done}, peak {peak >> 20} MiB, {_told(bad_run)}")

    key = signing_key(Engine.current().home).public
    for run in (good_run, bad_run):
        report = verify(run, key, expect_closed=True)
        assert report.ok, report
    commands = [step for step in RunLog(good_run).steps() if step.proposed is not None]
    assert [step.kind for step in commands].count(Kind.EXEC) == done
    assert all(step.settled is not None for step in commands)
    assert peak - memory.bytes_before < MAX_MEMORY_BYTES
    assert _stored(bad_run) < MAX_STORED_BYTES
    found = report_of(bad_run)
    assert found.verdicts["block"] > 100 and found.left_out is not None, "it did flood"


def _work(box: Sandbox, duration_s: float) -> tuple[int, list[float]]:
    """Does its work as long as the flood lasts: each command has an answer, and the right one."""
    delays: list[float] = []
    until = time.monotonic() + duration_s
    while time.monotonic() < until:
        began, number = time.monotonic(), len(delays)
        result = box.commands.run(f"echo {number} >> log.txt; echo did {number}", timeout=60)
        assert result.stdout == f"did {number}\n"
        delays.append(time.monotonic() - began)
    return len(delays), delays


def _journal(box: Sandbox) -> Path:
    return Engine.current().home.runs / box.sandbox_id


def _stored(run: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in run.rglob("*"))


def _told(run: Path) -> str:
    report = report_of(run)
    return f"{_stored(run) >> 20} MiB stored of {', '.join(FLOODS)}: {dict(report.outcomes)}"
