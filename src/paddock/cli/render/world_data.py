"""What is told about a kept world: its services, their state, what became of which field. Nothing
is printed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from paddock.world.changes import DocumentChange
from paddock.world.registry import load_service, service_names
from paddock.world.saved_worlds import SavedService

_MAX_DEPTH = 8  # below it values are compared as a whole
_SHOWN = 20  # documents of a kind
_ABSENT = object()


class BuiltIn(msgspec.Struct, frozen=True):
    """A service that comes with Paddock."""

    name: str
    about: str
    options: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        return {"service": self.name, "about": self.about, "options": dict(self.options)}


class ServiceRow(msgspec.Struct, frozen=True):
    """One service of a run, in numbers."""

    name: str
    host: str
    port: int
    service: str
    documents: int
    changes: int
    faults: int | None  # on purpose, towards this host; None: there is no journal
    broken: list[str]  # invariants

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class FieldDiff(msgspec.Struct, frozen=True):
    """One field of a changed document. `is_new`: it was not there; `is_gone`: it is not there."""

    field: str
    before: Any
    after: Any
    is_new: bool = False
    is_gone: bool = False

    def as_json(self) -> dict[str, Any]:
        before = {} if self.is_new else {"before": self.before}
        after = {} if self.is_gone else {"after": self.after}
        return {"field": self.field, **before, **after}


class Difference(msgspec.Struct, frozen=True):
    """What became of one document."""

    change: DocumentChange
    fields: list[FieldDiff]

    @property
    def what(self) -> str:
        if self.change.before is None:
            return "created"
        return "deleted" if self.change.after is None else "changed"

    def as_json(self) -> dict[str, Any]:
        one = self.change
        head = {"kind": one.kind, "id": one.id, "what": self.what, "step": one.step}
        return {**head, "fields": [field.as_json() for field in self.fields]}


def built_in() -> list[BuiltIn]:
    """All of them; of one that cannot be loaded here, why not."""
    return [_built_in(name) for name in service_names()]


def row_of(kept: SavedService, faults: Mapping[str, int] | None) -> ServiceRow:
    return ServiceRow(
        kept.name,
        kept.host,
        kept.port,
        kept.service,
        kept.documents,
        len(kept.changes()),
        None if faults is None else faults.get(kept.host, 0),
        kept.invariants,
    )


def faults_by_host(journal: Path) -> Mapping[str, int] | None:
    """Return how often the run met an injected fault, by host."""
    from paddock.cli.render.network_data import Scan, Wanted
    from paddock.journal.log import RunLog
    from paddock.model.action import Verdict

    if not journal.is_dir():
        return None
    scan = Scan(RunLog(journal), Wanted())
    return Counter(traffic.host for traffic in scan if traffic.step.verdict is Verdict.FAULT)


def state_after(kept: SavedService, step: int) -> dict[str, Any]:
    """The documents as they were when the step had been done."""
    _, position = kept.span(None, step)
    later = {(one.kind, one.id): one.before for one in kept.store.changes(since=position)}
    kinds = sorted({*kept.store.kinds(), *(kind for kind, _ in later)})
    state = {}
    for kind in kinds:
        now = {id: kept.store.get(kind, id) for id in kept.store.ids(kind)}
        gone = {id: before for (its, id), before in later.items() if its == kind}
        then = [one for one in {**now, **gone}.values() if one is not None]
        if then:
            state[kind] = {"count": len(then), "latest": then[: -_SHOWN - 1 : -1]}
    return state


def differences(kept: SavedService, first: int | None, last: int | None) -> list[Difference]:
    """Between before the first step and after the last one; without steps, since the beginning."""
    since, until = kept.span(first, last)
    return [
        Difference(change, list(_fields("", change.before or {}, change.after or {}, 0)))
        for change in kept.changes(since, until)
    ]


def _built_in(name: str) -> BuiltIn:
    try:
        found = load_service(name)
    except Exception as error:  # a library that it needs is not installed
        return BuiltIn(name, f"cannot be used here: {error}", {})
    about = (found.__doc__ or "").strip().partition("\n\n")[0]
    return BuiltIn(name, " ".join(about.split()), found.options)


def _fields(field: str, before: Any, after: Any, depth: int) -> Iterator[FieldDiff]:
    """Down to the values that differ: `address.city`, `items[2].price`."""
    if before is _ABSENT or after is _ABSENT:
        was, now = (None if one is _ABSENT else one for one in (before, after))
        yield FieldDiff(field, was, now, before is _ABSENT, after is _ABSENT)
    elif isinstance(before, dict) and isinstance(after, dict) and depth < _MAX_DEPTH:
        for name in {**before, **after}:
            inner = f"{field}.{name}" if field else name
            was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
            yield from _fields(inner, was, now, depth + 1)
    elif isinstance(before, list) and isinstance(after, list) and depth < _MAX_DEPTH:
        for at in range(max(len(before), len(after))):
            was, now = (one[at] if at < len(one) else _ABSENT for one in (before, after))
            yield from _fields(f"{field}[{at}]", was, now, depth + 1)
    elif type(before) is not type(after) or before != after:  # 1 is neither true nor 1.0 here
        yield FieldDiff(field, before, after)
