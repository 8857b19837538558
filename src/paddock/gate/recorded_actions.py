"""The actions of earlier runs, read back from their journals, for whoever decides on them again.

Besides what crossed the gate there are programs that were only observed, because no rule of that
time minded them: another file may mind them, so they are actions here as well.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from paddock.journal.conversations import whole_arguments
from paddock.journal.log import Covered, RunLog
from paddock.journal.segments import segments
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, Stage, Verdict
from paddock.model.errors import IntegrityError
from paddock.model.events import (
    Answered,
    Asked,
    Decided,
    Event,
    ProgramStarted,
    Proposed,
    Record,
    RefusedAgain,
    Settled,
    TermsChanged,
    Unknown,
    WentLive,
)
from paddock.model.steps import Step, whole_number
from paddock.policy.analysis.candidate import RecordedAction, Settlement
from paddock.policy.analysis.proposed_file import (
    ASKED,
    DRAFTED,
    FAULTED,
    REPLAYED,
    STOOD_IN,
    UNKNOWN,
)
from paddock.policy.file import load

PastEvent = RecordedAction | Settlement
# Of one refusal that came again and again: more of them change no decision, and an agent can have
# itself refused millions of times.
_MAX_REPEATS = 10_000
_BY_NOBODY = "observed"  # a program that started, and that no rule minded
_OBSERVED = ("program", "argv", "cwd", "pid", "real_path", "same_as", "is_writable")


def recorded_actions(directory: Path, covered: Covered | None = None) -> Iterator[RecordedAction]:
    """Yield every action of a run that was decided on, in the order of the decisions. Secrets are
    masked in them, as they are in the journal; large values are whole. With `covered`, only actions
    in records that are signed."""
    events = recorded_events(directory, covered)
    return (event for event in events if isinstance(event, RecordedAction))


def recorded_events(directory: Path, covered: Covered | None = None) -> Iterator[PastEvent]:
    """Yield the actions of a run, and what came of each: a limit counts what was done."""
    log = RunLog(directory, covered)
    history = _History(log)
    for record in _events(log, Proposed, Decided, Settled, ProgramStarted, RefusedAgain):
        try:
            history.take(record)
        except (ValueError, TypeError, AttributeError):  # of what an action has for a conversation
            raise _not_an_action(record) from None
        yield from history.ready()
    yield from history.rest()


def _events(log: RunLog, *of: type[Event]) -> Iterator[Record]:
    """Yield the records with such events. Raises IntegrityError for one that has the name of such
    an event and not its shape: what is decided on must not leave out an action."""
    names = {cls.TYPE for cls in of}
    for record in log.events(*of, Unknown):
        if not isinstance(record.event, Unknown):
            yield record
        elif record.event.type in names:
            raise _not_an_action(record)


def _not_an_action(record: Record) -> IntegrityError:
    return IntegrityError(f"record {record.n} (step {record.step}) is not about an action")


def lessons(directory: Path, covered: Covered) -> tuple[list[RecordedAction], Stage]:
    """Return the signed actions of a run for `policy learn`, each with the reason why it is no
    evidence if it has one, and the strictest stage that the run was under."""
    evidence = _Evidence(RunLog(directory, covered))
    actions = recorded_actions(directory, covered)
    learned = [replace(action, rehearsed=evidence.why_not(action)) for action in actions]
    return learned, evidence.stage


def recorded_in_order(directories: Iterable[Path]) -> Iterator[PastEvent]:
    """Yield the actions of several runs, and what came of them, in the order of time. Only runs
    that overlap are open at once."""
    runs = sorted((_span(directory), directory) for directory in dict.fromkeys(directories))
    together: list[Path] = []
    end = 0.0
    for (began, ended), directory in runs:
        if together and began > end:
            yield from _merged(together)
            together = []
        together.append(directory)
        end = max(end, ended)
    yield from _merged(together)


class _Evidence:
    """The outcome of every step of a run, and the stage that it was under. A step teaches something
    only if the journal shows that it was done for real, with nobody asked."""

    def __init__(self, log: RunLog) -> None:
        opened = log.opened
        self.stage = _stage_of(opened.stage)
        self._why: dict[int, str] = {}
        self._done: set[int] = set()
        self._inner: dict[int, int] = {}  # by step: the one that answered a part of it
        # A replay is all past; a fork is, until it goes live.
        is_replay = opened.kind in ("replay", "fork")
        self._past_until = float("inf") if is_replay else 0.0
        for record in _events(log, Decided, Asked, Answered, Settled, WentLive, TermsChanged):
            self._take(log.whole(record))

    def why_not(self, recorded: RecordedAction) -> str:
        if recorded.at < self._past_until:
            return REPLAYED
        if recorded.decision.decided_by == _BY_NOBODY:  # a program that was seen to start
            return ""
        step, seen = recorded.number, set[int]()
        while step not in seen:
            if why := self._why.get(step):
                return why
            seen.add(step)
            step = self._inner.get(step, step)
        has_outcome = recorded.number in self._done or recorded.action.is_contained
        return "" if has_outcome else UNKNOWN

    def _take(self, record: Record) -> None:
        step = record.step
        match record.event:
            case WentLive():
                self._past_until = record.at / 1e6
            case TermsChanged(policy=policy):
                stage = load(policy.text, is_recorded=True).stage
                self.stage = min(self.stage, stage, key=list(Stage).index)
            case Unknown():  # a large value is not what should be there
                raise _not_an_action(record)
            case _ if step is None:
                return
            case Asked() | Answered():
                self._why.setdefault(step, ASKED)
            case Decided(replayed_from=source) if source is not None:
                self._why.setdefault(step, REPLAYED)
            case Settled() as settled:
                self._settled(step, settled)

    def _settled(self, step: int, settled: Settled) -> None:
        self._done.add(step)
        if settled.outcome in _REHEARSED:
            self._why.setdefault(step, _REHEARSED[settled.outcome])
        elif settled.outcome not in (Outcome.DONE, Outcome.FAILED):
            self._why.setdefault(step, UNKNOWN)
        if settled.answered_by is not None:
            self._why.setdefault(step, ASKED)
        if settled.draft_id is not None:
            self._why.setdefault(step, DRAFTED)
        if isinstance(settled.result, Mapping):
            if "stand_in" in settled.result:
                self._why.setdefault(step, STOOD_IN)
            inner = whole_number(settled.result.get("model_step"))
            if inner is not None:
                self._inner[step] = inner


_REHEARSED = {
    Outcome.SIMULATED: STOOD_IN,
    Outcome.DRAFTED: DRAFTED,
    Outcome.FAULTED: FAULTED,
}


def _stage_of(name: str | None) -> Stage:
    """Return the stage that a journal names; the strictest where it names none."""
    return Stage(name) if name in list(Stage) else Stage.OBSERVE


class _History:
    """The events of one run in the order in which its journal has them. A command waits until its
    program was seen to start, which tells more about it, and what comes later waits for it: limits
    are counted in this order."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._run = log.opened.run
        self._agent = log.opened.agent
        self._proposed: dict[int, Record] = {}
        # A number is the step of a command that waits.
        self._events: deque[PastEvent | int] = deque()
        self._begun: dict[int, RecordedAction] = {}  # commands whose program was not seen yet
        self._ready: dict[int, RecordedAction] = {}  # commands that wait no more
        self._crossed: Counter[_Program] = Counter()  # programs that are still to be seen
        self._repeats: Counter[int] = Counter()  # refusals that were told again, by step
        self._refused: dict[int, RecordedAction | None] = {}  # and what was refused

    def take(self, record: Record) -> None:
        step = record.step
        match record.event:
            case ProgramStarted():
                self._observed(record)
            case _ if step is None:
                return
            case Proposed():
                self._proposed[step] = record
            case Decided():
                self._decided(step, record)
            case Settled(outcome=outcome):
                self._settled(step, outcome, record.at / 1e6)
            case RefusedAgain() as again:
                self._refused_again(step, again)

    def ready(self) -> Iterator[PastEvent]:
        """Yield the events that wait for nothing."""
        while self._events:
            first = self._events[0]
            if isinstance(first, int):
                if first not in self._ready:
                    return
                first = self._ready.pop(first)
            self._events.popleft()
            yield first

    def rest(self) -> Iterator[PastEvent]:
        """Yield all that is left, when commands of the run ended before they did."""
        self._ready |= self._begun
        self._begun.clear()
        yield from self.ready()

    def _recorded(self, proposed: Record, decided: Record, at: float) -> RecordedAction:
        """Return the action of these two records with its large values."""
        number = proposed.step or 0
        step = self._log.whole_step(Step(number, (proposed, decided)))
        action, decision = step.action, step.decision
        if action is None or decision is None:  # a large value is not what should be there
            raise _not_an_action(proposed)
        arguments = whole_arguments(self._log, action.kind, action.arguments)
        action = replace(action, arguments=arguments)
        return RecordedAction(step, action, decision, at, self._run, self._agent)

    def _decided(self, number: int, decided: Record) -> None:
        proposed = self._proposed.pop(number, None)
        if proposed is None:
            return
        recorded = self._recorded(proposed, decided, proposed.at / 1e6)
        action = recorded.action
        is_blocked = recorded.decision.verdict is Verdict.BLOCK
        if action.kind is Kind.EXEC and not is_blocked:
            if "pid" not in action.arguments:
                self._begun[number] = recorded
                self._events.append(number)
                return
            self._crossed[_program(action.arguments["pid"], action.arguments.get("argv"))] += 1
        self._events.append(recorded)

    def _refused_again(self, number: int, again: RefusedAgain) -> None:
        """Add a refusal that was only counted, as often as it came, up to a number."""
        count = min(again.count, _MAX_REPEATS - self._repeats[number])
        if count <= 0:
            return
        self._repeats[number] += count
        if number not in self._refused:
            self._refused[number] = self._refusal(number)
        recorded = self._refused[number]
        if recorded is not None:
            recorded = replace(recorded, at=again.last_at / 1e6)
            self._events.extend(itertools.repeat(recorded, count))

    def _refusal(self, number: int) -> RecordedAction | None:
        """Return the action of a step that was refused again and again. All records of the step are
        read for it, and there may be one for each second of the run."""
        step = self._log.step(number)
        proposed, decided = step.record(Proposed), step.record(Decided)
        if proposed is None or decided is None:
            return None
        return self._recorded(proposed, decided, 0)

    def _settled(self, number: int, outcome: Outcome, at: float) -> None:
        if number in self._begun:  # a command that is over and was never seen to start
            self._ready[number] = self._begun.pop(number)
        self._events.append(Settlement(self._run, number, outcome, at))

    def _observed(self, record: Record) -> None:
        record = self._log.whole(record)  # long arguments of a program are set aside
        started, parent = record.event, record.step
        if not isinstance(started, ProgramStarted):
            raise _not_an_action(record)
        begun = None if parent is None else self._begun.get(parent)
        if begun is not None and _is_same_command(begun.action, started):
            del self._begun[begun.number]
            self._ready[begun.number] = _with_program(begun, started)
            return
        program = _program(started.pid, started.argv)
        if self._crossed[program]:
            self._crossed[program] -= 1
            return
        name = started.program.rpartition("/")[2]
        arguments = _given(started, _OBSERVED)
        action = Action(Kind.EXEC, name, arguments, Effect.WRITE, is_contained=True, parent=parent)
        decision = Decision(Verdict.ALLOW, _BY_NOBODY, "No rule minded it.", Effect.WRITE)
        step, at = Step(parent or 0, (record,)), record.at / 1e6
        self._events.append(RecordedAction(step, action, decision, at, self._run, self._agent))


