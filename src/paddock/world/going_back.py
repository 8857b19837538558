"""The world of an earlier run as it was before one of its steps: copies of its stores, in which all
that came later is undone. What a fork needs and cannot have back is refused, never begun anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from paddock.model.errors import InvalidInput, NotFound
from paddock.policy.world import StandInTerms, WorldTerms
from paddock.world.context import START
from paddock.world.kept import KeptService, KeptWorld, open_kept
from paddock.world.registry import load_service
from paddock.world.store import Store


class Life(msgspec.Struct, frozen=True):
    """A run that lived through the moment, as its journal tells it: the stand-ins (place and
    service) whose stores in its world go back to it, and how far each had come by then."""

    run: str
    keeps: frozenset[tuple[str, str]]
    positions: Mapping[str, int]


class Past(msgspec.Struct, frozen=True):
    """A moment before a step of an earlier run. Of the stand-ins that it spoke to, and of those
    that are known to have had a state, `needed` says what stood at each place; `used` are those
    that it spoke to in its own order."""

    home: Path
    step: int
    lives: tuple[Life, ...]  # the nearest first
    needed: Mapping[str, str]
    used: frozenset[str]

    @property
    def start(self) -> float:
        """When its clock began."""
        with self._worlds() as worlds:
            found = (one.context.start for _, world in worlds for one in world.services)
            return next(found, START)

    def copy_into(
        self, directory: Path, terms: WorldTerms, file_of: Callable[[str], str]
    ) -> frozenset[str]:
        """Copies the stores of stand-ins that there are again; gives their places. Raises
        InvalidInput where one had a state that cannot be had back."""
        with self._worlds() as worlds:
            return frozenset(
                one.place
                for one in terms.stand_ins
                if self._copied(one, worlds, directory / file_of(one.place))
            )

    def _copied(
        self, one: StandInTerms, worlds: list[tuple[Life, KeptWorld]], target: Path
    ) -> bool:
        is_needed = self.needed.get(one.place) == one.service
        if not load_service(one.service).is_rewindable:
            if is_needed and one.place in self.used:
                raise self._lost(one, f"({one.service}) keeps no past")
            return False
        is_short = False
        for life, world in worlds:
            found = _store(world, one)
            if found is None or (is_needed and (one.place, one.service) not in life.keeps):
                continue
            if found.store.position() >= life.positions.get(one.place, 0):
                _copy(found, target, self.step)
                return True
            is_short = True
        if is_short:
            raise self._lost(one, "was reset since, or has lost what it held")
        if is_needed:
            raise self._lost(one, "is not there any more with what it held")
        return False

    def _lost(self, one: StandInTerms, why: str) -> InvalidInput:
        return InvalidInput(
            f"the stand-in {one.place} {why}: its state at step {self.step} cannot be had back",
            hint=f"fork before the first step that speaks to {one.place}",
        )

    @contextmanager
    def _worlds(self) -> Iterator[list[tuple[Life, KeptWorld]]]:
        """Of the lives that have one."""
        found = []
        with ExitStack() as stack:
            for life in self.lives:
                try:
                    found.append((life, stack.enter_context(open_kept(self.home, life.run))))
                except NotFound:
                    continue
            yield found


def _store(world: KeptWorld, one: StandInTerms) -> KeptService | None:
    known = (kept for kept in world.services if kept.name == one.place)
    return next((kept for kept in known if kept.service == one.service), None)


def _copy(one: KeptService, target: Path, step: int) -> None:
    source = f"{one.store.path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(source, uri=True)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
    with Store.open(target) as store:
        since, _ = one.span(step, None)
        late = _late(target, since, step)
        if late is not None:
            raise InvalidInput(
                f"{one.name} was changed by step {late} after step {step} had changed it",
                hint=f"they were under way together: fork at step {late + 1}",
            )
        store.rewind(since)


def _late(path: Path, since: int, step: int) -> int | None:
    """A step before the one in question whose change came after: it cannot be kept alone."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        sql = "SELECT max(step) FROM changes WHERE at > ? AND step < ?"
        found = database.execute(sql, (since, step)).fetchone()[0]
    return None if found is None else int(found)
