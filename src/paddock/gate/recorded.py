"""The actions of earlier runs, read back from their journals, for whoever decides on them again.

Besides what crossed the gate there are programs that were only observed, because no rule of that
time minded them: another file may mind them, so they are actions here as well.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from paddock.journal.conversations import whole_arguments
from paddock.journal.reader import Covered, Reader, Spot
from paddock.journal.records import Record, Type
from paddock.journal.repeats import MARK, repeats_in
from paddock.journal.segments import segments
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, RuleHit, Stage, Verdict
from paddock.model.errors import IntegrityError
from paddock.policy.compare import RecordedAction, Settlement
from paddock.policy.file import load
from paddock.policy.learn import ASKED, DRAFTED, FAULTED, REPLAYED, STOOD_IN, UNKNOWN

Event = RecordedAction | Settlement
_TELLING = (b"proposed", b"decided", b"observed", b"settled")
_BY_NOBODY = "observed"  # a program that started, and that no rule minded
_OBSERVED = ("program", "argv", "cwd", "pid", "real_path", "same_as", "is_writable")


def recorded_actions(directory: Path, covered: Covered | None = None) -> Iterator[RecordedAction]:
    """Every action of a run that was decided on, in the order of the decisions. Secrets are masked
    in them, as they are in the journal; large values are whole. With `covered`, only actions in
    records that are signed."""
    events = recorded_events(directory, covered)
    return (one for one in events if isinstance(one, RecordedAction))


def recorded_events(directory: Path, covered: Covered | None = None) -> Iterator[Event]:
    """The actions of a run, and what came of each: a limit counts what was done."""
    reader = Reader(directory, covered)
    opened = reader.opened().body
    history = _History(str(opened.get("run", "")), str(opened.get("agent", "")))
    for _, line, (_, step, kind) in reader.scan(Spot(1, 0)):
        is_repeat = kind == b"noted" and MARK in line and step is not None
        if kind not in _TELLING and not is_repeat:
            continue
        record = Record.parse(line)
        try:
            if is_repeat:
                history.add(*_repeated(reader, history, record))
            else:
                history.take(record, _whole(reader, record))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            said = f"record {record.n} (step {step}) is not about an action"
            raise IntegrityError(f"{said}: {type(error).__name__}: {error}"[:300]) from None
        yield from history.told()
    yield from history.rest()


def _repeated(reader: Reader, history: _History, note: Record) -> Iterator[RecordedAction]:
    """A refusal that was counted, as often as it came."""
    repeats = repeats_in(note.body)
    step = reader.step(note.step or 0)
    if repeats is None or step.proposed is None or step.decided is None:
        return
    action = action_of(step.number, _whole(reader, step.proposed))
    at = repeats.last_at / 1e6
    one = history.recorded(step.number, action, reader.body(step.decided), at)
    yield from itertools.repeat(one, repeats.count)


def _whole(reader: Reader, record: Record) -> Mapping[str, Any]:
    body = reader.body(record)
    if record.type is not Type.PROPOSED:
        return body
    arguments = whole_arguments(reader, body["kind"], _mapping(body["arguments"]))
    return {**body, "arguments": arguments}


def lessons(directory: Path, covered: Covered) -> tuple[list[RecordedAction], Stage]:
    """Return the signed actions of a run for `policy learn`, each with the reason why it is no
    evidence if it has one, and the strictest stage that the run was under."""
    evidence = _Evidence(Reader(directory, covered))
    actions = recorded_actions(directory, covered)
    return [replace(one, rehearsed=evidence.why_not(one)) for one in actions], evidence.stage


def recorded_in_order(directories: Iterable[Path]) -> Iterator[Event]:
    """The actions of several runs, and what came of them, in the order of time. Only runs that
    overlap are open at once."""
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
    """What came of every step of a run, and under which stage it was. A step teaches something only
    if the journal shows that it was done for real, with nobody asked."""

    def __init__(self, reader: Reader) -> None:
        opened = reader.opened().body
        self.stage = _stage_of(opened.get("stage"))
        self._why: dict[int, str] = {}
        self._done: set[int] = set()
        self._inner: dict[int, int] = {}  # by step: the one that answered a part of it
        # A replay is all past; a fork is, until it goes live.
        is_again = opened.get("kind") in ("replay", "fork")
        self._past_until = float("inf") if is_again else 0.0
        for record in reader.records():
            try:
                self._take(record, reader)
            except (KeyError, ValueError, TypeError, AttributeError):
                raise IntegrityError(f"record {record.n} is not about an action") from None

    def why_not(self, one: RecordedAction) -> str:
        if one.at < self._past_until:
            return REPLAYED
        if one.decision.decided_by == _BY_NOBODY:  # a program that was seen to start
            return ""
        step, seen = one.step, set[int]()
        while step not in seen:
            if why := self._why.get(step):
                return why
            seen.add(step)
            step = self._inner.get(step, step)
        is_known = one.step in self._done or one.action.is_contained
        return "" if is_known else UNKNOWN

    def _take(self, record: Record, reader: Reader) -> None:
        if record.type is Type.NOTED:
            self._noted(record, reader)
        step = record.step
        if step is None:
            return
        if record.type in (Type.ASKED, Type.ANSWERED):
            self._why.setdefault(step, ASKED)
        elif record.type is Type.DECIDED and "again" in record.body:
            self._why.setdefault(step, REPLAYED)
        elif record.type is Type.SETTLED:
            self._settled(step, reader.body(record))

    def _settled(self, step: int, body: Mapping[str, Any]) -> None:
        self._done.add(step)
        outcome, result = str(body["outcome"]), body.get("result")
        if outcome in _REHEARSED:
            self._why.setdefault(step, _REHEARSED[outcome])
        elif outcome not in (Outcome.DONE, Outcome.FAILED):
            self._why.setdefault(step, UNKNOWN)
        if body.get("answered_by") is not None:
            self._why.setdefault(step, ASKED)
        if body.get("draft_id") is not None:
            self._why.setdefault(step, DRAFTED)
        if isinstance(result, Mapping):
            if "stand_in" in result:
                self._why.setdefault(step, STOOD_IN)
            if isinstance(inner := result.get("model_step"), int):
                self._inner[step] = inner

    def _noted(self, record: Record, reader: Reader) -> None:
        what = record.body.get("what")
        if what == "live":
            self._past_until = record.at / 1e6
        elif what == "terms":
            text = str(_mapping(reader.body(record)["policy"])["text"])
            self.stage = min(self.stage, load(text, is_recorded=True).stage, key=list(Stage).index)


_REHEARSED = {"simulated": STOOD_IN, "drafted": DRAFTED, "faulted": FAULTED}


def _stage_of(value: Any) -> Stage:
    """The stage that a journal names; the strictest where it names none."""
    return Stage(value) if value in list(Stage) else Stage.OBSERVE


class _History:
    """The events of one run in the order in which its journal has them. A command waits until its
    program was seen to start, which tells more about it, and what comes later waits for it: limits
    are counted in this order."""

    def __init__(self, run: str, agent: str) -> None:
        self.run = run
        self._agent = agent
        self._proposed: dict[int, tuple[Action, float]] = {}
        self._events: deque[Event | int] = deque()  # a number is the step of a command that waits
        self._begun: dict[int, RecordedAction] = {}  # commands whose program was not seen yet
        self._known: dict[int, RecordedAction] = {}  # commands that wait no more
        self._crossed: Counter[tuple[Any, ...]] = Counter()  # programs that are still to be seen

    def take(self, record: Record, body: Mapping[str, Any]) -> None:
        step, at = record.step, record.at / 1e6
        if record.type is Type.OBSERVED:
            if body.get("what") == "exec":
                self._observed(step, at, body)
        elif step is None:
            return
        elif record.type is Type.PROPOSED:
            self._proposed[step] = (action_of(step, body), at)
        elif record.type is Type.SETTLED:
            self._settled(step, at, body)
        else:
            self._decided(step, body)

    def add(self, *events: Event) -> None:
        self._events.extend(events)

    def told(self) -> Iterator[Event]:
        """The events that wait for nothing."""
        while self._events:
            first = self._events[0]
            if isinstance(first, int):
                if first not in self._known:
                    return
                first = self._known.pop(first)
            self._events.popleft()
            yield first

    def rest(self) -> Iterator[Event]:
        """All that is left, when commands of the run ended before they did."""
        self._known |= self._begun
        self._begun.clear()
        yield from self.told()

    def recorded(
        self, step: int, action: Action, decided: Mapping[str, Any], at: float
    ) -> RecordedAction:
        """The action of a step with what its `decided` body says."""
        return RecordedAction(
            step,
            action,
            decision_of(decided),
            at,
            self.run,
            agent=self._agent,
            is_by_door=decided.get("by_door") is True,
            is_past="again" in decided,
            unstruck=_unstruck(decided),
        )

    def _decided(self, step: int, body: Mapping[str, Any]) -> None:
        known = self._proposed.pop(step, None)
        if known is None:
            return
        action, at = known
        one = self.recorded(step, action, body, at)
        is_command = action.kind is Kind.EXEC and "pid" not in action.arguments
        if is_command and one.decision.verdict is not Verdict.BLOCK:
            self._begun[step] = one
            self._events.append(step)
            return
        if action.kind is Kind.EXEC and one.decision.verdict is not Verdict.BLOCK:
            self._crossed[_key(action.arguments)] += 1
        self.add(one)

    def _settled(self, step: int, at: float, body: Mapping[str, Any]) -> None:
        if step in self._begun:  # a command that is over and was never seen to start
            self._known[step] = self._begun.pop(step)
        self.add(Settlement(self.run, step, Outcome(body["outcome"]), at))

    def _observed(self, step: int | None, at: float, body: Mapping[str, Any]) -> None:
        begun = self._begun.get(-1 if step is None else step)
        if begun is not None and _is_same_command(begun.action, body):
            del self._begun[begun.step]
            self._known[begun.step] = _with_program(begun, body)
            return
        key = _key(body)
        if self._crossed[key]:
            self._crossed[key] -= 1
            return
        arguments = {name: body[name] for name in _OBSERVED if name in body}
        name = str(body["program"]).rpartition("/")[2]
        action = Action(Kind.EXEC, name, arguments, Effect.WRITE, is_contained=True, parent=step)
        decision = Decision(Verdict.ALLOW, _BY_NOBODY, "No rule minded it.", Effect.WRITE)
        self.add(RecordedAction(step or 0, action, decision, at, self.run, agent=self._agent))


def _unstruck(decided: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Return what may have been decided before a fault of the file struck; nothing where none
    did."""
    fault = decided.get("fault")
    if decided["verdict"] != Verdict.FAULT or not isinstance(fault, Mapping) or "id" not in fault:
        return ()
    said = decided.get("once_approved")  # journals of earlier versions do not say it
    return (Verdict.ALLOW, Verdict.SIMULATE) if said is None else (Verdict(said),)


