"""The world that a fork begins with: which stand-ins its past spoke to, how far their stores had
come at its step, and in which run's world they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paddock.gate.signed_journals import check_trusted
from paddock.model.action import Kind
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.policy.decide import Policy
from paddock.run.matching.background import marked
from paddock.run.matching.recorded_step import RecordedStep
from paddock.run.replay.policy_epochs import PolicyHistory
from paddock.run.replay.recorded_run import RecordedRun
from paddock.world.checkpoint import AncestorRun, WorldCheckpoint

if TYPE_CHECKING:
    from paddock.policy.world import StandInTerms
    from paddock.run.replay.fork import ForkPlan
    from paddock.state.home import Home

_SPEAKING = (Kind.HTTP, Kind.MODEL, Kind.CONNECT)
_MAX_ANCESTORS = 100  # of a lineage; a journal that was made up may have no end of it


def past_world(home: Home, plan: ForkPlan) -> WorldCheckpoint:
    """Return the world that a fork begins with."""
    ancestors = tuple(_ancestors(home, plan.recorded, plan.at))
    nearest = ancestors[0]
    had = {place: service for place, service in nearest.keeps if place in nearest.positions}
    spoken = list(_spoken(plan))
    return WorldCheckpoint(
        home=home.root,
        step=plan.at,
        ancestors=ancestors,
        needed={**had, **{one.place: one.service for _, one in spoken}},
        # Background traffic speaks at any time.
        used=frozenset(one.place for step, one in spoken if step.background is None),
    )


def _spoken(plan: ForkPlan) -> Iterator[tuple[RecordedStep, StandInTerms]]:
    """Yield the stand-ins that the past spoke to, each under the policy of its own step."""
    for step in marked(plan.recorded.steps, plan.rules.beside):
        if step.number < plan.at and step.kind in _SPEAKING:
            stand_in = _stand_in(plan.past.at(step.number), step)
            if stand_in is not None:
                yield step, stand_in


def _stand_in(policy: Policy, step: RecordedStep) -> StandInTerms | None:
    host, port = step.arguments.get("host"), step.arguments.get("port")
    if policy.world is None or policy.network is None:
        return None
    if not isinstance(host, str) or not isinstance(port, int):
        return None
    where = policy.network.stand_in(host, port)
    return None if where is None else policy.world.at(where)


def _ancestors(home: Home, recorded: RecordedRun, at: int) -> Iterator[AncestorRun]:
    """Yield the run, and those before it that had the same past."""
    run: RecordedRun | None = recorded
    for _ in range(_MAX_ANCESTORS):
        if run is None:
            return
        keeps = frozenset(
            (place, service) for place, service in _keeps(run, at) if not _is_undone(run, at, place)
        )
        yield AncestorRun(run.run, keeps, _positions(run, at))
        run = _parent(home, run, at)


def _keeps(recorded: RecordedRun, at: int) -> frozenset[tuple[str, str]]:
    """Return the stand-ins whose whole past a fork has. A fork has copies of the stand-ins that its
    own policy declares: those that were declared from the step before on have their whole past."""
    standing = [
        frozenset(
            (stand_in.place, stand_in.service)
            for stand_in in (policy.world.stand_ins if policy.world else ())
        )
        for policy in PolicyHistory.of(recorded).since(max(at - 1, 0))
    ]
    return frozenset.intersection(*standing)


def _positions(recorded: RecordedRun, at: int) -> dict[str, int]:
    """Return the position of each store before the step, from the last event about it."""
    latest: dict[str, int] = {}
    for step, positions in recorded.world_positions:
        if step is None or step < at:
            latest.update(positions)
    return latest


def _is_undone(recorded: RecordedRun, at: int, place: str) -> bool:
    """Return whether the stand-in was taken back at or after that step while the run went on.

    The notes are compared in the order of the journal, not of their steps: of steps that were under
    way together a later one may have ended, and been noted, first.
    """
    before = 0
    for step, positions in recorded.world_positions:
        now = positions.get(place, before)
        if now < before and step is not None and step >= at:
            return True
        before = now
    return False


def _parent(home: Home, recorded: RecordedRun, at: int) -> RecordedRun | None:
    """Return the run whose past it shares until that step, if its journal is there."""
    lineage = recorded.opened.lineage
    if lineage is None or not lineage.run or "/" in lineage.run:
        return None
    if lineage.at is not None and at > lineage.at:
        return None
    directory = home.runs / lineage.run
    try:
        parent = RecordedRun(directory, check_trusted(directory, home))
    except (NotFound, InvalidInput, IntegrityError):
        return None
    names = {(step.number, step.name) for step in parent.steps}
    # What left its record has a life of its own.
    is_same = all((step.number, step.name) in names for step in recorded.steps if step.number < at)
    return parent if is_same else None
