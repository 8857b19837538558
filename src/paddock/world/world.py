"""The world of one run: its stand-ins, their stores, and operations on all of them together.

`World.open` makes a directory with one SQLite store per stand-in and a `world.json` that lists
them, so that a world can be read after its run has ended (`saved_worlds`). A store is first filled
with the seed data and then sealed: `reset` returns to the sealed state, and changes are counted
from it.
"""

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
from paddock.world.changes import DocumentChange
from paddock.world.checkpoint import WorldCheckpoint
from paddock.world.context import START, Context
from paddock.world.registry import load_service
from paddock.world.saved_worlds import LISTING
from paddock.world.service import ASGIApp, LocalService, Service
from paddock.world.store import STEP, Store

_MAX_FILE_NAME = 100  # of a store, before the hash that makes it unique
_COMMON_OPTIONS = ("also", "seed", "timeout")  # every stand-in takes these


class StandIn(msgspec.Struct):
    """A stand-in of a running world: its service, and the options of the paddock file."""

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
        """The time limit of one answer."""
        timeout = self.terms.options.get("timeout")
        if timeout is None:
            return self.service.timeout_s
        return parse_duration(timeout, "timeout")

    async def request(self, request: WorldRequest, step: int | None) -> HttpAnswer:
        """Answer one request. Raises StandInFailed."""
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

    # These read the committed state through a connection of their own, so any thread may call them.

    def changes(self) -> list[DocumentChange]:
        """Return all changes since the world began."""
        with Store.open(self.store.path, read_only=True) as store:
            return [*store.changes(), *self.service.extra_changes()]

    def digest(self) -> str:
        with Store.open(self.store.path, read_only=True) as store:
            return f"{store.digest()} {self.service.extra_digest()}"

    def invariants(self) -> list[str]:
        """Return the broken invariants between two requests; within a request many may be."""
        if isinstance(self.service, LocalService):
            return self.service.invariants()
        with Store.open(self.store.path, read_only=True) as store, store.reading():
            return type(self.service)(replace(self.service.context, store=store)).invariants()


