"""The steps of one run, as far as comparing needs them, read from its journal in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from paddock.journal.index.terms import run_terms
from paddock.journal.log import RunLog
from paddock.journal.run_directory import is_held
from paddock.model.action import Kind, Verdict
from paddock.model.errors import PaddockError
from paddock.model.events import (
    Configured,
    Decided,
    Lineage,
    Opened,
    ProgramEnded,
    ProgramStarted,
    Proposed,
    Record,
    RefusedAgain,
    Settled,
)
from paddock.model.steps import Step
from paddock.run.compare.compared_step import ComparedStep
from paddock.run.report import ReportFold, RunReport
from paddock.world.verdicts import VerdictReport as Verdicts
from paddock.world.verdicts import judge_run

MAX_ANCESTORS = 100
_LET_PASS = (Verdict.ALLOW, Verdict.SIMULATE)


class Ancestor(msgspec.Struct, frozen=True):
    """A run whose steps before `before` are the same steps. None: all of them may be."""

    run: str
    before: int | None


class Trail(msgspec.Struct, frozen=True):
    """One run: what it came to, its steps in order, and where it comes from."""

    log: RunLog
    report: RunReport
    steps: tuple[ComparedStep, ...]
    verdicts: Verdicts
    opened: Opened
    configured: Configured = Configured()
    ancestors: tuple[Ancestor, ...] = ()

    @property
    def run(self) -> str:
        return self.report.run

    @property
    def directory(self) -> Path:
        return self.log.directory

    @property
    def terms(self) -> dict[str, str]:
        """The terms that the run was made under, by name."""
        return run_terms(self.opened, self.configured)


def read_trail(directory: Path) -> Trail:
    """Return the trail of a run. Raises NotFound and IntegrityError, as a log does."""
    log, fold = RunLog(directory), ReportFold()
    is_alive = is_held(directory)
    records: dict[int, list[Record]] = {}
    configured: Configured | None = None
    for record in log.events():
        fold.take(record)
        if isinstance(record.event, Configured) and configured is None:
            whole = whole_record(log, record).event
            configured = whole if isinstance(whole, Configured) else record.event
        if record.step is not None and _is_compared(record, records.get(record.step, ())):
            records.setdefault(record.step, []).append(record)
    steps = {number: Step(number, records[number]) for number in sorted(records)}
    report = fold.report(is_alive=is_alive)
    return Trail(
        log=log,
        report=report,
        steps=tuple(
            ComparedStep(step) for step in steps.values() if not _only_carries(step, steps)
        ),
        verdicts=_verdicts(log, report),
        opened=fold.opened,
        configured=configured or Configured(),
        ancestors=_ancestors(directory, fold.opened),
    )


def whole_record(log: RunLog, record: Record) -> Record:
    """Return the record with its large values; a blob that is gone or damaged leaves the
    preview."""
    try:
        return log.whole(record)
    except (PaddockError, OSError):
        return record


def _is_compared(record: Record, before: Sequence[Record]) -> bool:
    """Return whether comparing needs a record. `before` are the records of its step so far. Of
    programs only the one that the step itself is matters: the agent's own step may have started any
    number."""
    match record.event:
        case Proposed():
            return True
        case _ if not before:  # of an action that was never proposed
            return False
        case Decided() | Settled() | RefusedAgain():
            return True
        case ProgramStarted(pid=pid) | ProgramEnded(pid=pid):
            proposed = before[0].event
            assert isinstance(proposed, Proposed)
            return pid is not None and proposed.arguments.get("pid") == pid
    return False


def _verdicts(log: RunLog, report: RunReport) -> Verdicts:
    """Return the verdicts on a run. Most runs meet no fault: they are not read again for it."""
    is_hurt = report.faults or (report.world is not None and report.world.broken)
    return judge_run(log) if is_hurt else Verdicts(())


def _only_carries(step: Step, steps: Mapping[int, Step]) -> bool:
    """Return whether a step is nothing but the request around a question to a model. That is a step
    of its own only where a rule or a limit concerns requests, so another run that asked the same
    may not have it. One that was not simply let pass is compared like any other."""
    question = steps.get(step.model_step or 0)
    if question is None or question.kind is not Kind.MODEL:
        return False
    return step.verdict in _LET_PASS and not step.fault


def _ancestors(directory: Path, opened: Opened) -> tuple[Ancestor, ...]:
    """Return the run itself, and those it was forked from, as far as they are beside it."""
    ancestors: dict[str, Ancestor] = {}
    run, before, lineage = opened.run, None, opened.lineage
    ancestors[run] = Ancestor(run, before)
    while lineage is not None and lineage.run not in ancestors and len(ancestors) < MAX_ANCESTORS:
        run, before = lineage.run, _nearer(before, lineage.at)
        ancestors[run] = Ancestor(run, before)
        lineage = _lineage_of(directory.parent, run)
    return tuple(ancestors.values())


def _lineage_of(runs: Path, run: str) -> Lineage | None:
    """Return where a run comes from; None for one that is gone, and for a name that leads
    elsewhere."""
    if not run or "/" in run or "\0" in run or run in (".", ".."):
        return None
    try:
        return RunLog(runs / run).opened.lineage
    except (PaddockError, OSError):
        return None


def shared_before(here: Trail, there: Trail) -> int | None:
    """Return the step before which both runs share their past: 0 if they are unrelated, None if one
    may equal the other from beginning to end."""
    theirs = {ancestor.run: ancestor.before for ancestor in there.ancestors}
    ends = [
        _nearer(ancestor.before, theirs[ancestor.run])
        for ancestor in here.ancestors
        if ancestor.run in theirs
    ]
    if not ends:
        return 0
    return None if None in ends else max(end for end in ends if end is not None)


def _nearer(step: int | None, other: int | None) -> int | None:
    ends = [end for end in (step, other) if end is not None]
    return min(ends) if ends else None
