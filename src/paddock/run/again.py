"""A run lived through again: each action that the agent proposes is found in the record, and gets
the answer that it got. It may go on live from a step on; what is not in the record ends it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, assert_never

from paddock.doors.network.requests import SENT
from paddock.gate.past import Departed, Edited, Met
from paddock.journal.errors import JournalBroken
from paddock.journal.keyed import Keyed, keyed_leaves
from paddock.journal.reader import Reader
from paddock.journal.sealing import Sealer
from paddock.model.action import Action, Kind
from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.values import dataclass
from paddock.run.asides import Asides
from paddock.run.epochs import Epoch, Epochs
from paddock.run.matching.candidates import told_by_body
from paddock.run.matching.compare import compare
from paddock.run.matching.past import Past
from paddock.run.matching.rows import (
    ABSENT,
    Beside,
    Difference,
    Diverged,
    DivergedBy,
    Early,
    Live,
    Match,
    Row,
    View,
)
from paddock.run.matching.rules import Rules
from paddock.run.matching.showing import visible
from paddock.run.matching.view import row_view, view_of
from paddock.run.patience import PATIENCE_S, Patience
from paddock.run.tape import Tape, compared_arguments

if TYPE_CHECKING:
    from paddock.gate.gate import Gate

_STUCK_S = 2.0  # after so long without a move, what holds a program may wait for the program
AGENT = 1  # the step of its own program
_MAX_NOTED = 20
GoLive = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a run left its record, and how."""

    kind: str
    step: int | None
    differences: tuple[Difference, ...]
    recorded: View | None
    proposed: View | None

    @property
    def text(self) -> str:
        """In one sentence."""
        where = "after its last step" if self.step is None else f"at step {self.step}"
        if self.kind == DivergedBy.UNKEPT and self.differences:
            return f"the record ends {where}: {self.differences[0].recorded!s:.300}"
        if self.differences:
            first = self.differences[0]
            told = f"{visible(first.at)} was {first.recorded!r:.200}, is {first.proposed!r:.200}"
            return f"it left its record {where}: {told}"
        return f"it left its record {where}: {_SAID[self.kind]}"

    def as_note(self) -> dict[str, Any]:
        found = [
            {"at": one.at, "recorded": _shown(one.recorded), "proposed": _shown(one.proposed)}
            for one in self.differences[:_MAX_NOTED]
        ]
        said = {"what": "diverged", "kind": self.kind, "differences": found}
        views = {"recorded": self.recorded, "proposed": self.proposed}
        shown = {k: {"name": v.name, **v.parts} for k, v in views.items() if v is not None}
        return {**said, **({} if self.step is None else {"step": self.step}), **shown}


_SAID = {
    "changed": "something else was proposed",
    "extra": "the record has nothing more",
    "missing": "this step did not come",
    "order": "it came before what it came after",
    "unkept": "the record does not have all of its answer",
}


async def _at_once() -> None:
    """Waits for nobody."""


@dataclass(slots=True)
class Manner:
    """How a record is lived through."""

    rules: Rules
    until: int | None = None  # from this step on it is live
    epochs: tuple[Epoch, ...] = ()  # other terms, from their steps on
    patience_s: float = PATIENCE_S  # beyond how long it took in the record
    is_stopped: bool = True  # at the first divergence
    is_other_agent: bool = False  # its command was given anew, and is not compared
    go_live: GoLive | None = None
    stop: Callable[[], None] = field(default=lambda: None)
    pace: Callable[[], Awaitable[None]] = field(default=_at_once)  # before each answer


class ForkRefused(InvalidInput):
    """The files at a step cannot be had back; the message says why, the hint where they can."""


