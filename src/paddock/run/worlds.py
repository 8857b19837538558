"""What the record of a run says about its world at a step: who had been spoken to, which stores go
back to that moment, and in whose world they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from paddock.gate.signed_journals import check_trusted
from paddock.model.action import Kind
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.policy.decide import Policy
from paddock.run.epochs import Lived, lived_under
from paddock.run.matching.besides import marked
from paddock.run.matching.rows import Row
from paddock.run.tape import Tape
from paddock.world.going_back import Life, Past

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.gate.gate import Gate
    from paddock.policy.world import StandInTerms
    from paddock.run.forking import Plan
    from paddock.state.home import Home

_SPEAKING = (Kind.HTTP, Kind.MODEL, Kind.CONNECT)
_MAX_LIVES = 100  # of a lineage; a journal that was made up may have no end of it


def past_world(home: Home, plan: Plan) -> Past:
    """The world that a fork begins with."""
    lives = tuple(_lives(home, plan.tape, plan.at))
    nearest = lives[0]
    had = {place: service for place, service in nearest.keeps if place in nearest.positions}
    spoken = list(_spoken(plan))
    return Past(
        home=home.root,
        step=plan.at,
        lives=lives,
        needed={**had, **{one.place: one.service for _, one in spoken}},
        # What goes on beside it speaks at any moment.
        used=frozenset(one.place for row, one in spoken if row.beside is None),
    )


def note_world(box: Box, gate: Gate) -> None:
    """A fork's stores begin with a past: who forks it further can tell whether they have it yet."""
    if box.world is not None:
        gate.note({"what": "world moved", "positions": box.world.positions()})


def _spoken(plan: Plan) -> Iterator[tuple[Row, StandInTerms]]:
    """The stand-ins that the past spoke to, each under the terms of its own step."""
    lived = Lived(plan.before, plan.epochs)
    for row in marked(plan.tape.rows, plan.rules.beside):
        if row.step < plan.at and row.kind in _SPEAKING:
            found = _stand_in(lived.at(row.step), row)
            if found is not None:
                yield row, found


def _stand_in(policy: Policy, row: Row) -> StandInTerms | None:
    host, port = row.arguments.get("host"), row.arguments.get("port")
    if policy.world is None or policy.network is None:
        return None
    if not isinstance(host, str) or not isinstance(port, int):
        return None
    where = policy.network.stand_in(host, port)
    return None if where is None else policy.world.at(where)


def _lives(home: Home, tape: Tape, at: int) -> Iterator[Life]:
    """The run, and those before it that lived through the same past."""
    one: Tape | None = tape
    for _ in range(_MAX_LIVES):
        if one is None:
            return
        positions = _positions(one, at)
        keeps = (each for each in _keeps(one, at) if not _is_undone(one, at, each[0]))
        yield Life(one.run, frozenset(keeps), positions)
        one = _parent(home, one, at)


def _keeps(tape: Tape, at: int) -> frozenset[tuple[str, str]]:
    """A fork has copies of the stand-ins that its own terms have, and no others: those that stood
    there all along, from the step before on, have their whole past."""
    standing = [
        frozenset(
            (one.place, one.service) for one in (policy.world.stand_ins if policy.world else ())
        )
        for policy in lived_under(tape).since(max(at - 1, 0))
    ]
    return frozenset.intersection(*standing)


def _positions(tape: Tape, at: int) -> dict[str, int]:
    """How far each store had come before the step, by the last note about it."""
    found: dict[str, int] = {}
    for step, positions in tape.moved:
        if step is None or step < at:
            found.update(positions)
    return found


def _is_undone(tape: Tape, at: int, place: str) -> bool:
    """Return whether the stand-in was taken back at or after that step while the run went on.

    The notes are compared in the order of the journal, not of their steps: of steps that were under
    way together a later one may have ended, and been noted, first.
    """
    before = 0
    for step, positions in tape.moved:
        now = positions.get(place, before)
        if now < before and step is not None and step >= at:
            return True
        before = now
    return False


def _parent(home: Home, tape: Tape, at: int) -> Tape | None:
    """The run whose life it had until that step, if its journal is there."""
    lineage = tape.opened.get("lineage")
    run = lineage.get("run") if isinstance(lineage, Mapping) else None
    if not isinstance(lineage, Mapping) or not isinstance(run, str) or "/" in run:
        return None
    until = lineage.get("at")
    if isinstance(until, int) and at > until:
        return None
    try:
        parent = Tape.read(home.runs / run, check_trusted(home.runs / run, home))
    except (NotFound, InvalidInput, IntegrityError):
        return None
    known = {(row.step, row.name) for row in parent.rows}
    # What left its record has a life of its own.
    is_same = all((row.step, row.name) in known for row in tape.rows if row.step < at)
    return parent if is_same else None
