"""What one run did, as far as comparing needs it, read from its journal alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from paddock.journal.places import is_held
from paddock.journal.reader import Reader, Spot
from paddock.journal.records import Record
from paddock.model.errors import PaddockError
from paddock.model.values import dataclass
from paddock.run.account import Account
from paddock.run.compare.moves import Move, add_decided, add_exit, add_settled, proposed_move
from paddock.run.report import Report
from paddock.world.verdicts import Report as Verdicts
from paddock.world.verdicts import judge_run

MAX_ANCESTORS = 100
_EXIT = b'"what":"exit"'
_PARTS = frozenset({b"proposed", b"decided", b"settled"})


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A run whose steps before `before` are the same steps. None: all of them may be."""

    run: str
    before: int | None


@dataclass(frozen=True, slots=True)
class Trail:
    """One run: what it came to, its steps in order, and where it comes from."""

    directory: Path
    report: Report
    moves: tuple[Move, ...]
    verdicts: Verdicts
    opened: Mapping[str, Any] = field(default_factory=dict)
    setting: Mapping[str, Any] = field(default_factory=dict)
    ancestors: tuple[Ancestor, ...] = ()

    @property
    def run(self) -> str:
        return self.report.run


def read_trail(directory: Path) -> Trail:
    """Raises NotFound and IntegrityError, as a reader does."""
    reader, account = Reader(directory), Account()
    is_alive = is_held(directory)
    moves: dict[int, Move] = {}
    setting: Mapping[str, Any] = {}
    for spot, line, back in reader.scan(Spot(1, 0)):
        account.take_line(line, back)
        _, step, kind = back
        if step is not None and kind in _PARTS:
            _take(moves, spot, kind, Record.parse(line))
        elif kind == b"observed" and step in moves and _EXIT in line:
            add_exit(moves[step], Record.parse(line).body)
        elif kind == b"noted" and not setting and b'"what":"setting"' in line:
            setting = whole_body(reader, Record.parse(line))
    report = account.report(is_alive=is_alive)
    for number, again in report.repeats.items():
        if number in moves:
            moves[number].repeats = again.count
    return Trail(
        directory=directory,
        report=report,
        moves=tuple(moves[step] for step in sorted(moves) if not _only_carries(moves[step], moves)),
        verdicts=_verdicts(reader, report),
        opened=account.opened,
        setting=setting,
        ancestors=_ancestors(directory, account.opened),
    )


def _verdicts(reader: Reader, report: Report) -> Verdicts:
    """Most runs meet no fault: they are not read again for it."""
    is_hurt = report.faults or (report.world is not None and report.world.broken)
    return judge_run(reader) if is_hurt else Verdicts(())


def _only_carries(move: Move, moves: Mapping[int, Move]) -> bool:
    """Return whether a step is nothing but the request around a question to a model. That is a step
    of its own only where a rule or a limit concerns requests, so another run that asked the same
    may not have it. One that was not simply let pass is compared like any other."""
    question = moves.get(move.carries or 0)
    if question is None or question.kind != "model":
        return False
    return move.verdict in ("allow", "simulate") and not move.fault


def whole_body(reader: Reader, record: Record) -> Mapping[str, Any]:
    """With its large values; a blob that is gone or damaged leaves the preview."""
    try:
        return reader.body(record)
    except (PaddockError, OSError):
        return record.body


def _take(moves: dict[int, Move], spot: Spot, kind: bytes, record: Record) -> None:
    step = record.step
    assert step is not None
    if kind == b"proposed":
        moves.setdefault(step, proposed_move(record, spot))
    elif move := moves.get(step):
        if kind == b"decided":
            add_decided(move, record)
        else:
            add_settled(move, record, spot)


def _ancestors(directory: Path, opened: Mapping[str, Any]) -> tuple[Ancestor, ...]:
    """Itself, and those it was forked from, as far as they are beside it."""
    found: dict[str, Ancestor] = {}
    run, before = str(opened.get("run")), None
    while run not in found and len(found) < MAX_ANCESTORS:
        found[run] = Ancestor(run, before)
        lineage = opened.get("lineage")
        if not isinstance(lineage, Mapping) or not isinstance(lineage.get("run"), str):
            break
        run, at = lineage["run"], lineage.get("at")
        if type(at) is int:
            before = at if before is None else min(at, before)
        opened = _opened(directory.parent, run)
    return tuple(found.values())


def _opened(runs: Path, run: str) -> Mapping[str, Any]:
    """Nothing for a run that is gone, and for a name that leads elsewhere."""
    if not run or "/" in run or "\0" in run or run in (".", ".."):
        return {}
    try:
        return Reader(runs / run).opened().body
    except (PaddockError, OSError):
        return {}


def shared_before(here: Trail, there: Trail) -> int | None:
    """Up to which step (without it) both have the same past; 0: they are strangers; None: one may
    be the other from beginning to end."""
    known = {one.run: one.before for one in there.ancestors}
    ends = [_nearer(one.before, known[one.run]) for one in here.ancestors if one.run in known]
    if not ends:
        return 0
    return None if None in ends else max(end for end in ends if end is not None)


def _nearer(one: int | None, other: int | None) -> int | None:
    ends = [end for end in (one, other) if end is not None]
    return min(ends) if ends else None
