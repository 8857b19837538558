"""The world of one run: its stand-ins, their memory, and what happens to all of them together."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.events import WorldEnded
from paddock.model.sizes import parse_duration
from paddock.model.version import install_command
from paddock.policy.problems import suggest
from paddock.policy.world import StandInTerms, WorldTerms
from paddock.world.asgi import HttpAnswer, WorldRequest, call
from paddock.world.changes import Change
from paddock.world.context import START, Context
from paddock.world.going_back import Past
from paddock.world.kept import LISTING
from paddock.world.registry import load_service
from paddock.world.service import ASGIApp, LocalService, Service
from paddock.world.store import STEP, Store

_MAX_NAME = 100  # of a file, before what tells it from others
_EVERYWHERE = ("also", "seed", "timeout")  # words of every stand-in


class StandIn(msgspec.Struct):
    """One stand-in at work."""

    terms: StandInTerms
    service: Service
    _app: ASGIApp | None = None

    @property
    def name(self) -> str:
        return self.terms.place

    @property
    def store(self) -> Store:
        return self.service.context.store

    @property
    def timeout_s(self) -> float:
        """How long an answer is waited for."""
        said = self.terms.options.get("timeout")
        return self.service.timeout_s if said is None else parse_duration(said, "timeout")

    async def request(self, request: WorldRequest, step: int | None) -> HttpAnswer:
        """The answer to one request. Raises StandInFailed."""
        if self._app is None:
            self._app = self.service.app()
        token = STEP.set(step)
        try:
            return await call(
                self._app,
                request,
                timeout_s=self.timeout_s,
                is_prompt=self.service.is_prompt,
            )
        finally:
            STEP.reset(token)

    def changes(self) -> list[Change]:
        """Since the beginning. For any thread, as is `digest`: each reads what is committed."""
        with Store.open(self.store.path, read_only=True) as store:
            return [*store.changes(), *self.service.extra_changes()]

    def digest(self) -> str:
        with Store.open(self.store.path, read_only=True) as store:
            return f"{store.digest()} {self.service.extra_digest()}"

    def invariants(self) -> list[str]:
        """What is broken between two requests. In the middle of one, much is for a moment."""
        if isinstance(self.service, LocalService):
            return self.service.invariants()
        with Store.open(self.store.path, read_only=True) as store, store.reading():
            return type(self.service)(replace(self.service.context, store=store)).invariants()


class World:
    """All stand-ins of a run, in one directory. Used on one thread at a time."""

    def __init__(
        self, directory: Path, run: str, terms: WorldTerms, stand_ins: Mapping[str, StandIn]
    ) -> None:
        self.directory = directory
        self.run = run
        self.terms = terms
        self._stand_ins = stand_ins
        self._is_closed = False

    @classmethod
    def open(
        cls,
        directory: Path,
        run: str,
        terms: WorldTerms,
        project: Path,
        past: Past | None = None,
    ) -> Self:
        """A new world, seeded; what is in `past` begins as it was at a moment of an earlier one.
        Raises InvalidInput for what the file says wrongly."""
        directory.mkdir(parents=True, mode=0o700)
        made: dict[str, StandIn] = {}
        world = cls(directory, run, terms, made)
        try:
            start = _start(terms.clock) if past is None else past.start
            known = {} if past is None else past.copy_into(directory, terms, file_of)
            for one in terms.stand_ins:
                made[one.place] = _stand_in(directory, one, terms.seed, start, project)
            for stand_in in world:
                if stand_in.name in known:
                    continue
                _fill(stand_in)
                stand_in.store.seal()
            world._describe(start)
        except BaseException:
            world._discard()
            raise
        return world

    def __iter__(self) -> Iterator[StandIn]:
        return iter(self._stand_ins.values())

    def __getitem__(self, place: str) -> StandIn:
        return self._stand_ins[place]

    def get(self, place: str) -> StandIn | None:
        return self._stand_ins.get(place)

    async def fork(self, directory: Path, run: str) -> World:
        """A second world that begins with this state. Independent from then on."""
        await asyncio.to_thread(directory.mkdir, parents=True, mode=0o700)
        made: dict[str, StandIn] = {}
        world = World(directory, run, self.terms, made)
        start = START
        try:
            for one in self:
                start = one.service.context.start
                made[one.name] = await _forked(one, directory)
                await made[one.name].service.copy_from(one.service)
            world._describe(start)
        except BaseException:
            await world.discard()
            raise
        return world

    async def reset(self) -> None:
        """Back to the beginning, exactly."""
        for one in self:
            one.store.reset()
            await one.service.reset()

    def digest(self) -> str:
        """The same for the same state of all stand-ins."""
        hashed = hashlib.sha256()
        for place in sorted(self._stand_ins):
            hashed.update(f"{place} {self._stand_ins[place].digest()}\n".encode())
        return hashed.hexdigest()

    def positions(self) -> dict[str, int]:
        """Where each store is in its own past; what a fork at a step comes back to."""
        return {one.name: one.store.position() for one in self}

    def broken(self) -> dict[str, list[str]]:
        """The invariants that do not hold, by stand-in."""
        found: dict[str, list[str]] = {}
        for one in self:
            try:
                said = one.invariants()
            except Exception as error:  # of its author's; the others are still to be heard
                said = [f"its invariants cannot be checked: {type(error).__name__}: {error}"]
            if said:
                found[one.name] = said
        return found

    def summary(self) -> WorldEnded:
        """Return what the journal records of the world when the run ends."""
        return WorldEnded(
            digest=self.digest(),
            positions=self.positions(),
            changes={stand_in.name: len(stand_in.changes()) for stand_in in self},
            broken=self.broken(),
        )

    async def close(self) -> None:
        """Ends what runs. The state stays, to be looked at."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._end_services()
        with contextlib.suppress(OSError, ValueError):  # somebody has removed it
            said = json.loads((self.directory / LISTING).read_text())
            self._write({**said, "ended": True})

    async def discard(self) -> None:
        """Of a run that never began: nothing of it stays."""
        self._is_closed = True
        await self._end_services()
        self._discard()

    async def _end_services(self) -> None:
        for one in self:
            with contextlib.suppress(Exception):
                await one.service.close()
            one.store.close()

    def _discard(self) -> None:
        for one in self:
            one.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _describe(self, start: float) -> None:
        """What reads a world after its end needs to know."""
        services = [
            {
                "name": one.name,
                "host": one.service.context.host,
                "port": one.service.context.port,
                "service": one.terms.service,
                "options": dict(one.terms.options),
                "file": file_of(one.name),
                "project": str(one.service.context.project),
            }
            for one in self
        ]
        said = {"run": self.run, "seed": self.terms.seed, "clock": start, "services": services}
        self._write({**said, "ended": False})

    def _write(self, said: Mapping[str, Any]) -> None:
        """All or nothing: whoever is killed meanwhile leaves a world that can be read."""
        new = self.directory / f"{LISTING}.new"
        new.write_text(json.dumps(said, indent=2))
        new.replace(self.directory / LISTING)