def _with_program(one: RecordedAction, body: Mapping[str, Any]) -> RecordedAction:
    """Where no rule was about programs, nobody asked which file a command is."""
    if "real_path" in one.action.arguments:
        return one
    seen = {name: body[name] for name in ("program", "real_path", "same_as") if name in body}
    arguments = {**one.action.arguments, **seen}
    return replace(one, action=replace(one.action, arguments=arguments))


def _is_same_command(action: Action, body: Mapping[str, Any]) -> bool:
    """The first word may differ: which shell runs a command is chosen inside."""
    return list(action.arguments.get("argv", ()))[1:] == list(body.get("argv", ()))[1:]


def _key(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a program that crossed the gate and was then seen to start has in common: it is
    seen as part of its own step, or of the one that caused it."""
    return body.get("pid"), *map(str, body.get("argv") or ())


def action_of(step: int, body: Mapping[str, Any]) -> Action:
    """The action of a `proposed` body. Raises KeyError, ValueError or TypeError."""
    return Action(
        kind=Kind(body["kind"]),
        name=_text(body["name"]),
        arguments=_mapping(body["arguments"]),
        effect=Effect(body["effect"]),
        is_reversible=body["is_reversible"] is True,
        is_contained=body["is_contained"] is True,
        parent=body.get("parent"),
        step=step,
        context=_mapping(body.get("context", {})),
    )


def decision_of(body: Mapping[str, Any]) -> Decision:
    """The decision of a `decided` body. Raises KeyError, ValueError or TypeError."""
    hits = (
        RuleHit(_text(hit["rule_id"]), Verdict(hit["verdict"]), _text(hit["why"]))
        for hit in body.get("hits", ())
    )
    return Decision(
        verdict=Verdict(body["verdict"]),
        decided_by=_text(body["decided_by"]),
        why=_text(body["why"]),
        effect=Effect(body["effect"]),
        hits=tuple(hits),
        is_draft=body.get("is_draft") is True,
        fault=body.get("fault"),
        once_approved=_once_approved(body),
    )


def _once_approved(body: Mapping[str, Any]) -> Verdict:
    """Of what was carried out it is not written down; earlier versions did not for faults."""
    said = body.get("once_approved")
    return Verdict.ALLOW if said is None else Verdict(said)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r:.40} is not an object")
    return value


def _span(directory: Path) -> tuple[float, float]:
    """From when to when at most; a copied journal may seem to have lasted longer."""
    ended = max(os.stat(path).st_mtime for path in segments(directory))
    return Reader(directory).opened().at / 1e6, ended


def _merged(directories: list[Path]) -> Iterator[Event]:
    return heapq.merge(*map(recorded_events, directories), key=lambda one: one.at)
