"""A recorded run, as one that lives through it again needs it: its setting, its steps in the shape
that proposals are compared with, and the answers, which are read when their turn comes."""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from paddock.doors.network.inside_state import memory_of
from paddock.doors.network.requests import SENT
from paddock.gate.recorded import action_of, decision_of
from paddock.journal.blobs import BYTES
from paddock.journal.conversations import request_of, whole_arguments
from paddock.journal.reader import Covered, Reader, Step
from paddock.journal.records import Record, Type
from paddock.journal.repeats import repeats_in
from paddock.journal.traffic import mapping
from paddock.journal.writer import Entry
from paddock.model.action import Action, Decision, Kind, Outcome
from paddock.model.errors import IntegrityError, InvalidInput, NotSigned
from paddock.model.values import dataclass
from paddock.run.edits import edited_as
from paddock.run.matching.rows import BEYOND_BUDGET, Row
from paddock.run.silence import is_silent

_BY_DOOR = ("protocol", "mismatch", "secrets")  # who refused, in journals that do not say it
# What is said of a question to a model besides the question itself.
_ABOUT_REQUEST = frozenset(
    {"conversation", "images", "messages", "model", "parameters", "prompt", "prompt_digest",
     "refs", "request", "stream", "system", "tools"}
)  # fmt: skip
_PASSED_ON = frozenset({Type.PROPOSED, Type.DECIDED, Type.SETTLED})


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of a step."""

    outcome: Outcome
    result: Any
    error: str | None
    cost: Mapping[str, Any]
    answered_by: str | None
    draft_id: str | None


_UNDER_WAY = Settled(Outcome.DONE, None, None, {}, None, None)


@dataclass(slots=True)
class Tape:
    """One recorded run. `rows` are all its steps, in order."""

    run: str
    directory: Path
    opened: Mapping[str, Any]
    setting: Mapping[str, Any]
    rows: tuple[Row, ...]
    window: tuple[float, float]  # seconds since 1970: from its first record to its last
    trees: Mapping[int, str]  # the files at each step at which they had changed
    last_tree: str | None
    memory: Sequence[tuple[int, Mapping[str, Any]]]  # what the agent declared, by record
    terms: tuple[tuple[int, Mapping[str, Any]], ...]  # from a step on other ones than at first
    _reader: Reader
    _steps: Mapping[int, Step] = field(repr=False)
    _rows: Mapping[int, Row] = field(repr=False)
    _inside: Mapping[int, Sequence[Row]] = field(repr=False)  # steps that are parts of answers
    # Where the stand-ins had come to after a step, one after the other; at first without a step.
    moved: Sequence[tuple[int | None, Mapping[str, int]]] = ()
    unrecorded: Mapping[int, str] = field(default_factory=dict)  # steps without files, and why

    @classmethod
    def read(cls, directory: Path, covered: Covered | None = None) -> Tape:
        """Reads all records, or those that a signature covers. Raises NotFound, IntegrityError, or
        InvalidInput for what is no run of an agent."""
        reader = Reader(directory, covered)
        opened = reader.opened()
        reading = _Reading(reader)
        of_steps: dict[int, list[Record]] = {}
        for record in reader.records():
            reading.take(record)
            if record.step is not None:
                of_steps.setdefault(record.step, []).append(record)
        if not reading.setting and covered is not None and covered.left_out:
            raise NotSigned(
                f"{directory.name} was interrupted before its setting was signed",
                hint="paddock show tells what is there; it cannot be replayed or forked",
            )
        if not reading.setting:
            raise InvalidInput(
                f"{directory.name} is no run of an agent: it has no setting to begin again from",
                hint="runs that `paddock run` made can be replayed and forked",
            )
        steps = {n: Step(n, tuple(of_steps[n])) for n in sorted(of_steps)}
        try:
            rows = tuple(
                _row(reader, step, steps, reading.repeats[step.number])
                for step in steps.values()
                if step.proposed
            )
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise IntegrityError(f"{directory.name}: {type(error).__name__}: {error}") from None
        return cls(
            run=str(opened.body.get("run", directory.name)),
            directory=directory,
            opened=opened.body,
            setting=reading.setting,
            rows=rows,
            window=(opened.at / 1e6, reading.last_at / 1e6),
            trees=reading.trees,
            last_tree=reading.last_tree,
            memory=reading.memory,
            terms=tuple(reading.terms),
            _reader=reader,
            _steps=steps,
            _rows={row.step: row for row in rows},
            _inside=_by_outer(rows),
            moved=reading.moved,
            unrecorded=reading.unrecorded,
        )

    @property
    def root(self) -> str:
        """The first run of its lineage, whose key seals and compares what is not shown."""
        lineage = self.opened.get("lineage")
        return str(lineage["root"]) if isinstance(lineage, Mapping) else self.run

    @property
    def last_step(self) -> int:
        return max((row.step for row in self.rows), default=0)

    @property
    def command(self) -> tuple[str, ...]:
        return tuple(map(str, self.opened.get("command") or ()))

    @property
    def exit_code(self) -> int | None:
        """With which the agent ended; None if it did not."""
        first = self._steps.get(1)
        settled = None if first is None else first.settled
        result = settled.body.get("result") if settled is not None else None
        code = result.get("exit_code") if isinstance(result, Mapping) else None
        return code if isinstance(code, int) else None

    @property
    def vary(self) -> tuple[str, ...]:
        """What its paddock file declares to vary."""
        return tuple(map(str, self.setting.get("vary") or ()))

    @property
    def beside(self) -> tuple[str, ...] | None:
        """What its paddock file says goes on beside; None if it says nothing."""
        said = self.setting.get("beside")
        return tuple(map(str, said)) if isinstance(said, list | tuple) else None

    def trees_by_step(self) -> dict[int, str]:
        """The files when each step was proposed."""
        noted = sorted(self.trees)
        places = ((row.step, bisect(noted, row.step)) for row in self.rows)
        return {step: self.trees[noted[place - 1]] for step, place in places if place}

    def tree_at(self, step: int) -> str | None:
        """The files when the step was proposed; those of the end for one behind the last."""
        if step > self.last_step and self.last_tree is not None:
            return self.last_tree
        known = [one for one in self.trees if one <= step]
        return self.trees[max(known)] if known else None

    def why_unrecorded(self, step: int) -> str | None:
        """Return why the files of a step are not known; None if they are, or if the record has
        none."""
        last = max((one for one in (*self.trees, *self.unrecorded) if one <= step), default=None)
        if step > self.last_step and self.last_tree is not None:
            return None
        return None if last is None else self.unrecorded.get(last)

    def memory_at(self, step: int) -> dict[str, Any]:
        """What the agent had declared when it proposed the step."""
        row = self._rows.get(step)
        until = math.inf if row is None else row.proposed_n
        return memory_of(body for n, body in self.memory if n < until)

    def decision(self, step: int) -> Decision:
        decided = self._steps[step].decided
        if decided is None:
            raise IntegrityError(f"step {step} of {self.run} was never decided on")
        with _readable(self.run, step):
            return decision_of(self._reader.body(decided))

    def settled(self, step: int) -> Settled:
        """Large values whole. Raises IntegrityError where a blob is not what it was."""
        record = self._steps[step].settled
        if record is None and self._rows[step].is_contained:
            return _UNDER_WAY  # it is carried out again, to whatever end
        if record is None:
            raise IntegrityError(f"step {step} of {self.run} was never settled")
        body = self._reader.body(record)
        with _readable(self.run, step):
            return Settled(
                outcome=Outcome(body["outcome"]),
                result=body.get("result"),
                error=body.get("error"),
                cost=body.get("cost") or {},
                answered_by=body.get("answered_by"),
                draft_id=body.get("draft_id"),
            )

    def pieces(self, step: int) -> tuple[Callable[[], bytes], ...]:
        """Return what reads the pieces of a long answer, each of them checked. Raises
        IntegrityError."""
        record = self._steps[step].settled
        refs = () if record is None else record.blobs
        return tuple(
            partial(self._reader.blob, ref.sha256, ref.size_bytes)
            for ref in refs
            if ref.form == BYTES and ref.is_kept
        )

    def done_before(self, step: int) -> Iterator[tuple[Action, Outcome]]:
        """What was carried out before a step, and what came of it."""
        for row in self.rows:
            record = self._steps[row.step].settled
            if row.step >= step or (record is None and not row.is_contained):
                continue
            proposed = self._steps[row.step].proposed
            assert proposed is not None
            action = action_of(row.step, self._reader.body(proposed))
            outcome = _UNDER_WAY.outcome if record is None else Outcome(record.body["outcome"])
            yield action, outcome

    def within(self, step: int) -> tuple[Entry, ...]:
        """The records of steps that were part of the answer of this one."""
        inner = [row for row in self._inside.get(step, ()) if row.kind is Kind.TOOL]
        return tuple(entry for row in inner for entry in self._entries(row.step))

    def inner(self, step: int, kind: Kind) -> Row | None:
        """The step inside this one."""
        return next((row for row in self._inside.get(step, ()) if row.kind is kind), None)

    def moments(self) -> dict[int, float]:
        """When steps were proposed and settled, in seconds, by record and in their order."""
        found = (one for step in self._steps.values() for one in (step.proposed, step.settled))
        return dict(sorted((one.n, one.at / 1e6) for one in found if one is not None))

    def inside_from(self, step: int) -> frozenset[int]:
        """The steps from this one on that were part of earlier answers, and come with those."""
        outer: dict[int, int] = {}
        for row in self.rows:
            outer[row.step] = outer.get(row.is_within or 0, row.step)
        return frozenset(one for one, first in outer.items() if first < step <= one)

    def edited(self, step: int) -> tuple[Action, tuple[Entry, ...]] | None:
        """What an approver made of this one: the action, its proposal and its decision."""
        new = edited_as(self._steps[step], self._steps)
        proposed = None if new is None else new.proposed
        if new is None or proposed is None:
            return None
        entries = [one for one in self._entries(new.number) if one.type is not Type.SETTLED]
        with _readable(self.run, new.number):
            return action_of(new.number, self._reader.body(proposed)), tuple(entries)

    def _entries(self, step: int) -> Iterator[Entry]:
        source = {"run": self.run, "step": step}
        for record in self._steps[step].records:
            if record.type in _PASSED_ON:
                body = self._reader.body(record)
                if record.type is Type.DECIDED:
                    body = {**body, "again": source}
                yield Entry(record.type, body, step)


def compared_arguments(reader: Reader, action: Action) -> Mapping[str, Any]:
    """The arguments of an action as they are compared: a question to a model in full."""
    arguments = whole_arguments(reader, action.kind, action.arguments)
    if action.kind is not Kind.MODEL or "conversation" not in arguments:
        return arguments
    left = {key: one for key, one in arguments.items() if key not in _ABOUT_REQUEST}
    return {**left, "body": request_of(reader, arguments)}


@contextmanager
def _readable(run: str, step: int) -> Iterator[None]:
    """A record that somebody else kept may say anything."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        said = f"step {step} of {run} cannot be read: {type(error).__name__}: {error!s:.200}"
        raise IntegrityError(said) from None