def _stand_in(
    directory: Path, terms: StandInTerms, seed: int, start: float, project: Path
) -> StandIn:
    try:
        kind = load_service(terms.service)
    except ImportError as error:
        raise HostCannot(
            f"world.{terms.place}: the service {terms.service} needs the package {error.name}",
            hint=install_command("world"),
        ) from None
    for word in terms.options:
        if word not in (known := (*kind.options, *_EVERYWHERE)):
            hint = suggest(word, known)
            raise InvalidInput(f"world.{terms.place}.{word}: unknown key", hint=hint)
    first = terms.at[0]
    context = Context(
        name=terms.place,
        host=first.host.host,
        port=first.first_port,
        store=Store.open(directory / file_of(terms.place)),
        seed=seed,
        start=start,
        options=terms.options,
        project=project,
        directory=_own_directory(directory, terms.place),
    )
    try:
        stand_in = StandIn(terms, kind(context))
        stand_in.service.check()
        _ = stand_in.timeout_s  # said now, not at a request
    except InvalidInput as error:
        context.store.close()
        raise InvalidInput(f"world.{terms.place}: {error.message}", hint=error.hint) from None
    except BaseException:
        context.store.close()
        raise
    return stand_in


async def _forked(one: StandIn, directory: Path) -> StandIn:
    """The same stand-in, with a copy of its store."""
    context, path = one.service.context, directory / file_of(one.name)
    await asyncio.to_thread(_copy_store, context.store.path, path)
    own = _own_directory(directory, one.name)
    copied = replace(context, store=Store.open(path), directory=own)
    return StandIn(one.terms, type(one.service)(copied))


def _fill(stand_in: StandIn) -> None:
    service, words = stand_in.service, stand_in.terms.options.get("seed")
    try:
        service.seed({} if words is None else service.read_seed(words))
    except InvalidInput as error:
        why = f"world.{stand_in.name}.seed: {error.message}"
        raise InvalidInput(why, hint=error.hint) from None


def _copy_store(source: Path, target: Path) -> None:
    with Store.open(source) as store:  # by a connection of its own: the other one may be in use
        store.snapshot(target)


def _own_directory(directory: Path, place: str) -> Path:
    own = directory / file_of(place).removesuffix(".sqlite")
    own.mkdir(mode=0o700, exist_ok=True)
    return own


def file_of(place: str) -> str:
    """A name that no other place has, and that no file system minds."""
    plain = re.sub(r"[^a-z0-9.-]", "_", place)
    is_whole = plain == place and len(plain) <= _MAX_NAME
    mark = "" if is_whole else "-" + hashlib.sha256(place.encode()).hexdigest()[:8]
    return f"{plain[:_MAX_NAME]}{mark}.sqlite"


def _start(clock: str | None) -> float:
    if clock is None:
        return START
    if clock == "now":
        return float(int(time.time()))
    return datetime.fromisoformat(clock).timestamp()
