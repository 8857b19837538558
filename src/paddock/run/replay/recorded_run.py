"""A recorded run, as a replay or fork of it needs it: its configuration, its steps in the shape
that proposals are compared with, and the answers, which are read when their turn comes.

The journal is read once, in one pass over its events. Large values of answers are read from their
blobs only when a step is answered.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec

from paddock.journal.blobs import BYTES
from paddock.journal.conversations import request_of, whole_arguments
from paddock.journal.log import Covered, RunLog
from paddock.journal.writer import JournalEntry
from paddock.model.action import Action, Decision, Kind, Outcome
from paddock.model.errors import IntegrityError, InvalidInput, NotSigned
from paddock.model.events import (
    Configured,
    Decided,
    FilesNotRecorded,
    FilesRecorded,
    MemoryChanged,
    PolicySource,
    Proposed,
    Record,
    RecordedSource,
    Settled,
    TermsChanged,
    Unknown,
    WorldChanged,
)
from paddock.model.steps import AGENT_STEP, E, Step, whole_number
from paddock.run.matching.recorded_step import BEYOND_BUDGET, RecordedStep

# What is said of a model call besides the request itself.
_ABOUT_REQUEST = frozenset(
    {"conversation", "images", "messages", "model", "parameters", "prompt", "prompt_digest",
     "refs", "request", "stream", "system", "tools"}
)  # fmt: skip
_PASSED_ON = (Proposed, Decided, Settled)
_NEEDED = frozenset(cls.TYPE for cls in (Configured, TermsChanged, *_PASSED_ON))
_REQUESTS = (Kind.HTTP, Kind.MODEL)
# A contained step that the journal does not settle is carried out again, to whatever end.
_UNDER_WAY = Settled(Outcome.DONE, None)


class RecordedRun:
    """One recorded run. Raises NotFound, IntegrityError, or InvalidInput for what is no run of an
    agent. With `covered`, only records that a signature covers are read."""

    def __init__(self, directory: Path, covered: Covered | None = None) -> None:
        self.directory = directory
        self.log = RunLog(directory, covered)
        self.opened = self.log.opened
        self.configured = Configured()
        self.trees: dict[int, str] = {}  # the files at each step at which they had changed
        self.last_tree: str | None = None
        self.unrecorded: dict[int, str] = {}  # steps without files, and why
        # From a step on another policy than at first.
        self.policy_changes: list[tuple[int, PolicySource]] = []
        # How far the stand-ins had come after a step, in the order of the journal; at first
        # without a step.
        self.world_positions: list[tuple[int | None, Mapping[str, int]]] = []
        self._memory: list[Record] = []
        self._last_at = 0
        records: dict[int, list[Record]] = {}
        for record in self.log.events():
            self._last_at = record.at
            self._take(record)
            if record.step is not None:
                records.setdefault(record.step, []).append(record)
        self._check_configured(covered)
        self._steps = {number: Step(number, records[number]) for number in sorted(records)}
        self.steps = tuple(self._recorded_steps())
        self._by_number = {step.number: step for step in self.steps}
        self._inside = _by_outer_step(self.steps)

    def _take(self, record: Record) -> None:
        """Take what an event says about the state around the steps."""
        match record.event:
            case Configured() if not self.configured.argv:
                self.configured = self._whole(record, Configured)
            case FilesRecorded(is_last=True) as files:
                self.last_tree = files.tree
            case FilesRecorded() as files:
                self.trees[record.step or 0] = files.tree
            case FilesNotRecorded(error=error) if record.step is not None:
                self.unrecorded[record.step] = error
            case TermsChanged():
                terms = self._whole(record, TermsChanged)
                self.policy_changes.append((terms.at, terms.policy))
            case WorldChanged():
                positions = self._whole(record, WorldChanged).positions
                self.world_positions.append((record.step, positions))
            case MemoryChanged():
                self._memory.append(record)
            case Unknown(type=type_name) if type_name in _NEEDED:
                # Passing it over would mean another policy, or a step less.
                raise IntegrityError(f"record {record.n} of {self.run} cannot be read")

    def _check_configured(self, covered: Covered | None) -> None:
        if self.configured.argv:
            return
        if covered is not None and covered.left_out:
            raise NotSigned(
                f"{self.directory.name} was interrupted before its setting was signed",
                hint="paddock show tells what is there; it cannot be replayed or forked",
            )
        raise InvalidInput(
            f"{self.directory.name} is no run of an agent: it has no setting to begin again from",
            hint="runs that `paddock run` made can be replayed and forked",
        )

    # ---- the run as a whole ----------------------------------------------------------------------

    @property
    def run(self) -> str:
        return self.opened.run

    @property
    def root(self) -> str:
        """The first run of its family, whose key seals and compares what is not shown."""
        lineage = self.opened.lineage
        return self.run if lineage is None else lineage.root or self.run

    @property
    def window(self) -> tuple[float, float]:
        """From its first record to its last, in seconds since 1970."""
        return self.log.opening.at / 1e6, self._last_at / 1e6

    @property
    def last_step(self) -> int:
        return max((step.number for step in self.steps), default=0)

    @property
    def command(self) -> tuple[str, ...]:
        return tuple(self.opened.command)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the agent; None if it did not end."""
        agent = self._steps.get(AGENT_STEP)
        return None if agent is None else agent.exit_code

    # ---- state around a step ---------------------------------------------------------------------

    def trees_by_step(self) -> dict[int, str]:
        """Return the files when each step was proposed."""
        noted = sorted(self.trees)
        trees = {}
        for step in self.steps:
            index = bisect(noted, step.number)
            if index:
                trees[step.number] = self.trees[noted[index - 1]]
        return trees

    def tree_at(self, step: int) -> str | None:
        """Return the files when the step was proposed; those of the end for one behind the last."""
        if step > self.last_step and self.last_tree is not None:
            return self.last_tree
        earlier = [number for number in self.trees if number <= step]
        return self.trees[max(earlier)] if earlier else None

    def why_unrecorded(self, step: int) -> str | None:
        """Return why the files of a step are not known; None if they are, or if none are."""
        if step > self.last_step and self.last_tree is not None:
            return None
        noted = [number for number in (*self.trees, *self.unrecorded) if number <= step]
        return self.unrecorded.get(max(noted)) if noted else None

    def memory_at(self, step: int) -> dict[str, Any]:
        """Return what the agent had in its memory when it proposed the step."""
        recorded = self._by_number.get(step)
        until = math.inf if recorded is None else recorded.proposed_n
        memory: dict[str, Any] = {}
        for record in self._memory:
            if record.n >= until:
                break
            event = self._whole(record, MemoryChanged)
            if event.is_removed:
                memory.pop(event.name, None)
            else:
                memory[event.name] = event.value
        return memory

    # ---- steps -----------------------------------------------------------------------------------

    @cached_property
    def timestamps(self) -> dict[int, float]:
        """When steps were proposed and settled, in seconds, by record and in their order."""
        records = (
            record
            for step in self._steps.values()
            for record in (step.record(Proposed), step.record(Settled))
            if record is not None
        )
        return dict(sorted((record.n, record.at / 1e6) for record in records))

    def decision(self, step: int) -> Decision:
        """Return what was decided about a step."""
        record = self._steps[step].record(Decided)
        if record is None:
            raise IntegrityError(f"step {step} of {self.run} was never decided on")
        return self._whole(record, Decided).decision

    def settled(self, step: int) -> Settled:
        """Return what came of a step, large values whole. Raises IntegrityError where a blob is not
        what it was."""
        record = self._steps[step].record(Settled)
        if record is None and self._by_number[step].is_contained:
            return _UNDER_WAY
        if record is None:
            raise IntegrityError(f"step {step} of {self.run} was never settled")
        return self._whole(record, Settled)

    def pieces(self, step: int) -> tuple[Callable[[], bytes], ...]:
        """Return functions that read the pieces of a long answer, each of them checked."""
        record = self._steps[step].record(Settled)
        refs = () if record is None else record.blobs
        return tuple(
            partial(self.log.blob, ref.sha256, ref.size_bytes)
            for ref in refs
            if ref.form == BYTES and ref.is_kept
        )

    def done_before(self, step: int) -> Iterator[tuple[Action, Outcome]]:
        """Yield what was carried out before a step, and what came of it."""
        for recorded in self.steps:
            settled = recorded.step.settled
            if recorded.number >= step or (settled is None and not recorded.is_contained):
                continue
            outcome = Outcome.DONE if settled is None else settled.outcome
            yield self._action(recorded.step), outcome

    def inner_step(self, step: int, kind: Kind) -> RecordedStep | None:
        """Return the step of this kind that was part of the answer of another one."""
        return next((inner for inner in self._inside.get(step, ()) if inner.kind is kind), None)

    def inner_entries(self, step: int) -> tuple[JournalEntry, ...]:
        """Return the events of tool calls that were part of the answer of this step."""
        tools = [inner for inner in self._inside.get(step, ()) if inner.kind is Kind.TOOL]
        return tuple(entry for inner in tools for entry in self._entries(inner.number))

    def inner_steps_from(self, step: int) -> frozenset[int]:
        """Return the steps from this one on that were part of earlier answers, and come with
        those."""
        outer: dict[int, int] = {}
        for recorded in self.steps:
            outer[recorded.number] = outer.get(recorded.within or 0, recorded.number)
        return frozenset(number for number, first in outer.items() if first < step <= number)

    def edited(self, step: int) -> tuple[Action, tuple[JournalEntry, ...]] | None:
        """Return what an approver made of this step: the action, its proposal and its decision."""
        edited = self._edited_step(self._steps[step])
        if edited is None:
            return None
        entries = [
            entry for entry in self._entries(edited.number) if not isinstance(entry.event, Settled)
        ]
        return self._action(edited), tuple(entries)

    def _entries(self, step: int) -> Iterator[JournalEntry]:
        source = RecordedSource(self.run, step)
        for record in self._steps[step].records:
            if isinstance(record.event, _PASSED_ON):
                event = self._whole(record, type(record.event))
                if isinstance(event, Decided):
                    event = msgspec.structs.replace(event, replayed_from=source)
                yield JournalEntry(event, step)

    def _action(self, step: Step) -> Action:
        record = step.record(Proposed)
        assert record is not None
        return self._whole(record, Proposed).action(step.number)

    def _whole(self, record: Record, of: type[E]) -> E:
        """Return the event of a record with its large values. Raises IntegrityError where they are
        not what the event holds."""
        event = self.log.whole(record).event
        if not isinstance(event, of):
            raise IntegrityError(f"record {record.n} of {self.run} cannot be read")
        return event

    # ---- how steps stand to each other -----------------------------------------------------------

    def _recorded_steps(self) -> Iterator[RecordedStep]:
        for step in self._steps.values():
            if step.proposed is not None:
                yield self._recorded_step(step)

    def _recorded_step(self, step: Step) -> RecordedStep:
        last = step
        while (edited := self._edited_step(last)) is not None:
            last = edited
        action = self._action(step)
        begun_n = self._begun_n(last)
        return RecordedStep(
            step,
            compared_arguments(self.log, action),
            last=last,
            within=self._within(action),
            unkept=self._why_unkept(action, last),
            begun_n=begun_n,
            is_unseen=self._is_unseen(last, begun_n),
        )

    def _edited_step(self, step: Step) -> Step | None:
        """Return the step that an approver made of this one: its answer is what the agent got."""
        edited = self._steps.get(step.edited_as or 0)
        return edited if edited is not None and edited.parent == step.number else None

    def _within(self, action: Action) -> int | None:
        """Return the step as a part of whose answer the action came."""
        outer = self._steps.get(action.parent or 0)
        if outer is None:
            return None
        if outer.edited_as == action.step and self._edited_step(outer) is not None:
            return action.parent
        if action.kind is Kind.TOOL and "proposed_by" in action.context:
            return action.parent
        if action.kind is Kind.MODEL and outer.kind is Kind.HTTP:
            return action.parent
        return None

    def _begun_n(self, step: Step) -> int | None:
        """Return the last record before its answer began. A model call answers for the request
        around it."""
        if step.kind not in _REQUESTS:  # what a tool returns may say anything under that name
            return None
        begun = whole_number(self._answer(step).get("begun"))
        return begun if begun is not None and begun >= 0 else None

    def _is_unseen(self, step: Step, begun_n: int | None) -> bool:
        """Return whether nothing of its answer reached the agent: it had stopped waiting, or had
        ended. Nothing that the agent did can depend on such an answer."""
        settlement = step.record(Settled)
        if settlement is None or step.kind not in _REQUESTS:
            return False
        agent = self._steps.get(AGENT_STEP)
        end = None if agent is None else agent.record(Settled)
        answered_n = settlement.n if begun_n is None else begun_n
        if end is not None and answered_n > end.n:
            return True
        return begun_n is None and bool(self._answer(step).get("left"))

    def _answer(self, step: Step) -> Mapping[str, Any]:
        """Return the result that has the answer: of a request that carries a model call, that of
        the call."""
        inner = self._steps.get(step.model_step or 0)
        return step.result if inner is None or inner.kind is not Kind.MODEL else inner.result

    def _why_unkept(self, action: Action, last: Step) -> str:
        """Return why the record does not have all that the agent got; empty if it has."""
        record, settled = last.record(Settled), last.settled
        if record is None or settled is None:
            return ""
        if settled.outcome in (Outcome.REFUSED, Outcome.FAULTED):
            return ""
        if action.kind is Kind.CONNECT:
            if settled.outcome is Outcome.FAILED:
                return ""
            return "a connection that was passed through: nothing of it is kept"
        if not record.is_whole:
            return f"the answer is not whole: {BEYOND_BUDGET}"
        if action.kind not in _REQUESTS:
            return ""
        result = settled.result
        if isinstance(result, str) and record.blobs:  # it may be the preview of an object
            result = self.settled(last.number).result
        return _why_result_unkept(result) if isinstance(result, Mapping) else ""


