"""Two runs step by step: which belong together, what is otherwise, and where they part first."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from typing import Any

from paddock.journal.reader import Reader, Spot
from paddock.journal.traffic import mapping
from paddock.model.values import dataclass
from paddock.run.compare.aligning import Row, Sign, align
from paddock.run.compare.fields import FieldDifference, differences, shortened
from paddock.run.compare.moves import Move, answer_of, without_varying
from paddock.run.compare.trail import Trail, shared_before, whole_body


class Part(enum.StrEnum):
    """What may be otherwise in a step, in the order in which it comes about."""

    STEP = "step"  # only one of them has it
    PROPOSAL = "proposal"
    DECISION = "decision"
    OUTCOME = "outcome"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Pair:
    """A step of the first run, of the other, or of both."""

    here: Move | None
    there: Move | None
    parts: tuple[Part, ...] = ()  # that differ

    @property
    def what(self) -> str:
        """`same`, `only in A`, or what changed, first things first."""
        if not self.parts:
            return "same"
        if self.there is None:
            return "only in A"
        return "only in B" if self.here is None else f"{self.parts[0]} changed"

    @property
    def one(self) -> Move:
        """Whichever there is."""
        found = self.here or self.there
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two runs part first, and in what."""

    pair: Pair
    part: Part
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
            "differences": [one.as_json() for one in self.fields],
        }


@dataclass(frozen=True, slots=True)
class Pairing:
    """The first run against another."""

    here: Trail
    there: Trail
    pairs: tuple[Pair, ...]
    first: Divergence | None
    shared_before: int | None  # their past up to here is one and the same; 0: none is; None: all

    @property
    def counts(self) -> dict[str, int]:
        """How many pairs of which sort."""
        found = Counter(pair.what for pair in self.pairs)
        order = ["same", *(f"{part} changed" for part in Part), "only in A", "only in B"]
        return {what: found[what] for what in order if found[what]}


def pair(here: Trail, there: Trail, *, is_full: bool = False) -> Pairing:
    """Both must have been read. Bodies of the step where they part are read here."""
    shared = shared_before(here, there)
    mine, yours = here.moves, there.moves
    known = _same_steps(mine, yours, shared)
    rows = align([_sign(one) for one in mine], [_sign(one) for one in yours], known)
    pairs = tuple(_pair(row, mine, yours) for row in rows)
    return Pairing(here, there, pairs, _first(here, there, pairs, is_full=is_full), shared)


def details(
    here: Trail, there: Trail, of: Pair, part: Part, *, is_full: bool = False
) -> Divergence:
    """One part of a pair in both runs, read from their journals."""
    mine, yours = _told(here, of.here, part), _told(there, of.there, part)
    fields = differences(mine, yours, is_full=is_full) if mine and yours else []
    if not is_full:
        mine, yours = _shortened(mine), _shortened(yours)
    return Divergence(of, part, mine, yours, tuple(fields))


def _same_steps(mine: tuple[Move, ...], yours: tuple[Move, ...], shared: int | None) -> list[Row]:
    """In a common past steps have the same numbers. What a journal claims must fit all the same."""
    theirs = {move.step: (place, move.key) for place, move in enumerate(yours)}
    rows: list[Row] = []
    for place, move in enumerate(mine):
        other, key = theirs.get(move.step, (0, None))
        if key == move.key and (shared is None or move.step < shared):
            rows.append((place, other))
    return rows


def _sign(move: Move) -> Sign:
    return Sign(move.proposal, move.key, (move.kind, move.place))


def _pair(row: Row, mine: tuple[Move, ...], yours: tuple[Move, ...]) -> Pair:
    a, b = row
    here, there = None if a is None else mine[a], None if b is None else yours[b]
    if here is None or there is None:
        return Pair(here, there, (Part.STEP,))
    return Pair(here, there, _parts(here, there))


def _parts(here: Move, there: Move) -> tuple[Part, ...]:
    differs = {
        Part.PROPOSAL: here.proposal != there.proposal,
        Part.DECISION: _decision(here) != _decision(there),
        Part.OUTCOME: here.outcome != there.outcome,
        Part.ANSWER: here.answer != there.answer,
    }
    return tuple(part for part, is_other in differs.items() if is_other)


def _decision(move: Move) -> tuple[Any, ...]:
    return move.verdict, move.decided_by, dict(move.fault)


def _first(
    here: Trail, there: Trail, pairs: tuple[Pair, ...], *, is_full: bool
) -> Divergence | None:
    """The first in time: the answer to the agent's own command is the last thing that happens in
    a run, although the command is its first step."""
    found: tuple[float, int, Pair, Part] | None = None
    before = -1.0  # the record of the pair before, for steps that the first run does not have
    for number, one in enumerate(pairs):
        before = one.here.n if one.here is not None else before + 0.5
        for part in one.parts:
            moment = _moment(one, part, before)
            if found is None or (moment, number) < found[:2]:
                found = (moment, number, one, part)
    return None if found is None else details(here, there, *found[2:], is_full=is_full)


def _moment(one: Pair, part: Part, before: float) -> float:
    is_late = part in (Part.OUTCOME, Part.ANSWER)
    if one.here is None or not is_late:
        return before
    return float("inf") if one.here.ended_n is None else one.here.ended_n


def _told(trail: Trail, move: Move | None, part: Part) -> dict[str, Any] | None:
    if move is None:
        return None
    match part:
        case Part.DECISION:
            fault = {"fault": dict(move.fault)} if move.fault else {}
            words = {"verdict": move.verdict, "decided_by": move.decided_by, "why": move.why}
            return {**words, **fault}
        case Part.OUTCOME:
            return {"outcome": move.outcome, "status": move.status, "exit_code": move.exit_code}
        case Part.ANSWER:
            settled = {} if move.settled is None else _body(trail, move.settled)
            return answer_of(settled)
        case Part.STEP | Part.PROPOSAL:
            body = _body(trail, move.spot)
            given = without_varying(mapping(body.get("arguments")))
            return {"kind": move.kind, "name": move.name, "arguments": given}


def _body(trail: Trail, spot: Spot) -> Mapping[str, Any]:
    reader = Reader(trail.directory)
    return whole_body(reader, reader.record_at(spot))


def _shortened(told: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if told is None else {key: shortened(value) for key, value in told.items()}