def _with_program(command: RecordedAction, started: ProgramStarted) -> RecordedAction:
    """Return the command with the file that it ran: where no rule was about programs, nobody asked
    for it."""
    if "real_path" in command.action.arguments:
        return command
    program = _given(started, ("program", "real_path", "same_as"))
    arguments = {**command.action.arguments, **program}
    return replace(command, action=replace(command.action, arguments=arguments))


def _given(started: ProgramStarted, names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an event that are set."""
    values = {name: getattr(started, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _is_same_command(action: Action, started: ProgramStarted) -> bool:
    """Return whether a program is the command. The first word may differ: which shell runs it is
    chosen inside."""
    return list(action.arguments.get("argv", ()))[1:] == started.argv[1:]


_Program = tuple[Any, ...]


def _program(pid: Any, argv: Iterable[Any] | None) -> _Program:
    """Return what a program that crossed the gate and was then seen to start has in common: it is
    seen as part of its own step, or of the one that caused it."""
    return pid, *map(str, argv or ())


def _span(directory: Path) -> tuple[float, float]:
    """Return the first and the last possible timestamp; a copied journal may seem to have lasted
    longer."""
    ended = max(os.stat(path).st_mtime for path in segments(directory))
    return RunLog(directory).opening.at / 1e6, ended


def _merged(directories: list[Path]) -> Iterator[PastEvent]:
    return heapq.merge(*map(recorded_events, directories), key=lambda event: event.at)