class World:
    """All stand-ins of a run, in one directory. Only one thread uses it at a time."""

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
        checkpoint: WorldCheckpoint | None = None,
    ) -> Self:
        """Make a new world and seed it; stand-ins of the checkpoint start with its state instead.

        Raises InvalidInput for mistakes in the paddock file.
        """
        directory.mkdir(parents=True, mode=0o700)
        stand_ins: dict[str, StandIn] = {}
        world = cls(directory, run, terms, stand_ins)
        try:
            if checkpoint is None:
                start, restored = _start_time(terms.clock), frozenset[str]()
            else:
                start = checkpoint.start
                restored = checkpoint.copy_into(directory, terms, store_file_name)
            for each in terms.stand_ins:
                stand_ins[each.place] = _make_stand_in(directory, each, terms.seed, start, project)
            for stand_in in world:
                if stand_in.name not in restored:
                    _seed(stand_in)
                    stand_in.store.seal()
            world._write_listing(start)
        except BaseException:
            world._remove()
            raise
        return world

    def __iter__(self) -> Iterator[StandIn]:
        return iter(self._stand_ins.values())

    def __getitem__(self, name: str) -> StandIn:
        return self._stand_ins[name]

    def get(self, name: str) -> StandIn | None:
        return self._stand_ins.get(name)

    async def fork(self, directory: Path, run: str) -> World:
        """Make a second world that starts with this state and is independent of it."""
        await asyncio.to_thread(directory.mkdir, parents=True, mode=0o700)
        copies: dict[str, StandIn] = {}
        world = World(directory, run, self.terms, copies)
        start = START
        try:
            for stand_in in self:
                start = stand_in.service.context.start
                copies[stand_in.name] = await _copy_stand_in(stand_in, directory)
                await copies[stand_in.name].service.copy_from(stand_in.service)
            world._write_listing(start)
        except BaseException:
            await world.discard()
            raise
        return world

    async def reset(self) -> None:
        """Return every stand-in to its sealed state."""
        for stand_in in self:
            stand_in.store.reset()
            await stand_in.service.reset()

    def digest(self) -> str:
        """Return a hash of the state of all stand-ins."""
        digest = hashlib.sha256()
        for name in sorted(self._stand_ins):
            digest.update(f"{name} {self._stand_ins[name].digest()}\n".encode())
        return digest.hexdigest()

    def positions(self) -> dict[str, int]:
        """Return the position of each store in its change log; a fork at a step rewinds to it."""
        return {stand_in.name: stand_in.store.position() for stand_in in self}

    def broken(self) -> dict[str, list[str]]:
        """Return the broken invariants of each stand-in that has any."""
        broken: dict[str, list[str]] = {}
        for stand_in in self:
            try:
                messages = stand_in.invariants()
            except Exception as error:  # a bug in this service must not hide the others
                messages = [f"its invariants cannot be checked: {type(error).__name__}: {error}"]
            if messages:
                broken[stand_in.name] = messages
        return broken

    def summary(self) -> WorldEnded:
        """Return what the journal records of the world when the run ends."""
        return WorldEnded(
            digest=self.digest(),
            positions=self.positions(),
            changes={stand_in.name: len(stand_in.changes()) for stand_in in self},
            broken=self.broken(),
        )

    async def close(self) -> None:
        """End all services. The stores stay, to be inspected."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._close_services()
        with contextlib.suppress(OSError, ValueError):  # somebody may have removed the directory
            listing = json.loads((self.directory / LISTING).read_text())
            self._replace_listing({**listing, "ended": True})

    async def discard(self) -> None:
        """End the world of a run that never started and remove its files."""
        self._is_closed = True
        await self._close_services()
        self._remove()

    async def _close_services(self) -> None:
        for stand_in in self:
            with contextlib.suppress(Exception):
                await stand_in.service.close()
            stand_in.store.close()

    def _remove(self) -> None:
        for stand_in in self:
            stand_in.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write_listing(self, start: float) -> None:
        services = []
        for stand_in in self:
            context = stand_in.service.context
            services.append({
                "name": stand_in.name,
                "host": context.host,
                "port": context.port,
                "service": stand_in.terms.service,
                "options": dict(stand_in.terms.options),
                "file": store_file_name(stand_in.name),
                "project": str(context.project),
            })  # fmt: skip
        self._replace_listing({
            "run": self.run,
            "seed": self.terms.seed,
            "clock": start,
            "services": services,
            "ended": False,
        })  # fmt: skip

    def _replace_listing(self, listing: Mapping[str, Any]) -> None:
        """Write atomically: a process that is killed meanwhile leaves a readable world."""
        new = self.directory / f"{LISTING}.new"
        new.write_text(json.dumps(listing, indent=2))
        new.replace(self.directory / LISTING)


def _make_stand_in(
    directory: Path, terms: StandInTerms, seed: int, start: float, project: Path
) -> StandIn:
    service_class = _load_service(terms)
    endpoint = terms.at[0]
    context = Context(
        name=terms.place,
        host=endpoint.host.host,
        port=endpoint.first_port,
        store=Store.open(directory / store_file_name(terms.place)),
        seed=seed,
        start=start,
        options=terms.options,
        project=project,
        directory=_make_service_directory(directory, terms.place),
    )
    try:
        stand_in = StandIn(terms, service_class(context))
        stand_in.service.check()
        _ = stand_in.timeout_s  # a wrong timeout is reported now, not at the first request
    except InvalidInput as error:
        context.store.close()
        raise InvalidInput(f"world.{terms.place}: {error.message}", hint=error.hint) from None
    except BaseException:
        context.store.close()
        raise
    return stand_in


def _load_service(terms: StandInTerms) -> type[Service]:
    try:
        service_class = load_service(terms.service)
    except ImportError as error:
        raise HostCannot(
            f"world.{terms.place}: the service {terms.service} needs the package {error.name}",
            hint=install_command("world"),
        ) from None
    allowed = (*service_class.options, *_COMMON_OPTIONS)
    for key in terms.options:
        if key not in allowed:
            hint = suggest(key, allowed)
            raise InvalidInput(f"world.{terms.place}.{key}: unknown key", hint=hint)
    return service_class


async def _copy_stand_in(stand_in: StandIn, directory: Path) -> StandIn:
    """Return a stand-in of the same service, with a copy of the store."""
    context, path = stand_in.service.context, directory / store_file_name(stand_in.name)
    await asyncio.to_thread(_copy_store, context.store.path, path)
    own_directory = _make_service_directory(directory, stand_in.name)
    copy = replace(context, store=Store.open(path), directory=own_directory)
    return StandIn(stand_in.terms, type(stand_in.service)(copy))


def _seed(stand_in: StandIn) -> None:
    service, seed = stand_in.service, stand_in.terms.options.get("seed")
    try:
        service.seed({} if seed is None else service.read_seed(seed))
    except InvalidInput as error:
        message = f"world.{stand_in.name}.seed: {error.message}"
        raise InvalidInput(message, hint=error.hint) from None


def _copy_store(source: Path, target: Path) -> None:
    with Store.open(source) as store:  # its own connection: the other one may be in use
        store.snapshot(target)


def _make_service_directory(directory: Path, name: str) -> Path:
    path = directory / store_file_name(name).removesuffix(".sqlite")
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def store_file_name(name: str) -> str:
    """Return the name of a stand-in's store: unique, and valid on every file system."""
    plain = re.sub(r"[^a-z0-9.-]", "_", name)
    if plain != name or len(plain) > _MAX_FILE_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()
        plain = f"{plain[:_MAX_FILE_NAME]}-{digest[:8]}"
    return f"{plain}.sqlite"


def _start_time(clock: str | None) -> float:
    if clock is None:
        return START
    if clock == "now":
        return float(int(time.time()))
    return datetime.fromisoformat(clock).timestamp()
