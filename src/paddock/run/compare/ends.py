"""Compares how two runs ended: their files, their worlds, and the money that moved in them. What is
no longer there is reported, and nothing fails because of it."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from paddock.model.errors import NotFound, PaddockError
from paddock.run.compare.fields import FieldDifference, differences
from paddock.run.compare.trail import Trail
from paddock.state.home import Home
from paddock.state.trees.store import TreeStore
from paddock.world.saved_worlds import SavedService, SavedWorld, open_saved_world

MAX_DOCUMENTS = 500  # of one stand-in that are told one by one
MAX_FILES = 2000
# Kinds of documents in which an amount is money that went somewhere.
_MONEY = frozenset({"charges", "payouts", "refunds", "transfers"})
_IS_DIGEST = re.compile(r"[0-9a-f]{64}")
_WHAT = {"added": "only in B", "deleted": "only in A", "modified": "changed"}
_NOT_MOVED = frozenset({"canceled", "failed", "pending", "requires_action"})


class DocumentDifference(msgspec.Struct, frozen=True):
    """A document of a stand-in that is not the same at both ends."""

    kind: str
    id: str
    what: str  # "only in A", "only in B", "changed"
    fields: tuple[FieldDifference, ...]

    def as_json(self) -> dict[str, Any]:
        fields = [field.as_json() for field in self.fields]
        return {"kind": self.kind, "id": self.id, "what": self.what, "fields": fields}


class ServiceDifference(msgspec.Struct, frozen=True):
    """One stand-in at both ends. `why` says that it could not be compared, and why not."""

    name: str
    count: int = 0
    documents: tuple[DocumentDifference, ...] = ()
    why: str | None = None
    inner: Mapping[str, str] = {}  # kinds that are its own memory only

    def as_json(self) -> dict[str, Any]:
        documents = [document.as_json() for document in self.documents]
        return {"service": self.name, "count": self.count, "documents": documents, "why": self.why}


class FileDifference(msgspec.Struct, frozen=True):
    """A file that is not the same at both ends."""

    path: str
    what: str


class FilesEnd(msgspec.Struct, frozen=True):
    """The writable files of both. `is_same` is None when one has no record of them."""

    is_same: bool | None
    here: str | None = None  # digests of the trees
    there: str | None = None
    count: int | None = None  # None: which ones differ is not known
    files: tuple[FileDifference, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "is_same": self.is_same,
            "a": self.here,
            "b": self.there,
            "count": self.count,
            "differences": [asdict(file) for file in self.files],
        }


class Ends(msgspec.Struct, frozen=True):
    """Both ends of a pairing."""

    files: FilesEnd
    world: tuple[ServiceDifference, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "files": self.files.as_json(),
            "world": [service.as_json() for service in self.world],
        }


def ends(here: Trail, there: Trail) -> Ends:
    return Ends(_files(here, there), tuple(_worlds(here, there)))


def money_moved(trail: Trail) -> dict[str, int]:
    """Return the amounts that went through stand-ins since their world began, in the smallest unit,
    by label such as `refunds usd`. Empty where the world is gone."""
    moved: Counter[str] = Counter()
    with contextlib.suppress(PaddockError, OSError, sqlite3.Error), _world(trail) as world:
        for service in world.services:
            for change in service.store.changes():
                if change.kind in _MONEY:
                    _add_money(moved, change.kind, change.before, -1)
                    _add_money(moved, change.kind, change.after, 1)
    return {name: amount for name, amount in sorted(moved.items()) if amount}


def _add_money(
    moved: Counter[str], kind: str, document: Mapping[str, Any] | None, sign: int
) -> None:
    amount, currency = (document or {}).get("amount"), (document or {}).get("currency")
    if type(amount) is not int or not isinstance(currency, str):
        return
    if document is not None and document.get("status") not in _NOT_MOVED:
        moved[f"{kind} {currency[:10]}"] += sign * amount


def _world(trail: Trail) -> SavedWorld:
    home = trail.directory.absolute().parent.parent
    return open_saved_world(home, trail.run)


def _worlds(here: Trail, there: Trail) -> Iterator[ServiceDifference]:
    left = (here.report.world, there.report.world)
    # A replay is answered from its record: it has no world that could be otherwise.
    if left == (None, None) or "replay" in (here.report.kind, there.report.kind):
        return
    digests = [None if side is None else side.digest for side in left]
    if digests[0] is not None and digests[0] == digests[1]:
        return
    with contextlib.ExitStack() as stack:
        try:
            mine, yours = (stack.enter_context(_world(side)) for side in (here, there))
        except NotFound as error:
            yield ServiceDifference("all of it", why=error.message)
            return
        except (PaddockError, OSError, sqlite3.Error) as error:
            yield ServiceDifference("all of it", why=f"it cannot be read: {error}")
            return
        yield from _services(mine, yours)


def _services(mine: SavedWorld, yours: SavedWorld) -> Iterator[ServiceDifference]:
    here, there = ({service.name: service for service in world.services} for world in (mine, yours))
    for name in {**here, **there}:
        if name not in here or name not in there:
            only = "A" if name in here else "B"
            yield ServiceDifference(name, why=f"only {only} has this stand-in")
            continue
        try:
            difference = _service(here[name], there[name])
        except (PaddockError, OSError, sqlite3.Error) as error:
            difference = ServiceDifference(name, why=f"it cannot be read: {error}")
        if difference.count or difference.why:
            yield difference


def _service(mine: SavedService, yours: SavedService) -> ServiceDifference:
    changes = mine.store.diff(yours.store)
    documents = tuple(
        DocumentDifference(
            change.kind,
            change.id,
            "only in B"
            if change.before is None
            else "only in A"
            if change.after is None
            else "changed",
            tuple(differences(change.before or {}, change.after or {})),
        )
        for change in changes[:MAX_DOCUMENTS]
    )
    return ServiceDifference(mine.name, len(changes), documents, inner=mine.inner)


def _files(here: Trail, there: Trail) -> FilesEnd:
    mine, yours = (
        None if side.report.files is None else side.report.files.tree for side in (here, there)
    )
    if mine is None and yours is None:
        return FilesEnd(None)
    if mine == yours:
        return FilesEnd(True, mine, yours, 0)
    if mine is None or yours is None:
        return FilesEnd(None, mine, yours)
    differences = _names(here, mine, yours)
    if differences is None:
        return FilesEnd(False, mine, yours)
    return FilesEnd(False, mine, yours, len(differences), tuple(differences[:MAX_FILES]))


def _names(here: Trail, mine: str, yours: str) -> list[FileDifference] | None:
    """Return the files that differ; None if their trees are gone."""
    trees = Home(here.directory.absolute().parent.parent).trees
    # A digest becomes the name of a file, and a journal from elsewhere may say anything.
    if not trees.is_dir() or not all(_IS_DIGEST.fullmatch(change) for change in (mine, yours)):
        return None
    try:
        store = TreeStore(trees)
        with store.in_use():
            changes = store.diff(mine, yours)
    except (PaddockError, OSError):
        return None
    return [FileDifference(change.path, _WHAT[change.kind]) for change in changes]
