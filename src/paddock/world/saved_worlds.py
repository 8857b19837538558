"""The worlds of earlier runs, as they were left on disk.

`worlds/RUN/world.json` lists the services of a run, and each has its store in the same directory.
Everything is opened read-only unless the caller asks for a writable store. The listing is untrusted
input: it is bounded, checked, and can name no file outside its own directory.
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
from paddock.world.changes import DocumentChange
from paddock.world.context import START, Context
from paddock.world.registry import load_service, service_names
from paddock.world.service import Service
from paddock.world.store import Store, connect_read_only

DIRECTORY = "worlds"
LISTING = "world.json"
_MAX_LISTING = 4 << 20
_MAX_SERVICES = 1000
_MAX_PORT = 65535
# Kinds of documents that only hold a service's own position, with the name of one such document.
_BOOKKEEPING: Mapping[str, Mapping[str, str]] = {"model": {"moments": "turn"}}


class SavedService(msgspec.Struct, frozen=True):
    """One stand-in of an earlier run, with its store."""

    name: str
    host: str
    port: int
    service: str
    store: Store
    context: Context

    @property
    def inner(self) -> Mapping[str, str]:
        """Kinds of documents that are bookkeeping, each with the name of one such document."""
        return _BOOKKEEPING.get(self.service, {})

    @property
    def invariants(self) -> list[str]:
        """The broken invariants; if the check itself fails, that is the one message."""
        try:
            return [str(message) for message in self._stand_in().invariants()]
        except Exception as error:  # the service may be anybody's code
            return [f"cannot be told: {type(error).__name__}: {error}"]

    def show(self) -> dict[str, Any]:
        """Return the state for people, as the service shows it if it can."""
        try:
            return self._stand_in().show()
        except Exception:
            return Service(self.context).show()

    def changes(self, since: int | None = None, until: int | None = None) -> list[DocumentChange]:
        """Return the changes between two positions, by default all since the world began.

        State outside the store has no positions, so its changes are included only in the latter.
        """
        changes = self.store.changes(since, until)
        is_whole = since in (None, self.store.sealed) and until in (None, self.store.position())
        if is_whole:
            changes += self._known_service().extra_changes()
        return changes

    def reset(self) -> int:
        """Return to the sealed state, and return how many changes were undone."""
        count = len(self.changes())
        self.store.reset()
        service = self._known_service()

        async def reset() -> None:
            await service.reset()
            await service.close()

        asyncio.run(reset())
        return count

    @property
    def documents(self) -> int:
        return sum(self.store.count(kind) for kind in self.store.kinds())

    def span(self, first: int | None, last: int | None) -> tuple[int, int]:
        """Return the positions before the first of these steps and after the last one."""
        since, until = self.store.sealed, self.store.position()
        if first is not None:
            since = self._position("SELECT min(at) - 1 FROM changes WHERE step >= ?", first, until)
        if last is not None:
            sealed = self.store.sealed
            until = self._position("SELECT max(at) FROM changes WHERE step <= ?", last, sealed)
        return since, max(since, until)

    def _position(self, sql: str, step: int, default: int) -> int:
        with contextlib.closing(connect_read_only(self.store.path)) as database:
            position = database.execute(sql, (step,)).fetchone()[0]
        return default if position is None else int(position)

    def _known_service(self) -> Service:
        """Return the service; of one that this version does not have, only its documents."""
        return self._stand_in() if self.service in service_names() else Service(self.context)

    def _stand_in(self) -> Service:
        return load_service(self.service)(self.context)


class SavedWorld(msgspec.Struct, frozen=True):
    """The stand-ins of one earlier run."""

    run: str
    services: list[SavedService]
    is_ended: bool

    def service(self, name: str) -> SavedService:
        """Find a service by name, host, host:port or kind. Raises NotFound."""
        for service in self.services:
            if name in (service.name, f"{service.host}:{service.port}"):
                return service
        matches = [service for service in self.services if name in (service.host, service.service)]
        if len(matches) == 1:
            return matches[0]
        names = ", ".join(service.name for service in matches or self.services) or "none"
        what = f"there is no service {name[:80]!r}"
        if matches:
            what = f"{name[:80]!r} could be several"
        raise NotFound(f"{what} in the world of {self.run}", hint=f"there are {names}")

    def close(self) -> None:
        for service in self.services:
            service.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def runs_with_worlds(home: Path) -> list[str]:
    """Return the runs that have a world, newest first."""
    try:
        listings = [path for path in (home / DIRECTORY).glob(f"*/{LISTING}") if path.is_file()]
    except OSError:
        return []
    by_time = sorted(
        ((path.stat().st_mtime_ns, path.parent.name) for path in listings), reverse=True
    )
    return [run for _, run in by_time]


def open_saved_world(home: Path, run: str, *, read_only: bool = True) -> SavedWorld:
    """Open the world of a run.

    Raises NotFound when the run had no world, and IntegrityError when the world is damaged.
    """
    if not _is_file_name(run):
        raise InvalidInput(f"{run[:80]!r} is no run")
    directory = home / DIRECTORY / run
    listing = _read_listing(directory / LISTING, run)
    entries = listing.get("services")
    if not isinstance(entries, list) or len(entries) > _MAX_SERVICES:
        raise _damaged(run, "it lists no services")
    with contextlib.ExitStack() as stack:
        services = []
        for entry in entries:
            service = _open_service(entry, listing, directory, read_only=read_only)
            services.append(service)
            stack.callback(service.store.close)
        stack.pop_all()  # from here on they are closed with the world
    return SavedWorld(run, services, listing.get("ended") is True)


def _open_service(
    entry: Any, listing: Mapping[str, Any], directory: Path, *, read_only: bool
) -> SavedService:
    run = directory.name
    if not isinstance(entry, Mapping):
        raise _damaged(run, "a service has no name")
    name, host, service, file = (
        _text_field(entry, field, run) for field in ("name", "host", "service", "file")
    )
    port, options, project = entry.get("port"), entry.get("options"), entry.get("project")
    if type(port) is not int or not 0 <= port <= _MAX_PORT:
        raise _damaged(run, "a service has no port")
    if not _is_file_name(file):  # never outside of its world
        raise _damaged(run, f"{file[:80]!r} is no name of a file")
    path = directory / file
    if not path.is_file() or path.is_symlink():
        raise _damaged(run, f"{file[:80]!r} is not there")
    store = _open_store(path, run, read_only=read_only)
    seed = listing.get("seed")
    context = Context(
        name,
        host,
        port,
        store,
        seed=seed if type(seed) is int else 0,
        start=_start_time(listing.get("clock")),
        options=options if isinstance(options, Mapping) else {},
        project=Path(project) if isinstance(project, str) else directory,
        directory=directory / file.removesuffix(".sqlite"),
    )
    return SavedService(name, host, port, service, store, context)


def _text_field(entry: Mapping[str, Any], name: str, run: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value:
        raise _damaged(run, f"a service has no {name}")
    return value


def _is_file_name(name: str) -> bool:
    return bool(name) and "/" not in name and "\0" not in name and name not in (".", "..")


def _open_store(path: Path, run: str, *, read_only: bool) -> Store:
    try:
        store = Store.open(path, read_only=read_only)
        store.position()
    except sqlite3.Error as error:
        raise _damaged(run, f"{path.name} cannot be opened: {error}") from None
    return store


def _start_time(clock: Any) -> float:
    if isinstance(clock, int | float) and not isinstance(clock, bool) and math.isfinite(clock):
        return float(clock)
    try:
        return datetime.fromisoformat(clock).timestamp()
    except (TypeError, ValueError, OverflowError):
        return START


def _read_listing(path: Path, run: str) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_LISTING + 1)
    except (FileNotFoundError, NotADirectoryError):
        hint = "only a run whose paddock file has `world:` has one"
        raise NotFound(f"the run {run} has no world", hint=hint) from None
    if len(content) > _MAX_LISTING:
        raise _damaged(run, "its listing is too long")
    try:
        listing = json.loads(content)
    except (ValueError, RecursionError):
        raise _damaged(run, "its listing is not JSON") from None
    if not isinstance(listing, dict):
        raise _damaged(run, "its listing is no object")
    return listing


def _damaged(run: str, reason: str) -> IntegrityError:
    return IntegrityError(f"the world of {run} is damaged: {reason}")
