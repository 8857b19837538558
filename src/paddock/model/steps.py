"""One action of a run with everything that the journal knows about it.

There is one `Step` class. Reports, comparisons, verdicts, scenario checks and replays all read
steps through it; where one of them needs a different look at a step, it holds the step and computes
from it. A step is built by `journal.log.RunLog` from the records that carry its number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from paddock.model.action import Action, Decision, Effect, Kind, Outcome, Verdict
from paddock.model.events import (
    Alert,
    Answered,
    Asked,
    Decided,
    Event,
    ProgramEnded,
    ProgramStarted,
    Proposed,
    Record,
    RefusedAgain,
    Settled,
)

AGENT_STEP = 1  # the agent's own command, which is the first step of every run of an agent
_MAX_INTEGER = 1 << 53  # no writer writes a larger one as a number
NO_OBJECT: Mapping[str, Any] = {}
E = TypeVar("E", bound=Event)


class Program(msgspec.Struct):
    """A program that the fence saw start, and how it ended if that was seen."""

    started: ProgramStarted
    ended: ProgramEnded | None = None


class Step:
    """One action: what was proposed, decided and done, and what else happened because of it.

    What did not happen (yet) is None or empty. Of several events of one type the last one holds:
    an action whose arguments were edited is decided again.
    """

    __slots__ = ("_last", "number", "records")

    def __init__(self, number: int, records: Sequence[Record]) -> None:
        self.number = number
        self.records = tuple(records)
        self._last: dict[type, Record] = {type(record.event): record for record in records}

    def __repr__(self) -> str:
        return f"Step({self.number}, {self.kind} {self.name}, {self.outcome})"

    # ---- its events ------------------------------------------------------------------------------

    def record(self, of: type[E]) -> Record | None:
        """Return the last record with an event of this type."""
        return self._last.get(of)

    def event(self, of: type[E]) -> E | None:
        """Return the last event of this type."""
        record = self._last.get(of)
        return None if record is None else record.event  # type: ignore[return-value]

    def events(self, of: type[E]) -> Iterator[E]:
        """Yield all events of this type, in order."""
        for record in self.records:
            if isinstance(record.event, of):
                yield record.event

    @property
    def proposed(self) -> Proposed | None:
        return self.event(Proposed)

    @property
    def decided(self) -> Decided | None:
        return self.event(Decided)

    @property
    def asked(self) -> Asked | None:
        return self.event(Asked)

    @property
    def answered(self) -> Answered | None:
        return self.event(Answered)

    @property
    def settled(self) -> Settled | None:
        return self.event(Settled)

    # ---- what was proposed -----------------------------------------------------------------------

    @property
    def is_agent(self) -> bool:
        """Return whether it is the agent's own command."""
        return self.number == AGENT_STEP

    @property
    def kind(self) -> Kind | None:
        return None if self.proposed is None else self.proposed.kind

    @property
    def name(self) -> str:
        return "" if self.proposed is None else self.proposed.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        return NO_OBJECT if self.proposed is None else self.proposed.arguments

    @property
    def context(self) -> Mapping[str, Any]:
        return NO_OBJECT if self.proposed is None else self.proposed.context

    @property
    def parent(self) -> int | None:
        """The step that caused it."""
        return None if self.proposed is None else self.proposed.parent

    @property
    def is_contained(self) -> bool:
        """Return whether it stays inside the fence."""
        return self.proposed is not None and self.proposed.is_contained

    @property
    def action(self) -> Action | None:
        """The action, as policy saw it."""
        return None if self.proposed is None else self.proposed.action(self.number)

    # ---- what was decided ------------------------------------------------------------------------

    @property
    def decision(self) -> Decision | None:
        return None if self.decided is None else self.decided.decision

    @property
    def verdict(self) -> Verdict | None:
        return None if self.decided is None else self.decided.verdict

    @property
    def decided_by(self) -> str | None:
        return None if self.decided is None else self.decided.decided_by

    @property
    def why(self) -> str | None:
        return None if self.decided is None else self.decided.why

    @property
    def effect(self) -> Effect | None:
        """The effect as policy computed it, or as it was proposed."""
        if self.decided is not None and self.decided.effect is not None:
            return self.decided.effect
        return None if self.proposed is None else self.proposed.effect

    @property
    def fault(self) -> Mapping[str, Any]:
        """The effect of an injected fault; empty if none struck."""
        return NO_OBJECT if self.decided is None else self.decided.fault or NO_OBJECT

    @property
    def is_replayed(self) -> bool:
        """Return whether it was answered from a recorded run."""
        return self.decided is not None and self.decided.replayed_from is not None

    # ---- what came of it -------------------------------------------------------------------------

    @property
    def outcome(self) -> Outcome | None:
        return None if self.settled is None else self.settled.outcome

    @property
    def error(self) -> str | None:
        return None if self.settled is None else self.settled.error

    @property
    def result(self) -> Mapping[str, Any]:
        """The result where it is an object, as it is of every door; else nothing."""
        result = None if self.settled is None else self.settled.result
        return result if isinstance(result, Mapping) else NO_OBJECT

    @property
    def cost(self) -> Mapping[str, Any]:
        return NO_OBJECT if self.settled is None else self.settled.cost

    @property
    def status(self) -> int | None:
        """The status of the answer to a request."""
        return whole_number(self.result.get("status"))

    @property
    def exit_code(self) -> int | None:
        """The exit code of a program."""
        return whole_number(self.result.get("exit_code"))

    @property
    def model_step(self) -> int | None:
        """The step of the model call that a request carries. For other kinds it is None: the result
        of a tool may contain anything under that name."""
        return whole_number(self.result.get("model_step")) if self.kind is Kind.HTTP else None

    @property
    def edited_as(self) -> int | None:
        """The step that an approver made of this one; its answer is what the agent got."""
        if self.outcome is not Outcome.REFUSED:
            return None
        number = whole_number(self.result.get("edited_as"))
        return number if number is not None and number > self.number else None

    @property
    def repeats(self) -> RefusedAgain | None:
        """The repetitions of a refusal that have no step of their own."""
        total: RefusedAgain | None = None
        for again in self.events(RefusedAgain):
            total = again.plus(total)
        return total

    @property
    def alerts(self) -> list[Alert]:
        return list(self.events(Alert))

    @property
    def programs(self) -> list[Program]:
        """The programs that it caused, each start with its end.

        They are joined by process id. A process that executes another program has two starts and
        one end for each, in the same order: an end belongs to the oldest start that has none.
        """
        programs: list[Program] = []
        running: dict[int | None, deque[Program]] = {}  # by process id, the oldest first
        for record in self.records:
            match record.event:
                case ProgramStarted() as started:
                    programs.append(Program(started))
                    running.setdefault(started.pid, deque()).append(programs[-1])
                case ProgramEnded() as ended if running.get(ended.pid):
                    running[ended.pid].popleft().ended = ended
        return programs

    # ---- when ------------------------------------------------------------------------------------

    @property
    def at(self) -> int:
        """When it was proposed, in microseconds since 1970."""
        record = self._last.get(Proposed) or self.records[0]
        return record.at

    @property
    def ended_at(self) -> int | None:
        record = self._last.get(Settled)
        return None if record is None else record.at

    @property
    def waited_us(self) -> int | None:
        """The time from its proposal to its end, with the time that a person took to answer."""
        ended_at = self.ended_at
        return None if ended_at is None else max(ended_at - self.at, 0)

    @property
    def duration_us(self) -> int | None:
        """The duration. A program that another program starts is settled when it is let through, so
        its duration is the time that it ran: None if its end was not seen."""
        pid = self.arguments.get("pid")
        if self.kind is not Kind.EXEC or pid is None:
            return self.waited_us
        for program in self.programs:
            if program.started.pid == pid:
                return None if program.ended is None else program.ended.duration_us
        return self.waited_us

    @property
    def held_us(self) -> int:
        """The time that it waited for a person's answer."""
        asked, answered = self._last.get(Asked), self._last.get(Answered)
        if asked is None or answered is None:
            return 0
        return max(answered.at - asked.at, 0)


def whole_number(value: Any) -> int | None:
    """Return the value if it is an integer that a journal can hold; one may say anything."""
    return value if type(value) is int and abs(value) <= _MAX_INTEGER else None
