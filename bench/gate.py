"""Measures what the gate adds to a command: deciding, recording, observing; nothing is executed."""

from __future__ import annotations

import asyncio
import time

from bench.figures import Figure, Limit, median_ms, spread_note
from bench.rig import Rig
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.gate.run_gate import open_gate
from paddock.model.action import Action, Effect, Kind
from paddock.model.events import ProgramEnded, ProgramStarted
from paddock.policy.file import default_policy
from paddock.state.home import Home

_COMMAND = {"argv": ["sh", "-c", "echo hi"], "cwd": "/home/user", "program": "sh"}
_RESULT = {"exit_code": 0, "duration_us": 1200, "stdout": "hi\n"}
_STARTED = ProgramStarted("/bin/bash", ["sh", "-c", "echo hi"], "/home/user", pid=5, parent=1)
_ENDED = ProgramEnded(pid=5, parent=1, exit_code=0, duration_us=1200)


def gate(rig: Rig) -> list[Figure]:
    """One command of a sandbox as the gate sees it: crossed, and its program seen twice."""
    home = Home(rig.scratch / "gate-home")
    home.make()
    opened = open_gate(home, "bench", default_policy())
    try:
        samples = asyncio.run(_samples(opened, rig.count(2000, 300)))
    finally:
        opened.close()
    return [
        Figure(
            name="gate",
            title="what the gate adds to a command",
            value=median_ms(samples),
            unit="ms",
            n=len(samples),
            limit=Limit(0.3),
            note=spread_note(samples),
        )
    ]


async def _samples(opened: Gate, count: int) -> list[float]:
    return [await _one(opened) for _ in range(count)]


async def _one(opened: Gate) -> float:
    async def live(action: Action) -> Done:
        opened.observe(_STARTED, action.step)
        opened.observe(_ENDED, action.step)
        return Done(record=_RESULT)

    began = time.perf_counter()
    await opened.cross(Action(Kind.EXEC, "sh", _COMMAND, Effect.WRITE, is_contained=True), live)
    return time.perf_counter() - began