def _why_result_unkept(result: Mapping[str, Any]) -> str:
    if result.get("is_cut"):
        why = f": {BEYOND_BUDGET}" if result.get("cut_by") == "budget" else ""
        return f"of an answer of {result.get('bytes')} bytes only the beginning is kept{why}"
    if "websocket" not in result:
        return ""
    frames = result.get("frames")
    if not isinstance(frames, Mapping):
        return "a WebSocket of an earlier version, which kept nothing of what was said"
    if frames.get("is_cut"):
        return f"not all of what was said over the WebSocket is kept: {BEYOND_BUDGET}"
    return ""


def compared_arguments(log: RunLog, action: Action) -> Mapping[str, Any]:
    """Return the arguments of an action as they are compared: a model call in full."""
    arguments = whole_arguments(log, action.kind, action.arguments)
    if action.kind is not Kind.MODEL or "conversation" not in arguments:
        return arguments
    rest = {key: value for key, value in arguments.items() if key not in _ABOUT_REQUEST}
    return {**rest, "body": request_of(log, arguments)}


def _by_outer_step(steps: Iterable[RecordedStep]) -> dict[int, list[RecordedStep]]:
    inside: dict[int, list[RecordedStep]] = {}
    for step in steps:
        if step.within is not None:
            inside.setdefault(step.within, []).append(step)
    return inside
