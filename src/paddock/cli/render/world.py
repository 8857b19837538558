"""A kept world as values (its services, their state, the change of each field) and as lines for
people. An agent chose many of the words: each goes through `plain`, stands on one line, and has a
bounded length.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from paddock.cli.render.cells import labelled, paint
from paddock.cli.render.table import line_width, terminal_table
from paddock.model.money import money_in
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.world.changes import DocumentChange
from paddock.world.registry import load_service, service_names
from paddock.world.saved_worlds import SavedService

_MAX_VALUE = 200
_NOTHING: tuple[Any, ...] = (None, [], {}, "")  # in a new field it says nothing
_MAX_NAME = 80
_MAX_FIELDS = 60  # of one document
_MAX_DOCUMENTS = 500  # of one service
_MAX_DEPTH = 5
_MAX_ENTRIES = 20
_SIGNS = {"created": ("+", "32"), "deleted": ("-", "31"), "changed": ("~", "33")}
_MAX_FIELD_DEPTH = 8  # below it values are compared as a whole
_SHOWN = 20  # documents of a kind
_ABSENT = object()


# ---- values --------------------------------------------------------------------------------------


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


class DocumentDiff(msgspec.Struct, frozen=True):
    """The change of one document."""

    change: DocumentChange
    fields: list[FieldDiff]

    @property
    def what(self) -> str:
        if self.change.before is None:
            return "created"
        return "deleted" if self.change.after is None else "changed"

    def as_json(self) -> dict[str, Any]:
        change = self.change
        head = {"kind": change.kind, "id": change.id, "what": self.what, "step": change.step}
        return {**head, "fields": [field.as_json() for field in self.fields]}


def built_in() -> list[BuiltIn]:
    """Return all built-in services; of one that cannot be loaded here, why not."""
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
    from paddock.cli.render.network import NetworkFilter, NetworkScan
    from paddock.journal.log import RunLog
    from paddock.model.action import Verdict

    if not journal.is_dir():
        return None
    scan = NetworkScan(RunLog(journal), NetworkFilter())
    return Counter(traffic.host for traffic in scan if traffic.step.verdict is Verdict.FAULT)


def state_after(kept: SavedService, step: int) -> dict[str, Any]:
    """Return the documents as they were when the step had been done."""
    _, position = kept.span(None, step)
    later = {
        (change.kind, change.id): change.before for change in kept.store.changes(since=position)
    }
    kinds = sorted({*kept.store.kinds(), *(kind for kind, _ in later)})
    state = {}
    for kind in kinds:
        now = {id: kept.store.get(kind, id) for id in kept.store.ids(kind)}
        gone = {id: before for (its, id), before in later.items() if its == kind}
        then = [document for document in {**now, **gone}.values() if document is not None]
        if then:
            state[kind] = {"count": len(then), "latest": then[: -_SHOWN - 1 : -1]}
    return state


def differences(kept: SavedService, first: int | None, last: int | None) -> list[DocumentDiff]:
    """Return what differs between before the first step and after the last one; without steps,
    since the beginning."""
    since, until = kept.span(first, last)
    return [
        DocumentDiff(change, list(_fields("", change.before or {}, change.after or {}, 0)))
        for change in kept.changes(since, until)
    ]


def _built_in(name: str) -> BuiltIn:
    try:
        service = load_service(name)
    except Exception as error:  # a library that it needs is not installed
        return BuiltIn(name, f"cannot be used here: {error}", {})
    about = (service.__doc__ or "").strip().partition("\n\n")[0]
    return BuiltIn(name, " ".join(about.split()), service.options)


def _fields(field: str, before: Any, after: Any, depth: int) -> Iterator[FieldDiff]:
    """Yield the values that differ, at any depth: `address.city`, `items[2].price`."""
    if before is _ABSENT or after is _ABSENT:
        was, now = (None if value is _ABSENT else value for value in (before, after))
        yield FieldDiff(field, was, now, before is _ABSENT, after is _ABSENT)
    elif isinstance(before, dict) and isinstance(after, dict) and depth < _MAX_FIELD_DEPTH:
        for name in {**before, **after}:
            inner = f"{field}.{name}" if field else name
            was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
            yield from _fields(inner, was, now, depth + 1)
    elif isinstance(before, list) and isinstance(after, list) and depth < _MAX_FIELD_DEPTH:
        for at in range(max(len(before), len(after))):
            was, now = (values[at] if at < len(values) else _ABSENT for values in (before, after))
            yield from _fields(f"{field}[{at}]", was, now, depth + 1)
    elif type(before) is not type(after) or before != after:  # 1 is neither true nor 1.0 here
        yield FieldDiff(field, before, after)


# ---- lines ---------------------------------------------------------------------------------------


def built_in_lines(services: Sequence[BuiltIn]) -> Iterator[str]:
    """A line for each service, and one for each of its options."""
    for service in services:
        yield from labelled(
            f"{service.name:10} ", printable(service.about, _MAX_VALUE), line_width()
        )
        for name, about in service.options.items():
            yield from labelled(f"{'':13}{name}: ", printable(about, _MAX_VALUE), line_width())


def service_table(rows: Sequence[ServiceRow]) -> str:
    cells = [
        (
            printable(row.name, _MAX_NAME),
            printable(f"{row.host}:{row.port}", _MAX_NAME),
            printable(row.service, _MAX_NAME),
            row.documents,
            row.changes,
            "-" if row.faults is None else row.faults,
            len(row.broken) or "-",
        )
        for row in rows
    ]
    header = ("NAME", "HOST", "SERVICE", "DOCUMENTS", "CHANGES", "FAULTS", "BROKEN")
    lines = [terminal_table(header, cells, flexible=("HOST", "NAME", "SERVICE"))]
    for row in rows:
        lines += _broken_lines(row.name, row.broken)
    return "\n".join(lines)


def state_lines(name: str, state: Mapping[str, Any], broken: Sequence[str]) -> Iterator[str]:
    yield printable(name, _MAX_NAME)
    if not state:
        yield "  nothing"
    for kind, value in state.items():
        if isinstance(value, Mapping) and set(value) == {"count", "latest"}:
            yield from _kind_lines(kind, value)
        else:
            yield from _value_lines(kind, value, 1)
    yield from _broken_lines(name, broken)


def difference_lines(
    name: str,
    differences: Sequence[DocumentDiff],
    *,
    is_coloured: bool,
    inner: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield `+ orders/o1 (step 4)` for each document, and below it a line for each field. Kinds
    that are only the stand-in's own memory are counted."""
    if not differences:
        return
    yield printable(name, _MAX_NAME)
    for line in inner_lines((difference.change.kind for difference in differences), inner, "used"):
        yield f"  {line}"
    differences = [difference for difference in differences if difference.change.kind not in inner]
    for difference in differences[:_MAX_DOCUMENTS]:
        sign, colour = _SIGNS[difference.what]
        step = "" if difference.change.step is None else f" (step {difference.change.step})"
        kind = printable(difference.change.kind, _MAX_NAME)
        of = f"{kind}/{printable(difference.change.id, _MAX_NAME)}"
        yield paint(f"  {sign} {of}{step}", colour, is_coloured)
        fields = [
            field for field in difference.fields if not (field.is_new and field.after in _NOTHING)
        ]
        currency = (difference.change.after or difference.change.before or {}).get("currency")
        for field in fields[:_MAX_FIELDS]:
            yield from labelled("      ", _field(field, currency), line_width())
        if len(fields) > _MAX_FIELDS:
            yield f"      ({many(len(fields) - _MAX_FIELDS, 'more field')}: --json)"
    if len(differences) > _MAX_DOCUMENTS:
        yield f"  ({many(len(differences) - _MAX_DOCUMENTS, 'more document')}: --json)"