class LivedThrough:
    """What the gate meets before its rules. Used on one loop."""

    def __init__(self, tape: Tape, manner: Manner, keyed: Keyed, sealer: Sealer) -> None:
        self._tape = tape
        self._manner = manner
        self._keyed = keyed
        self._sealer = sealer
        self._past = Past(tape.rows, manner.rules)
        if manner.until is not None:
            self._past.until(manner.until)
        self._rows = {row.step: row for row in self._past.rows}
        self.optional = self._past.optional
        awaited = [row for row in self._past.rows if row.step not in self.optional]
        self.epochs = Epochs(manner.epochs, awaited)
        self.asides = Asides(tape.run, self._past.rows)
        self._moved = asyncio.Event()
        self._turning = asyncio.Lock()
        self._inner: set[int] = set()  # steps inside others that came again
        self._refused: set[int] = set()
        self._open: set[int] = set()  # whose answers have begun and are not over
        around = [self._rows.get(row.is_within or 0) for row in tape.rows if row.kind is Kind.MODEL]
        self._requests = {_endpoint(row.arguments) for row in around if row is not None}
        alike = told_by_body(self._past.rows)
        self._told_by_body = {_endpoint(row.arguments) for row in alike}
        self._patience = Patience(tape.moments(), manner.patience_s)
        self._is_begun = False
        self._is_live = False
        self._is_varied_told = False
        self._gate: Gate | None = None
        self._own: Reader | None = None
        self.divergence: Divergence | None = None
        self.refusal: ForkRefused | None = None

    def attend(self, gate: Gate) -> None:
        """The gate whose past it is; what is new gets numbers behind those of the record."""
        self._gate = gate
        behind = self._manner.until or self._tape.last_step + 1
        gate.count_from(behind, self._tape.inside_from(behind))

    async def meet(self, action: Action) -> Met | None:
        try:
            return None if self._is_live else await self._meet(action)
        except ForkRefused as refusal:
            self.refusal = refusal
            self._move()
            raise Departed(f"{refusal.message}.") from None
        except PaddockError as error:  # of the record, or of what it takes to go live
            raise self._depart(_unusable(error), None) from None

    async def _meet(self, action: Action) -> Met | None:
        view = self._agent(action) or self._view(action)
        inner = self._tape.inner(action.parent or 0, action.kind)
        if inner is not None and inner.step not in self._inner:
            return self._met_inside(inner, view)
        is_stuck = False
        while True:
            match self._past.propose(view, is_stuck=is_stuck):
                case Match(row, is_again):
                    self._move()
                    await self.epochs.come(row.step, is_answered=False)
                    return self._met(row, is_repeat=is_again)
                case Beside() as beside:
                    # Nothing moves by it: who waits must not wait for ever.
                    return self._met_beside(beside, action)
                case Live():
                    await self._go_live()
                    return None
                case Diverged() as found:
                    raise self._depart(found, view)
                case Early(row, waits_for):
                    limit_s = self._patience.for_turn(row, waits_for)
                    may_be_stuck = not is_stuck and row is not None and row.is_contained
                    if may_be_stuck:
                        limit_s = min(limit_s, _STUCK_S)
                    if await self._patience.waits(self._moved, limit_s):
                        continue
                    if not may_be_stuck:
                        raise self._depart(self._past.give_up(view), view)
                    is_stuck = True
                case _ as never:
                    assert_never(never)

    def _agent(self, action: Action) -> View | None:
        """Another version of the agent is its first step, whatever its command is."""
        first, self._is_begun = not self._is_begun, True
        own = self._rows.get(AGENT)
        if not first or own is None or not self._manner.is_other_agent:
            return None
        return row_view(own) if action.kind is own.kind else None

    def _met_beside(self, found: Beside, action: Action) -> Met:
        assert self._gate is not None
        row = found.row
        met = None if row is None else self._met(row, is_repeat=found.is_again)
        return self.asides.found(found, met, action, self._gate.policy)

    def _met_inside(self, row: Row, view: View) -> Met:
        """A step inside another one, which has been found already."""
        self._inner.add(row.step)
        found = compare(row_view(row), view, self._manner.rules)
        if found:
            raise self._depart(Diverged(DivergedBy.CHANGED, row, found), view)
        return self._met(row)

    def refused(self, action: Action) -> Met | None:
        if self._is_live:
            return None
        view = self._view(action)
        rule = self._past.beside(view)
        if rule is not None:
            return self.asides.refused(rule)
        match self._past.refused(view):
            case Row() as row:
                is_repeat = row.step in self._refused
                self._refused.add(row.step)
                return self._met(row, is_repeat=is_repeat)
            case Live():
                return None
            case Diverged() as found:
                raise self._depart(found, view)
            case _ as never:
                assert_never(never)

    def has_request(self, request: Action) -> bool:
        return not self._is_live and _endpoint(request.arguments) in self._requests

    def needs_body(self, request: Action) -> bool:
        return not self._is_live and _endpoint(request.arguments) in self._told_by_body

    async def turn(self, met: Met) -> None:
        if met.beside is not None:
            return
        row = self._rows[met.step]
        limit_s = self._patience.for_answer(row)
        while row.is_within is None and not self._past.may_answer(row):
            if not await self._patience.waits(self._moved, limit_s):
                raise self._depart(self._past.give_up_answer(row), None)
        await self._until_over(row.answer_n)
        # Who of several was answered first is seen by an agent only when it is left the time.
        await self._manner.pace()
        await self.epochs.come(row.step, is_answered=True)
        self._open.add(row.step)
        self._answer(row)

    async def _until(self, row: Row, n: int) -> None:
        """Hold a part of an answer that goes on until what came before it then has come again."""
        limit_s = self._patience.for_answer(row)
        while late := [one for one in self._past.before(n) if one.step != row.step]:
            if not await self._patience.waits(self._moved, limit_s):
                raise self._depart(Diverged(DivergedBy.MISSING, late[0]), None)

    async def _until_end(self, row: Row, n: int) -> None:
        """Hold the end of an answer as its parts, and until the answers that were over before it
        then are over again, and have been taken."""
        await self._until(row, n)
        await self._until_over(n)
        await self._manner.pace()

    async def _until_over(self, n: float) -> None:
        """Wait for answers that have begun, and were over before a record. Not for long: a client
        may be slow to take its answer, and the order of what is over matters to few agents."""
        while any((self._rows[one].settled_n or math.inf) <= n for one in self._open):
            if not await self._patience.waits(self._moved, _STUCK_S):
                return

    def over(self, met: Met) -> None:
        if met.beside is None:
            self._open.discard(met.step)
            self._answer(self._rows[met.step])

    def _answer(self, row: Row) -> None:
        """From now on the agent may act on it."""
        if row.is_within is None:
            self._past.answered(row)
        self._move()

    async def finish(self) -> None:
        """The agent of a fork has ended. Without having gone live it has left its record, unless
        the fork begins behind its last step: then that is now."""
        if self.end() is not None or self._is_live or self.refusal is not None:
            return
        first = self._rows.get(self._manner.until or 0)
        if first is not None:
            if first.is_candidate and first.step not in self.optional:
                self._depart(Diverged(DivergedBy.MISSING, first), None)
            return
        try:
            await self._go_live()
        except ForkRefused as refusal:
            self.refusal = refusal

    def end(self) -> Divergence | None:
        """The agent has ended: what it did not do any more is a divergence too."""
        missing = None if self._is_live or self.divergence else self._past.ended()
        if missing is not None:
            self._depart(missing, None)
        self._tell_asides()
        return self.divergence

    @property
    def varied(self) -> Mapping[str, int]:
        """Return what was different in steps that matched, and let vary: how often, by label."""
        return dict(self._past.varied)

    def _tell_asides(self) -> None:
        notes = [self.asides.told(self._manner.until)]
        if self.varied and not self._is_varied_told:
            self._is_varied_told = True
            notes.append({"what": "varied", "fields": dict(self.varied)})
        for note in notes:
            if note is not None and self._gate is not None:
                with contextlib.suppress(JournalBroken):
                    self._gate.note(note)

    def _met(self, row: Row, *, is_repeat: bool = False) -> Met:
        settled, step = self._tape.settled(row.step), row.step
        return Met(
            run=self._tape.run,
            step=step,
            decision=self._tape.decision(step),
            outcome=settled.outcome,
            result=settled.result,
            error=settled.error,
            cost=settled.cost,
            answered_by=settled.answered_by,
            draft_id=settled.draft_id,
            is_repeat=is_repeat,
            is_silent=row.is_silent,
            edited=self._edited(step),
            within=() if row.kind is not Kind.MODEL else self._tape.within(step),
            departed=lambda at, recorded, proposed: self._unanswerable(row, at, recorded, proposed),
            is_same_body=self._past.is_same_body,
            is_same_text=self._past.is_same_text,
            until=lambda n: self._until(row, n),
            until_end=lambda n: self._until_end(row, n),
            wait_s=self._patience.for_answer(row),
            pieces=self._tape.pieces(step),
            unsealed=lambda: self._unsealed(settled.result),
        )

    def _edited(self, step: int) -> Edited | None:
        found = self._tape.edited(step)
        if found is None:
            return None
        action, entries = found
        return Edited(action, self._met(self._rows[action.step or 0]), entries)

    def _unsealed(self, result: Any) -> list[tuple[str, str]]:
        text = result.get("sealed") if isinstance(result, Mapping) else None
        if text is None:
            return []
        pairs = self._sealer.unseal(str(text), self._tape.root)
        return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]

    def _unanswerable(self, row: Row, at: str | None, recorded: Any, proposed: Any) -> Departed:
        if at is None:
            found = Diverged(DivergedBy.UNKEPT, row, (Difference("answer", recorded, proposed),))
        else:
            found = Diverged(DivergedBy.CHANGED, row, (Difference(at, recorded, proposed),))
        return self._depart(found, None)

    def _depart(self, found: Diverged, view: View | None) -> Departed:
        """Writes it down, once, and ends the agent where that is wanted."""
        recorded = None if found.row is None else row_view(found.row)
        one = Divergence(str(found.kind), found.step, found.differences, recorded, view)
        self.note(one)
        self._move()
        return Departed(f"{one.text[:1].upper()}{one.text[1:]}.")

    def note(self, one: Divergence) -> None:
        """The first is what counts."""
        if self.divergence is not None:
            return
        self.divergence = one
        with contextlib.suppress(JournalBroken):
            assert self._gate is not None
            self._gate.note(one.as_note())
        if self._manner.is_stopped:
            self._manner.stop()

    async def _go_live(self) -> None:
        """Once; who comes meanwhile waits for it."""
        async with self._turning:
            await self.epochs.come(self._manner.until or 0, is_answered=False)
            self._tell_asides()
            if not self._is_live and self._manner.go_live is not None:
                await self._manner.go_live()
            self._is_live = True
            self._move()

    def _view(self, action: Action) -> View:
        assert self._gate is not None
        if self._own is None:
            self._own = Reader(self._gate.writing.journal.directory)
        try:
            arguments = compared_arguments(self._own, action)
        except PaddockError as error:
            raise Departed(f"What was proposed cannot be read: {error}") from None
        masked = self._gate.writing.masked(arguments)
        keyed = dict(action.context.get("keyed") or {})
        if masked != arguments:
            keyed |= keyed_leaves(self._keyed, arguments, masked)
        view = view_of(action.kind, action.name, masked, keyed)
        return replace(view, sent=action.context.get(SENT))

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


def _endpoint(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(repr(arguments.get(key)) for key in ("method", "host", "port", "path"))


def _unusable(error: PaddockError) -> Diverged:
    return Diverged(DivergedBy.UNKEPT, None, (Difference("record", error.message, "needed"),))


def _shown(value: Any) -> Any:
    return "(absent)" if value is ABSENT else value
