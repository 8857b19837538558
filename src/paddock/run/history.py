"""The history of a run, read from its journal alone: its steps, and what the files and the world
were like at each. The journal is verified before the first step is given.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from paddock.journal.codec import body_of
from paddock.journal.integrity.keys import PUBLIC_NAME, PublicKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import Covered, RunLog
from paddock.model.errors import IntegrityError, InvalidInput
from paddock.model.events import (
    Alert,
    Answered,
    AnyEvent,
    Asked,
    BackgroundAnswered,
    Decided,
    FilesRecorded,
    JsonObject,
    ProgramEnded,
    ProgramStarted,
    Proposed,
    Record,
    ReplayRepeated,
    Settled,
    WorldChanged,
)
from paddock.model.steps import Step

if TYPE_CHECKING:
    from paddock.model.action import Decision
    from paddock.policy.analysis.candidate import DecisionChange
    from paddock.policy.decide import Policy

T = TypeVar("T")
MAX_OBSERVED = 1000  # observations of one step; the agent's own step may have any number
_ACTION = (Proposed, Decided, Asked, Answered, Settled)
_OBSERVED = (ProgramStarted, ProgramEnded, ReplayRepeated, BackgroundAnswered)


class StepState(msgspec.Struct, frozen=True):
    """The state of files and world around a step."""

    tree: str | None = None  # of the files, when the step was proposed
    positions: Mapping[str, int] = {}  # of the stand-ins, after it
    has_moved_files: bool = False  # they are other than at the step before
    has_moved_world: bool = False


class HistoryStep(msgspec.Struct, frozen=True):
    """One step of a run, with its large values, and the state around it."""

    step: Step
    state: StepState
    is_cut: bool = False  # whether more was observed than is in the step

    def as_json(self) -> JsonObject:
        """Return it for programs. Keys may be added."""
        step, state = self.step, self.state
        others = [record for record in step.records if not isinstance(record.event, _ACTION)]
        return {
            "step": step.number,
            "at": step.at,
            "proposed": _body(step.proposed) or {},
            "decided": _body(step.decided),
            "asked": _body(step.asked),
            "answered": _body(step.answered),
            "settled": _body(step.settled),
            "observed": [_named_body(record) for record in others if _is_observed(record)],
            "notes": [_named_body(record) for record in others if not _is_observed(record)],
            "is_cut": self.is_cut,
            "duration_us": step.waited_us,
            "tree": state.tree,
            "positions": state.positions,
        }


class RedecidedStep(msgspec.Struct, frozen=True):
    """A step of a history, and what another policy would have decided. `after` is None where it
    decides as it was; `programs` are those that the step caused and that would be stopped."""

    recorded: HistoryStep
    after: Decision | None = None
    programs: tuple[DecisionChange, ...] = ()


class RunHistory:
    """The steps of a run, verified once, each to be had at any time."""

    def __init__(self, log: RunLog) -> None:
        self.log = log
        self.step_numbers = log.step_numbers()
        self._trees: list[tuple[int, str]] = []
        self._last_tree: str | None = None
        changes: list[tuple[int, Mapping[str, int]]] = []
        for record in log.events(FilesRecorded, WorldChanged):
            match record.event:
                case FilesRecorded(tree=tree):
                    self._last_tree = tree
                    if record.step is not None:
                        self._trees.append((record.step, tree))
                case WorldChanged(positions=positions) if record.step is not None:
                    changes.append((record.step, positions))
        self._trees.sort(key=_number)
        self._positions = _added_up(sorted(changes, key=_number))

    @classmethod
    def read(
        cls, directory: Path, key: PublicKey | None = None, *, with_unsigned: bool = False
    ) -> RunHistory:
        """Verify the chain and every signed head of a journal, and return the history of what is
        signed, or of all if what comes after the last signature is wanted too.

        `key` is whose signatures are wanted; journals of this home are signed with its key. Others
        are checked with the key that they name themselves: they are sound then, whoever wrote them.
        Every line is compared with the hash that was verified when it is read, so nobody sees a
        record that was changed in between. Raises IntegrityError where the journal breaks, or is
        not signed at all."""
        key = key or _home_key(directory) or _own_key(directory)
        leaves = bytearray()
        report = verify(directory, key, reads_values=False, leaves=leaves)
        if report.problems:
            first = str(report.problems[0]).partition("\n")[0]
            raise IntegrityError(f"{first}: paddock verify says more")
        size = report.records if with_unsigned else report.usable
        return cls(RunLog(directory, Covered(bytes(leaves), size)))

    def steps(self) -> Iterator[HistoryStep]:
        """Yield every step, in the order of their numbers."""
        for step in self.log.steps():
            yield self._with_state(step)

    def step(self, number: int) -> HistoryStep:
        """Return the step of that number."""
        return self._with_state(self.log.step(number))

    def redecide(self, policy: Policy) -> Iterator[RedecidedStep]:
        """Yield every step with what this policy would have decided about it then."""
        from paddock.gate.recorded_actions import recorded_events
        from paddock.policy.analysis.candidate import replay

        decisions: dict[int, Decision] = {}
        programs: dict[int, list[DecisionChange]] = {}
        for change in replay(policy, recorded_events(self.log.directory, self.log.covered)):
            if change.before.decided_by == "observed":
                programs.setdefault(change.step, []).append(change)
            else:
                decisions[change.step] = change.after
        for recorded in self.steps():
            number = recorded.step.number
            yield RedecidedStep(recorded, decisions.get(number), tuple(programs.get(number, ())))

    def tree_after(self, number: int) -> str | None:
        """Return the files as they were when the next step was proposed, or at the end."""
        at = bisect_right(self._trees, number, key=_number)
        later = self.step_numbers[bisect_right(self.step_numbers, number) :]
        if at < len(self._trees) and later and self._trees[at][0] == later[0]:
            return self._trees[at][1]
        return _until(self._trees, number) if later else self._last_tree

    def _with_state(self, step: Step) -> HistoryStep:
        records = _bounded(step.records)
        is_cut = len(records) < len(step.records)
        whole = self.log.whole_step(Step(step.number, records))
        return HistoryStep(whole, self._state_of(step.number), is_cut)

    def _state_of(self, number: int) -> StepState:
        index = bisect_left(self.step_numbers, number)
        before = self.step_numbers[index - 1] if index else -1
        tree, positions = _until(self._trees, number), _until(self._positions, number) or {}
        return StepState(
            tree,
            positions,
            has_moved_files=tree != _until(self._trees, before),
            has_moved_world=positions != (_until(self._positions, before) or {}),
        )


def _bounded(records: tuple[Record, ...]) -> list[Record]:
    """Return the records without the observations that are too many."""
    kept: list[Record] = []
    observed = 0
    for record in records:
        observed += _is_observed(record)
        if observed <= MAX_OBSERVED or not _is_observed(record):
            kept.append(record)
    return kept


def _is_observed(record: Record) -> bool:
    return isinstance(record.event, _OBSERVED)


def _body(event: AnyEvent | None) -> JsonObject | None:
    return None if event is None else body_of(event)


def _named_body(record: Record) -> JsonObject:
    """Return the fields of an event with its name, and the details of an alert among them."""
    body = body_of(record.event)
    if isinstance(record.event, Alert):
        body = {"alert": record.event.alert, "times": record.event.times, **record.event.about}
    return {"what": record.type, **body}


def _until(values: list[tuple[int, T]], number: int) -> T | None:
    """Return the last value that is not later than the step."""
    at = bisect_right(values, number, key=_number)
    return values[at - 1][1] if at else None


def _added_up(
    changes: list[tuple[int, Mapping[str, int]]],
) -> list[tuple[int, Mapping[str, int]]]:
    """Return all positions at each of these steps, of which each event has those that changed."""
    positions: Mapping[str, int] = {}
    sums: list[tuple[int, Mapping[str, int]]] = []
    for number, changed in changes:
        positions = {**positions, **changed}
        sums.append((number, positions))
    return sums


def _home_key(directory: Path) -> PublicKey | None:
    """Return the key of this home if the journal lies in it."""
    from paddock.state.home import Home

    home = Home.find()
    path = home.keys / PUBLIC_NAME
    is_ours = directory.absolute().parent.resolve() == home.runs.resolve()
    return PublicKey.load(path) if is_ours and path.exists() else None


def _own_key(directory: Path) -> PublicKey:
    """Return the key that a journal names itself."""
    try:
        return PublicKey.parse(RunLog(directory).opened.public_key)
    except InvalidInput as error:
        raise IntegrityError(f"{directory.name}: {error.message}") from None


def _number(value: tuple[int, Any]) -> int:
    return value[0]
