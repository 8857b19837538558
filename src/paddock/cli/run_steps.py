"""What a display knows of a run: the steps that are under way, what all of them come to, and how
many lines a second a person can follow. Nothing is written here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from paddock.cli.run_lines import StepSeen
from paddock.journal.records import Record
from paddock.journal.traffic import mapping
from paddock.model.plural import many

MAX_LINES_A_SECOND = 200
_MAX_OPEN = 10_000  # steps without an end: no honest run has so many at once
_AGENT_STEP = 1


class Steps:
    """The steps that are under way, and what all of them come to."""

    def __init__(self) -> None:
        self.count = 0
        self.verdicts: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()
        self._open: dict[int, StepSeen] = {}
        self._inner: dict[int, StepSeen] = {}  # that ended, by the request around it
        self._running: dict[int, StepSeen] = {}  # programs that were let through, by step

    def take(self, record: Record) -> StepSeen | None:
        """The step, when there is a line to be written about it."""
        number, body = record.step, record.body
        if number is None:
            return None
        if record.type.value == "proposed":
            self._begin(StepSeen(number, record.at, body))
            return None
        if record.type.value == "observed":
            return self._ended(number, body)
        step = self._open.get(number)
        if step is None:
            return None
        match record.type.value:
            case "decided":
                return self._decided(step, body)
            case "answered":
                by = f" by {body['by']}" if body.get("by") else ""
                reason = f" ({body['reason']})" if body.get("reason") else ""
                step.answer = f"{body.get('state')}{by}{reason}"
            case "settled":
                return self._settled(step, record)
        return None

    def within(self, step: StepSeen) -> StepSeen | None:
        """The question to a model that the request was, where both are steps: it ends first, and
        is told behind what it is part of."""
        return self._inner.pop(step.number, None)

    def under_way(self, number: int | None) -> StepSeen | None:
        """The step of that number, if it has not ended."""
        return None if number is None else self._open.get(number)

    def oldest(self) -> StepSeen | None:
        """What the agent waits for longest; its own program is no such thing."""
        under_way = {**self._open, **self._running}
        return next((under_way[n] for n in sorted(under_way) if n != _AGENT_STEP), None)

    def rest(self) -> list[StepSeen]:
        """Steps that have no end."""
        left = [one for number, one in self._open.items() if number != _AGENT_STEP]
        for one in left:
            one.outcome = "no end was recorded"
        self._open.clear()
        left = sorted([*left, *self._running.values()], key=lambda one: one.number)
        self._running.clear()
        told = [one for outer in left for one in (outer, self.within(outer)) if one is not None]
        self._inner.clear()
        return told

    def _begin(self, step: StepSeen) -> None:
        self.count += 1
        if len(self._open) >= _MAX_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[step.number] = step

    def _decided(self, step: StepSeen, body: Mapping[str, Any]) -> StepSeen | None:
        step.verdict, step.by = str(body.get("verdict")), str(body.get("decided_by"))
        step.why, step.is_again = str(body.get("why") or ""), "again" in body
        self.verdicts[step.verdict] += 1
        # The agent itself lasts as long as the run: its line must not wait for its end.
        return step if step.number == _AGENT_STEP and step.verdict == "allow" else None

    def _settled(self, step: StepSeen, record: Record) -> StepSeen | None:
        del self._open[step.number]
        body = record.body
        step.outcome, step.error = str(body.get("outcome")), str(body.get("error") or "")
        step.result, step.cost = mapping(body.get("result")), mapping(body.get("cost"))
        step.duration_us = max(record.at - step.at, 0)
        for key in ("input_tokens", "output_tokens", "usd_micros"):
            if type(step.cost.get(key)) is int:
                self.spent[key] += step.cost[key]
        parent = step.body.get("parent")
        outer = self._open.get(parent) if isinstance(parent, int) else None
        if step.kind == "model" and outer is not None and outer.kind == "http":
            self._inner[outer.number] = step
            return None
        if step.number == _AGENT_STEP and step.verdict == "allow":
            return None
        if mapping(body.get("result")).get("let_through") and len(self._running) < _MAX_OPEN:
            # A program that a program starts is settled when it is let through; it is over, and
            # its time is known, when it has ended.
            step.duration_us = None
            self._running[step.number] = step
            return None
        return step

    def _ended(self, number: int, body: Mapping[str, Any]) -> StepSeen | None:
        """The step whose program has ended; the end of one that it started is none."""
        step = self._running.get(number)
        is_own = (
            step is not None
            and body.get("what") == "exit"
            and (body.get("pid") == mapping(step.body.get("arguments")).get("pid"))
        )
        if step is None or not is_own:
            return None
        taken = body.get("duration_us")
        step.duration_us = taken if type(taken) is int else None
        return self._running.pop(number)


class Rate:
    """So many lines a second; of the others, how many there were and what was decided."""

    def __init__(self) -> None:
        self._since = 0.0
        self._lines = 0
        self._others: Counter[str] = Counter()

    def is_full(self, step: StepSeen) -> bool:
        now = time.monotonic()
        if now - self._since >= 1.0:
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines <= MAX_LINES_A_SECOND and not self._others:
            return False
        self._others[step.verdict] += 1
        return True

    def left_out(self, now: float, *, is_over: bool) -> str:
        """What is to be said of them, once the second is over."""
        if not self._others or (now - self._since < 1.0 and not is_over):
            return ""
        count = sum(self._others.values())
        by = ", ".join(f"{one} {number}" for one, number in sorted(self._others.items()))
        self._others.clear()
        return f"      ... {many(count, 'more step')} ({by})"
