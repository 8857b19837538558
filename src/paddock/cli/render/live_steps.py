"""The state of a display: the steps that are under way, what all of them come to, and how many
lines a second a person can follow. Nothing is written here.
"""

from __future__ import annotations

import time
from collections import Counter

from paddock.cli.output import counts
from paddock.model.action import Kind, Verdict
from paddock.model.events import (
    Answered,
    Decided,
    ProgramEnded,
    ProgramStarted,
    Proposed,
    Record,
    Settled,
)
from paddock.model.plural import many
from paddock.model.steps import Step

MAX_LINES_A_SECOND = 200
_MAX_OPEN = 10_000  # steps without an end: no honest run has so many at once


class Steps:
    """The steps that are under way, and what all of them come to.

    A step grows with each record that is about it. Most are told when they are settled. There are
    three exceptions: the agent's own step is told when it is decided on, because it lasts as long
    as the run; a program that another program starts is settled when it is let through, and told
    when it has ended; a call of a model is told behind the request that carries it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.verdicts: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()
        self._open: dict[int, Step] = {}
        self._inner: dict[int, Step] = {}  # settled calls of models, by the request around them
        self._running: dict[int, Step] = {}  # programs that were let through

    def take(self, record: Record) -> Step | None:
        """Add a record. Return its step when there is a line to be written about it."""
        number = record.step
        if number is None:
            return None
        match record.event:
            case Proposed():
                self._begin(Step(number, [record]))
            case Decided() if number in self._open:
                return self._take_decision(self._add_record(self._open, number, record))
            case Answered() if number in self._open:
                self._add_record(self._open, number, record)
            case Settled() if number in self._open:
                return self._take_settlement(self._add_record(self._open, number, record))
            case ProgramStarted(pid=pid) if self._is_own_program(number, pid):
                if not self._running[number].programs:
                    self._add_record(self._running, number, record)
            case ProgramEnded(pid=pid) if self._is_own_program(number, pid):
                self._add_record(self._running, number, record)
                return self._running.pop(number)
        return None

    def within(self, step: Step) -> Step | None:
        """Return the call of a model that the request carried, where both are steps: it ends first
        and is told behind what it is part of."""
        return self._inner.pop(step.number, None)

    def under_way(self, number: int | None) -> Step | None:
        """Return the step of that number, if it has not ended."""
        return None if number is None else self._open.get(number)

    def oldest(self) -> Step | None:
        """Return what the agent waits for longest; its own program is no such thing."""
        under_way = {**self._open, **self._running}
        return next((under_way[n] for n in sorted(under_way) if not under_way[n].is_agent), None)

    def rest(self) -> list[Step]:
        """Return the steps that have no end, or whose end was not told."""
        unsettled = [step for step in self._open.values() if not step.is_agent]
        left = sorted([*unsettled, *self._running.values()], key=lambda step: step.number)
        self._open.clear()
        self._running.clear()
        steps = [step for outer in left for step in (outer, self.within(outer)) if step is not None]
        self._inner.clear()
        return steps

    def _add_record(self, steps: dict[int, Step], number: int, record: Record) -> Step:
        steps[number] = Step(number, [*steps[number].records, record])
        return steps[number]

    def _begin(self, step: Step) -> None:
        self.count += 1
        if len(self._open) >= _MAX_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[step.number] = step

    def _take_decision(self, step: Step) -> Step | None:
        self.verdicts[step.verdict or "-"] += 1
        return step if step.is_agent and step.verdict is Verdict.ALLOW else None

    def _take_settlement(self, step: Step) -> Step | None:
        del self._open[step.number]
        for key in ("input_tokens", "output_tokens", "usd_micros"):
            if type(step.cost.get(key)) is int:
                self.spent[key] += step.cost[key]
        outer = None if step.parent is None else self._open.get(step.parent)
        if step.kind is Kind.MODEL and outer is not None and outer.kind is Kind.HTTP:
            self._inner[outer.number] = step
            return None
        if step.is_agent and step.verdict is Verdict.ALLOW:
            return None
        if step.result.get("let_through") and len(self._running) < _MAX_OPEN:
            self._running[step.number] = step
            return None
        return step

    def _is_own_program(self, number: int, pid: int | None) -> bool:
        """Return whether a process is the program of a step, and not one that it started."""
        step = self._running.get(number)
        return step is not None and step.arguments.get("pid") == pid


class LineRate:
    """A limit on lines a second. The others are counted, with what was decided about them."""

    def __init__(self) -> None:
        self._since = 0.0
        self._lines = 0
        self._others: Counter[str] = Counter()

    def is_full(self, step: Step) -> bool:
        now = time.monotonic()
        if now - self._since >= 1.0:
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines <= MAX_LINES_A_SECOND and not self._others:
            return False
        self._others[step.verdict or "-"] += 1
        return True

    def left_out(self, now: float, *, is_over: bool) -> str:
        """Return what is to be said of them, once the second is over."""
        if not self._others or (now - self._since < 1.0 and not is_over):
            return ""
        text = f"      ... {many(self._others.total(), 'more step')} ({counts(self._others)})"
        self._others.clear()
        return text
