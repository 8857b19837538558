"""The world of an earlier run as it was before one of its steps: copies of its stores, in which all
that came later is undone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from paddock.model.errors import InvalidInput, NotFound
from paddock.model.values import dataclass
from paddock.policy.world import WorldTerms
from paddock.world.context import START
from paddock.world.kept import KeptService, KeptWorld, open_kept
from paddock.world.service import load
from paddock.world.store import Store


@dataclass(frozen=True, slots=True)
class Past:
    """A moment of an earlier run. `used` are the stand-ins that its steps before that spoke to."""

    home: Path
    run: str
    step: int
    used: frozenset[str]

    @property
    def start(self) -> float:
        """When its clock began."""
        try:
            with open_kept(self.home, self.run) as world:
                return next((one.context.start for one in world.services), START)
        except NotFound:
            return START

    def copy_into(
        self, directory: Path, terms: WorldTerms, file_of: Callable[[str], str]
    ) -> frozenset[str]:
        """Copies the stores of stand-ins that there are again; gives their places. Raises
        InvalidInput where one had a state that cannot be had back."""
        try:
            world = open_kept(self.home, self.run)
        except NotFound:
            return frozenset()
        with world:
            return frozenset(self._copied(world, directory, terms, file_of))

    def _copied(
        self, world: KeptWorld, directory: Path, terms: WorldTerms, file_of: Callable[[str], str]
    ) -> list[str]:
        wanted = {one.place: one.service for one in terms.stand_ins}
        done = []
        for one in world.services:
            if wanted.get(one.name) != one.service:
                continue
            if not load(one.service).is_rewindable:
                self._check_unused(one)
                continue
            _copy(one, directory / file_of(one.name), self.step)
            done.append(one.name)
        return done

    def _check_unused(self, one: KeptService) -> None:
        if one.name in self.used:
            raise InvalidInput(
                f"the stand-in {one.name} ({one.service}) keeps no past: its state at step "
                f"{self.step} cannot be had back",
                hint=f"fork before the first step that speaks to {one.host}",
            )


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