def inner_lines(kinds: Iterable[str], inner: Mapping[str, str], verb: str) -> Iterator[str]:
    """Yield `4 turns used` for each kind that is only counted."""
    for kind, count in Counter(kinds).items():
        if kind in inner:
            yield f"{count} {inner[kind]}{'' if count == 1 else 's'} {verb} ({kind}: --full)"


def _field(field: FieldDiff, currency: Any) -> str:
    """Return a changed field; amounts are shown as money if the document has a currency."""
    name = printable(field.field, _MAX_NAME)
    is_amount = name == "amount" or name.startswith("amount_") or name == "unit_amount"
    before, after = (
        (money_in({"amount": value, "currency": currency}) if is_amount else None) or _value(value)
        for value in (field.before, field.after)
    )
    if field.is_new:
        return f"{name}: {after}"
    return f"{name}: {before} -> {'(gone)' if field.is_gone else after}"


def _kind_lines(kind: str, value: Mapping[str, Any]) -> Iterator[str]:
    latest = value["latest"]
    yield f"  {printable(kind, _MAX_NAME)}: {value['count']}"
    for document in latest:
        yield f"    {_value(document)}"
    more = value["count"] - len(latest)
    if more > 0:
        yield f"    ({more} more, older)"


def _value_lines(name: object, value: Any, depth: int) -> Iterator[str]:
    pad, shown = "  " * depth, printable(name, _MAX_NAME)
    entries = _entries(value)
    if entries is None or depth >= _MAX_DEPTH or not entries:
        yield f"{pad}{shown}: {_value(value)}"
        return
    yield f"{pad}{shown}:"
    for inner, entry in entries[:_MAX_ENTRIES]:
        if name == "amount":
            entry = money_in({"amount": entry, "currency": inner}) or entry
        yield from _value_lines(inner, entry, depth + 1)
    if len(entries) > _MAX_ENTRIES:
        yield f"{pad}  ({len(entries) - _MAX_ENTRIES} more: --json)"


def _entries(value: Any) -> list[tuple[object, Any]] | None:
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else None


def _value(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False, default=str), _MAX_VALUE)


def _broken_lines(name: str, broken: Sequence[str]) -> Iterator[str]:
    for sentence in broken:
        yield f"! {printable(name, _MAX_NAME)}: {printable(sentence, _MAX_VALUE)}"
