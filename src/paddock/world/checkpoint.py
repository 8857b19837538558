"""The world of an earlier run as it was before one of its steps, for a fork.

A fork copies the stores of the earlier run and undoes all changes of that step and later ones. The
stores may lie in the run itself or in one of the runs that it was forked from. If a needed state
cannot be restored, the fork is refused; a stand-in never silently starts empty.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from paddock.model.errors import InvalidInput, NotFound
from paddock.policy.world import StandInTerms, WorldTerms
from paddock.world.context import START
from paddock.world.registry import load_service
from paddock.world.saved_worlds import SavedService, SavedWorld, open_saved_world
from paddock.world.store import Store, connect_read_only


class AncestorRun(msgspec.Struct, frozen=True):
    """A run whose history includes the checkpoint, according to its journal."""

    run: str
    keeps: frozenset[tuple[str, str]]  # (place, service) whose stores reach back to the checkpoint
    positions: Mapping[str, int]  # of each store at the checkpoint


class WorldCheckpoint(msgspec.Struct, frozen=True):
    """The point before a step of an earlier run."""

    home: Path
    step: int
    ancestors: tuple[AncestorRun, ...]  # the nearest run first
    needed: Mapping[str, str]  # place -> service of the stand-ins that were used or had a state
    used: frozenset[str]  # places that the agent itself called, not background traffic

    @property
    def start(self) -> float:
        """The time at which the world's clock started."""
        with self._open_worlds() as worlds:
            starts = (service.context.start for _, world in worlds for service in world.services)
            return next(starts, START)

    def copy_into(
        self, directory: Path, terms: WorldTerms, file_name: Callable[[str], str]
    ) -> frozenset[str]:
        """Copy the stores of stand-ins that exist again, and return the places of those.

        Raises InvalidInput where a stand-in had a state that cannot be restored.
        """
        with self._open_worlds() as worlds:
            return frozenset(
                stand_in.place
                for stand_in in terms.stand_ins
                if self._copy_store(stand_in, worlds, directory / file_name(stand_in.place))
            )

    def _copy_store(
        self, stand_in: StandInTerms, worlds: list[tuple[AncestorRun, SavedWorld]], target: Path
    ) -> bool:
        place, service = stand_in.place, stand_in.service
        is_needed = self.needed.get(place) == service
        if not load_service(service).is_rewindable:
            if is_needed and place in self.used:
                raise self._unrestorable(place, f"({service}) keeps no past")
            return False
        is_too_short = False
        for ancestor, world in worlds:
            saved = _find_service(world, stand_in)
            if saved is None or (is_needed and (place, service) not in ancestor.keeps):
                continue
            if saved.store.position() >= ancestor.positions.get(place, 0):
                _copy_rewound(saved, target, self.step)
                return True
            is_too_short = True
        if is_too_short:
            raise self._unrestorable(place, "was reset since, or has lost what it held")
        if is_needed:
            raise self._unrestorable(place, "is not there any more with what it held")
        return False

    def _unrestorable(self, place: str, reason: str) -> InvalidInput:
        return InvalidInput(
            f"the stand-in {place} {reason}: its state at step {self.step} cannot be had back",
            hint=f"fork before the first step that speaks to {place}",
        )

    @contextmanager
    def _open_worlds(self) -> Iterator[list[tuple[AncestorRun, SavedWorld]]]:
        worlds = []
        with ExitStack() as stack:
            for ancestor in self.ancestors:
                try:
                    world = stack.enter_context(open_saved_world(self.home, ancestor.run))
                except NotFound:
                    continue
                worlds.append((ancestor, world))
            yield worlds


def _find_service(world: SavedWorld, stand_in: StandInTerms) -> SavedService | None:
    for saved in world.services:
        if saved.name == stand_in.place and saved.service == stand_in.service:
            return saved
    return None


def _copy_rewound(saved: SavedService, target: Path, step: int) -> None:
    """Copy a store and undo all changes of the step and later ones.

    Steps can overlap. If an earlier step changed the store after this one did, its change cannot be
    kept without the other, and the fork is refused.
    """
    with (
        closing(connect_read_only(saved.store.path)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
    position, _ = saved.span(step, None)
    with closing(connect_read_only(target)) as database:
        sql = "SELECT max(step) FROM changes WHERE at > ? AND step < ?"
        late_step = database.execute(sql, (position, step)).fetchone()[0]
    if late_step is not None:
        raise InvalidInput(
            f"{saved.name} was changed by step {late_step} after step {step} had changed it",
            hint=f"they were under way together: fork at step {late_step + 1}",
        )
    with Store.open(target) as store:
        store.rewind(position)
