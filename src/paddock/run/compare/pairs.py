"""Two runs step by step: which belong together, what is otherwise, and where they part first."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.events import JsonObject, Proposed, Settled
from paddock.model.steps import Step
from paddock.run.compare.alignment import Row, Sign, align
from paddock.run.compare.compared_step import MAX_NAME, ComparedStep, answer_of, without_varying
from paddock.run.compare.fields import FieldDifference, differences, shortened
from paddock.run.compare.trail import Trail, shared_before, whole_record


class StepPart(enum.StrEnum):
    """The parts of a step that may differ, in the order in which they come about."""

    STEP = "step"  # only one of them has it
    PROPOSAL = "proposal"
    DECISION = "decision"
    OUTCOME = "outcome"
    ANSWER = "answer"


class Pair(msgspec.Struct, frozen=True):
    """A step of the first run, of the other, or of both."""

    here: ComparedStep | None
    there: ComparedStep | None
    parts: tuple[StepPart, ...] = ()  # that differ

    @property
    def what(self) -> str:
        """`same`, `only in A`, or what changed, first things first."""
        if not self.parts:
            return "same"
        if self.there is None:
            return "only in A"
        return "only in B" if self.here is None else f"{self.parts[0]} changed"

    @property
    def one(self) -> ComparedStep:
        """Whichever there is."""
        step = self.here or self.there
        assert step is not None
        return step


class FirstDifference(msgspec.Struct, frozen=True):
    """The step at which two runs part first, and in what."""

    pair: Pair
    part: StepPart
    here: Mapping[str, Any] | None  # that part, in each of them
    there: Mapping[str, Any] | None
    fields: tuple[FieldDifference, ...] = ()

    def as_json(self) -> dict[str, Any]:
        mine, yours = self.pair.here, self.pair.there
        return {
            "part": self.part.value,
            "a_step": None if mine is None else mine.step,
            "b_step": None if yours is None else yours.step,
            "a": self.here,
            "b": self.there,
            "differences": [field.as_json() for field in self.fields],
        }


class Pairing(msgspec.Struct, frozen=True):
    """The first run against another."""

    here: Trail
    there: Trail
    pairs: tuple[Pair, ...]
    first: FirstDifference | None
    shared_before: int | None  # their past up to here is one and the same; 0: none is; None: all

    @property
    def counts(self) -> dict[str, int]:
        """The number of pairs of each sort."""
        counts = Counter(pair.what for pair in self.pairs)
        order = ["same", *(f"{part} changed" for part in StepPart), "only in A", "only in B"]
        return {what: counts[what] for what in order if counts[what]}


def pair(here: Trail, there: Trail, *, is_full: bool = False) -> Pairing:
    """Return two runs step by step. Large values are read only of the step where they part."""
    shared = shared_before(here, there)
    mine, yours = here.steps, there.steps
    certain = _same_steps(mine, yours, shared)
    rows = align([_sign(step) for step in mine], [_sign(step) for step in yours], certain)
    pairs = tuple(_pair(row, mine, yours) for row in rows)
    return Pairing(here, there, pairs, _first(here, there, pairs, is_full=is_full), shared)


def details(
    here: Trail, there: Trail, of: Pair, part: StepPart, *, is_full: bool = False
) -> FirstDifference:
    """Return the difference in one part of a pair, read from both journals."""
    mine, yours = _part_of(here, of.here, part), _part_of(there, of.there, part)
    fields = differences(mine, yours, is_full=is_full) if mine and yours else []
    if not is_full:
        mine, yours = _shortened(mine), _shortened(yours)
    return FirstDifference(of, part, mine, yours, tuple(fields))


def _same_steps(
    mine: tuple[ComparedStep, ...], yours: tuple[ComparedStep, ...], shared: int | None
) -> list[Row]:
    """Return the pairs of a common past, in which steps have the same numbers. What a journal
    claims must fit all the same."""
    theirs = {step.step: (index, step.key) for index, step in enumerate(yours)}
    rows: list[Row] = []
    for index, step in enumerate(mine):
        other, key = theirs.get(step.step, (0, None))
        if key == step.key and (shared is None or step.step < shared):
            rows.append((index, other))
    return rows


def _sign(step: ComparedStep) -> Sign:
    return Sign(step.proposal, step.key, (step.recorded.kind, step.place))


def _pair(row: Row, mine: tuple[ComparedStep, ...], yours: tuple[ComparedStep, ...]) -> Pair:
    a, b = row
    here, there = None if a is None else mine[a], None if b is None else yours[b]
    if here is None or there is None:
        return Pair(here, there, (StepPart.STEP,))
    return Pair(here, there, _parts(here, there))


def _parts(here: ComparedStep, there: ComparedStep) -> tuple[StepPart, ...]:
    differs = {
        StepPart.PROPOSAL: here.proposal != there.proposal,
        StepPart.DECISION: _decision(here.recorded) != _decision(there.recorded),
        StepPart.OUTCOME: here.recorded.outcome != there.recorded.outcome,
        StepPart.ANSWER: here.answer != there.answer,
    }
    return tuple(part for part, is_other in differs.items() if is_other)


def _decision(step: Step) -> tuple[Any, ...]:
    return step.verdict, step.decided_by, dict(step.fault)


def _first(
    here: Trail, there: Trail, pairs: tuple[Pair, ...], *, is_full: bool
) -> FirstDifference | None:
    """Return the first difference in time. The answer to the agent's own command is the last thing
    that happens in a run, although the command is its first step."""
    first: tuple[float, int, Pair, StepPart] | None = None
    # The record of the pair before, for steps that the first run does not have.
    before = -1.0
    for number, candidate in enumerate(pairs):
        before = _number(candidate.here, Proposed) if candidate.here is not None else before + 0.5
        for part in candidate.parts:
            position = _moment(candidate, part, before)
            if first is None or (position, number) < first[:2]:
                first = (position, number, candidate, part)
    return None if first is None else details(here, there, *first[2:], is_full=is_full)


def _moment(pair: Pair, part: StepPart, before: float) -> float:
    is_late = part in (StepPart.OUTCOME, StepPart.ANSWER)
    return _number(pair.here, Settled) if pair.here is not None and is_late else before


def _number(step: ComparedStep, event: type[Proposed] | type[Settled]) -> float:
    """Return the number of the record of an event; later than any if it did not come."""
    record = step.recorded.record(event)
    return math.inf if record is None else record.n


def _part_of(trail: Trail, step: ComparedStep | None, part: StepPart) -> JsonObject | None:
    if step is None:
        return None
    recorded = step.recorded
    match part:
        case StepPart.DECISION:
            fault = {"fault": dict(recorded.fault)} if recorded.fault else {}
            decision = {"verdict": recorded.verdict, "decided_by": recorded.decided_by}
            return {**decision, "why": recorded.why, **fault}
        case StepPart.OUTCOME:
            status, exit_code = recorded.status, recorded.exit_code
            return {"outcome": recorded.outcome, "status": status, "exit_code": exit_code}
        case StepPart.ANSWER:
            return answer_of(_whole(trail, recorded).settled)
        case StepPart.STEP | StepPart.PROPOSAL:
            arguments = without_varying(_whole(trail, recorded).arguments)
            name = recorded.name[:MAX_NAME]
            return {"kind": recorded.kind, "name": name, "arguments": arguments}


def _whole(trail: Trail, step: Step) -> Step:
    return Step(step.number, [whole_record(trail.log, record) for record in step.records])


def _shortened(result: JsonObject | None) -> JsonObject | None:
    return None if result is None else {key: shortened(value) for key, value in result.items()}
