"""The worlds of earlier runs, as they were left: `worlds/RUN/world.json` says which services there
were, and each has a store beside it. Nothing is written here but by whoever asks for a store
that can be written.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.world.changes import Change
from paddock.world.context import START, Context
from paddock.world.registry import load_service, service_names
from paddock.world.service import Service
from paddock.world.store import Store

DIRECTORY = "worlds"
LISTING = "world.json"
_MAX_LISTING = 4 << 20
_MAX_SERVICES = 1000
_MAX_PORT = 65535
_BUSY_S = 5.0
_INNER: Mapping[str, Mapping[str, str]] = {"model": {"moments": "turn"}}


class KeptService(msgspec.Struct, frozen=True):
    """One stand-in of a run that was, with its memory."""

    name: str
    host: str
    port: int
    service: str
    store: Store
    context: Context

    @property
    def inner(self) -> Mapping[str, str]:
        """Kinds of documents by which it only remembers where it is, and what one of them is."""
        return _INNER.get(self.service, {})

    @property
    def invariants(self) -> list[str]:
        """What is broken, in sentences; also that it cannot be told."""
        try:
            return [str(one) for one in self._stand_in().invariants()]
        except Exception as error:  # it may be anybody's
            return [f"cannot be told: {type(error).__name__}: {error}"]

    def show(self) -> dict[str, Any]:
        """Its state for people, in the service's own words where it has some."""
        try:
            return self._stand_in().show()
        except Exception:
            return Service(self.context).show()

    def changes(self, since: int | None = None, until: int | None = None) -> list[Change]:
        """Since the beginning, unless positions are given: what is not in the store has none."""
        found = self.store.changes(since, until)
        is_whole = since in (None, self.store.sealed) and until in (None, self.store.position())
        return [*found, *self._known().extra_changes()] if is_whole else found

    def reset(self) -> int:
        """Back to the beginning, exactly. Gives how much was different."""
        count = len(self.changes())
        self.store.reset()
        service = self._known()

        async def reset() -> None:
            await service.reset()
            await service.close()

        asyncio.run(reset())
        return count

    @property
    def documents(self) -> int:
        return sum(self.store.count(kind) for kind in self.store.kinds())

    def span(self, first: int | None, last: int | None) -> tuple[int, int]:
        """Positions before the first of these steps and after the last one, for `changes`."""
        start, end = self.store.sealed, self.store.position()
        low = "SELECT min(at) - 1 FROM changes WHERE step >= ?"
        high = "SELECT max(at) FROM changes WHERE step <= ?"
        since = start if first is None else self._position(low, first, end)
        until = end if last is None else self._position(high, last, start)
        return since, max(since, until)

    def _position(self, sql: str, step: int, otherwise: int) -> int:
        place = f"{self.store.path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=_BUSY_S)) as database:
            found = database.execute(sql, (step,)).fetchone()[0]
        return otherwise if found is None else int(found)

    def _known(self) -> Service:
        """What an older or newer Paddock knew and this one does not has its documents only."""
        return self._stand_in() if self.service in service_names() else Service(self.context)

    def _stand_in(self) -> Service:
        return load_service(self.service)(self.context)