class _Reading:
    """What the notes of a journal say, one after the other."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.setting: Mapping[str, Any] = {}
        self.trees: dict[int, str] = {}
        self.last_tree: str | None = None
        self.unrecorded: dict[int, str] = {}
        self.memory: list[tuple[int, dict[str, Any]]] = []
        self.terms: list[tuple[int, Mapping[str, Any]]] = []
        self.moved: list[tuple[int | None, dict[str, int]]] = []
        self.repeats: Counter[int] = Counter()  # refusals that were only counted, by step
        self.last_at = 0

    def take(self, record: Record) -> None:
        self.last_at = record.at
        if record.type is not Type.NOTED:
            return
        match record.body.get("what"):
            case "setting":
                self.setting = self.setting or self._reader.body(record)
            case "files" if record.body.get("is_last"):
                self.last_tree = str(record.body["tree"])
            case "files":
                self.trees[record.step or 0] = str(record.body["tree"])
            case "files not recorded" if record.step is not None:
                self.unrecorded[record.step] = str(record.body.get("error"))
            case "terms":
                body = self._reader.body(record)
                self.terms.append((int(body["at"]), body["policy"]))
            case "world moved":
                said = mapping(self._reader.body(record).get("positions"))
                known = {str(name): one for name, one in said.items() if type(one) is int}
                self.moved.append((record.step, known))
            case "refused again" if (again := repeats_in(record.body)) is not None:
                self.repeats[record.step or 0] += again.count
            case "memory":
                self.memory.append((record.n, self._reader.body(record)))


def _by_outer(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        if row.is_within is not None:
            found.setdefault(row.is_within, []).append(row)
    return found


def _row(reader: Reader, step: Step, steps: Mapping[int, Step], repeats: int) -> Row:
    proposed, decided, last = step.proposed, step.decided, step
    while new := edited_as(last, steps):
        last = new
    settled = last.settled
    assert proposed is not None
    body = reader.body(proposed)
    action = action_of(step.number, body)
    unkept = "" if settled is None else _unkept(reader, action, settled)
    return Row(
        step=step.number,
        kind=action.kind,
        name=action.name,
        arguments=compared_arguments(reader, action),
        context=action.context,
        keyed={**(body.get("keyed") or {}), **(action.context.get("keyed") or {})},
        parent=action.parent,
        proposed_n=proposed.n,
        settled_n=None if settled is None else settled.n,
        is_refused_by_door=_is_by_door(decided),
        is_within=_within(action, steps),
        is_contained=action.is_contained,
        is_kept=settled is not None and not unkept,
        unkept=unkept,
        begun_n=_begun(last, steps),
        is_silent=is_silent(last, steps, _begun(last, steps)),
        repeats=repeats,
        is_whole=proposed.is_whole,
        sent=_sent(action, settled),
    )


def _sent(action: Action, settled: Record | None) -> Mapping[str, Any] | None:
    """The digests of a body that streamed by, whose request was decided on by its head alone."""
    result = None if settled is None else settled.body.get("result")
    if not isinstance(result, Mapping) or "body_sha256" in action.arguments:
        return None
    sent = result.get(SENT)
    return sent if isinstance(sent, Mapping) and not sent.get("is_part") else None


def _begun(step: Step, steps: Mapping[int, Step]) -> int | None:
    """The last record before its answer began; what lies inside another one answers for that."""
    result = None if step.settled is None else step.settled.body.get("result")
    if not isinstance(result, Mapping):
        return None
    if (
        isinstance(inner := result.get("model_step"), int)
        and inner in steps
        and inner != step.number
    ):
        return _begun(steps[inner], steps)
    begun = result.get("begun")
    return begun if isinstance(begun, int) and begun >= 0 else None


def _is_by_door(decided: Record | None) -> bool:
    if decided is None:
        return False
    return bool(decided.body.get("by_door")) or decided.body.get("decided_by") in _BY_DOOR


def _within(action: Action, steps: Mapping[int, Step]) -> int | None:
    """The step as a part of whose answer it came."""
    outer = steps.get(action.parent or 0)
    if outer is None:
        return None
    new = edited_as(outer, steps)
    if new is not None and new.number == action.step:
        return action.parent
    if action.kind is Kind.TOOL and "proposed_by" in action.context:
        return action.parent
    if action.kind is Kind.MODEL and outer.proposed is not None:
        return action.parent if outer.proposed.body.get("kind") == Kind.HTTP else None
    return None


def _unkept(reader: Reader, action: Action, settled: Record) -> str:
    """Return why the record does not have all that the agent got; empty if it has."""
    if settled.body.get("outcome") in ("refused", "faulted"):
        return ""
    if action.kind is Kind.CONNECT:
        is_failed = settled.body.get("outcome") == "failed"
        return "" if is_failed else "a connection that was passed through: nothing of it is kept"
    if not settled.is_whole:
        return f"the answer is not whole: {BEYOND_BUDGET}"
    result = settled.body.get("result")
    if isinstance(result, str) and settled.blobs:  # it may stand for an object that is set aside
        result = reader.body(settled).get("result")
    if not isinstance(result, Mapping):
        return ""
    if result.get("is_cut"):
        why = f": {BEYOND_BUDGET}" if result.get("cut_by") == "budget" else ""
        return f"of an answer of {result.get('bytes')} bytes only the beginning is kept{why}"
    if "websocket" in result:
        frames = result.get("frames")
        if not isinstance(frames, Mapping):
            return "a WebSocket of an earlier version, which kept nothing of what was said"
        if frames.get("is_cut"):
            return f"not all of what was said over the WebSocket is kept: {BEYOND_BUDGET}"
    return ""