class KeptWorld(msgspec.Struct, frozen=True):
    """The stand-ins of one run."""

    run: str
    services: list[KeptService]
    is_ended: bool

    def service(self, word: str) -> KeptService:
        """By name, host, or host:port. Raises NotFound."""
        for one in self.services:
            if word in (one.name, f"{one.host}:{one.port}"):
                return one
        found = [one for one in self.services if word in (one.host, one.service)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(one.name for one in found or self.services) or "none"
        what = f"{word[:80]!r} could be several" if found else f"there is no service {word[:80]!r}"
        raise NotFound(f"{what} in the world of {self.run}", hint=f"there are {names}")

    def close(self) -> None:
        for one in self.services:
            one.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kept_runs(home: Path) -> list[str]:
    """The runs that have a world, newest first."""
    found = [(path.stat().st_mtime_ns, path.parent.name) for path in _listings(home)]
    return [run for _, run in sorted(found, reverse=True)]


def open_kept(home: Path, run: str, *, read_only: bool = True) -> KeptWorld:
    """Raises NotFound when the run had no world, and IntegrityError when it is damaged."""
    if not run or "/" in run or "\0" in run or run in (".", ".."):
        raise InvalidInput(f"{run[:80]!r} is no run")
    directory = home / DIRECTORY / run
    listing = _read(directory / LISTING, run)
    entries = listing.get("services")
    if not isinstance(entries, list) or len(entries) > _MAX_SERVICES:
        raise _damaged(run, "it lists no services")
    with contextlib.ExitStack() as stack:
        services = []
        for entry in entries:
            one = _service(_Entry(entry, run), listing, directory, read_only=read_only)
            services.append(one)
            stack.callback(one.store.close)
        stack.pop_all()  # from here on they are closed with the world
    return KeptWorld(run, services, listing.get("ended") is True)


class _Entry(msgspec.Struct, frozen=True):
    fields: Any
    run: str

    def text(self, name: str) -> str:
        value = self.fields.get(name) if isinstance(self.fields, Mapping) else None
        if not isinstance(value, str) or not value:
            raise _damaged(self.run, f"a service has no {name}")
        return value

    def port(self) -> int:
        value = self.fields.get("port")
        if type(value) is not int or not 0 <= value <= _MAX_PORT:
            raise _damaged(self.run, "a service has no port")
        return value

    def options(self) -> Mapping[str, Any]:
        value = self.fields.get("options", {})
        return value if isinstance(value, Mapping) else {}


def _service(
    entry: _Entry, listing: Mapping[str, Any], directory: Path, *, read_only: bool
) -> KeptService:
    name, host, service, file = map(entry.text, ("name", "host", "service", "file"))
    port = entry.port()
    if "/" in file or "\0" in file or file in (".", ".."):  # never outside of its world
        raise _damaged(entry.run, f"{file[:80]!r} is no name of a file")
    place = directory / file
    if not place.is_file() or place.is_symlink():
        raise _damaged(entry.run, f"{file[:80]!r} is not there")
    store = _open(place, entry.run, read_only=read_only)
    seed, project = listing.get("seed"), entry.fields.get("project")
    context = Context(
        name,
        host,
        port,
        store,
        seed=seed if type(seed) is int else 0,
        start=_start(listing.get("clock")),
        options=entry.options(),
        project=Path(project) if isinstance(project, str) else directory,
        directory=directory / file.removesuffix(".sqlite"),
    )
    return KeptService(name, host, port, service, store, context)


def _open(place: Path, run: str, *, read_only: bool) -> Store:
    try:
        store = Store.open(place, read_only=read_only)
        store.position()
    except sqlite3.Error as error:
        raise _damaged(run, f"{place.name} cannot be opened: {error}") from None
    return store


def _start(clock: Any) -> float:
    if isinstance(clock, int | float) and not isinstance(clock, bool) and math.isfinite(clock):
        return float(clock)
    try:
        return datetime.fromisoformat(clock).timestamp()
    except (TypeError, ValueError, OverflowError):
        return START


def _read(path: Path, run: str) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_LISTING + 1)
    except (FileNotFoundError, NotADirectoryError):
        hint = "only a run whose paddock file has `world:` has one"
        raise NotFound(f"the run {run} has no world", hint=hint) from None
    if len(content) > _MAX_LISTING:
        raise _damaged(run, "its listing is too long")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise _damaged(run, "its listing is not JSON") from None
    if not isinstance(found, dict):
        raise _damaged(run, "its listing is no object")
    return found


def _listings(home: Path) -> list[Path]:
    try:
        return [path for path in (home / DIRECTORY).glob(f"*/{LISTING}") if path.is_file()]
    except OSError:
        return []


def _damaged(run: str, why: str) -> IntegrityError:
    return IntegrityError(f"the world of {run} is damaged: {why}")
