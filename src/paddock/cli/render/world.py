"""A kept world as lines for people. An agent chose many of the words: each goes through `plain`,
stands on one line, and has a bounded length.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import asdict

from paddock.cli.render.cells import labelled, paint
from paddock.cli.render.table import line_width, table
from paddock.model.money import money_in
from paddock.model.plain import plain
from paddock.model.plural import many
from paddock.world.changes import Change
from paddock.world.kept import KeptService
from paddock.world.service import BUILT_IN, load

_MAX_VALUE = 200
_NOTHING: tuple[Any, ...] = (None, [], {}, "")  # in a new field it says nothing
_MAX_NAME = 80
_MAX_FIELDS = 60  # of one document
_MAX_DOCUMENTS = 500  # of one service
_MAX_DEPTH = 5
_MAX_ENTRIES = 20
_SIGNS = {"created": ("+", "32"), "deleted": ("-", "31"), "changed": ("~", "33")}


def built_in_lines(known: Sequence[BuiltIn]) -> Iterator[str]:
    """A line for each service, and one for each of its options."""
    for one in known:
        yield from labelled(f"{one.name:10} ", plain(one.about, _MAX_VALUE), line_width())
        for name, about in one.options.items():
            yield from labelled(f"{'':13}{name}: ", plain(about, _MAX_VALUE), line_width())


def service_table(rows: Sequence[ServiceRow]) -> str:
    cells = [
        (
            plain(one.name, _MAX_NAME),
            plain(f"{one.host}:{one.port}", _MAX_NAME),
            plain(one.service, _MAX_NAME),
            one.documents,
            one.changes,
            "-" if one.faults is None else one.faults,
            len(one.broken) or "-",
        )
        for one in rows
    ]
    header = ("NAME", "HOST", "SERVICE", "DOCUMENTS", "CHANGES", "FAULTS", "BROKEN")
    drawn = table(header, cells, width=line_width(), flexible=("HOST", "NAME", "SERVICE"))
    return "\n".join([drawn, *(line for one in rows for line in _broken(one.name, one.broken))])


def state_lines(name: str, state: Mapping[str, Any], broken: Sequence[str]) -> Iterator[str]:
    yield plain(name, _MAX_NAME)
    if not state:
        yield "  nothing"
    for kind, value in state.items():
        if isinstance(value, Mapping) and set(value) == {"count", "latest"}:
            yield from _kind_lines(kind, value)
        else:
            yield from _value_lines(kind, value, 1)
    yield from _broken(name, broken)


def difference_lines(
    name: str,
    found: Sequence[Difference],
    *,
    is_coloured: bool,
    inner: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """`+ orders/o1 (step 4)`, and below it a line for each field. Of kinds that are only the
    stand-in's own memory it is said how many there are."""
    if not found:
        return
    yield plain(name, _MAX_NAME)
    for line in inner_lines((one.change.kind for one in found), inner, "used"):
        yield f"  {line}"
    found = [one for one in found if one.change.kind not in inner]
    for one in found[:_MAX_DOCUMENTS]:
        sign, colour = _SIGNS[one.what]
        step = "" if one.change.step is None else f" (step {one.change.step})"
        of = f"{plain(one.change.kind, _MAX_NAME)}/{plain(one.change.id, _MAX_NAME)}"
        yield paint(f"  {sign} {of}{step}", colour if is_coloured else None)
        told = [field for field in one.fields if not (field.is_new and field.after in _NOTHING)]
        currency = (one.change.after or one.change.before or {}).get("currency")
        for field in told[:_MAX_FIELDS]:
            yield from labelled("      ", _field(field, currency), line_width())
        if len(told) > _MAX_FIELDS:
            yield f"      ({many(len(told) - _MAX_FIELDS, 'more field')}: --json)"
    if len(found) > _MAX_DOCUMENTS:
        yield f"  ({many(len(found) - _MAX_DOCUMENTS, 'more document')}: --json)"


def inner_lines(kinds: Iterable[str], inner: Mapping[str, str], verb: str) -> Iterator[str]:
    """`4 turns used`: what is not told one by one."""
    for kind, count in Counter(kinds).items():
        if kind in inner:
            yield f"{count} {inner[kind]}{'' if count == 1 else 's'} {verb} ({kind}: --full)"


def _field(one: FieldDiff, currency: Any) -> str:
    """Amounts stand there as money, if the document says of which currency."""
    name = plain(one.field, _MAX_NAME)
    is_amount = name == "amount" or name.startswith("amount_") or name == "unit_amount"
    before, after = (
        (money_in({"amount": value, "currency": currency}) if is_amount else None) or _value(value)
        for value in (one.before, one.after)
    )
    if one.is_new:
        return f"{name}: {after}"
    return f"{name}: {before} -> {'(gone)' if one.is_gone else after}"


def _kind_lines(kind: str, value: Mapping[str, Any]) -> Iterator[str]:
    latest = value["latest"]
    yield f"  {plain(kind, _MAX_NAME)}: {value['count']}"
    for document in latest:
        yield f"    {_value(document)}"
    more = value["count"] - len(latest)
    if more > 0:
        yield f"    ({more} more, older)"


def _value_lines(name: object, value: Any, depth: int) -> Iterator[str]:
    pad, shown = "  " * depth, plain(name, _MAX_NAME)
    entries = _entries(value)
    if entries is None or depth >= _MAX_DEPTH or not entries:
        yield f"{pad}{shown}: {_value(value)}"
        return
    yield f"{pad}{shown}:"
    for inner, one in entries[:_MAX_ENTRIES]:
        if name == "amount":
            one = money_in({"amount": one, "currency": inner}) or one
        yield from _value_lines(inner, one, depth + 1)
    if len(entries) > _MAX_ENTRIES:
        yield f"{pad}  ({len(entries) - _MAX_ENTRIES} more: --json)"


def _entries(value: Any) -> list[tuple[object, Any]] | None:
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else None


def _value(value: Any) -> str:
    return plain(json.dumps(value, ensure_ascii=False, default=str), _MAX_VALUE)


def _broken(name: str, broken: Sequence[str]) -> Iterator[str]:
    for sentence in broken:
        yield f"! {plain(name, _MAX_NAME)}: {plain(sentence, _MAX_VALUE)}"


_MAX_FIELD_DEPTH = 8  # below it values are compared as a whole
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

    change: Change
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
    return [_built_in(name) for name in sorted(BUILT_IN)]


def row_of(kept: KeptService, faults: Mapping[str, int] | None) -> ServiceRow:
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
    from paddock.cli.render.network import Scan, Wanted
    from paddock.journal.log import RunLog
    from paddock.model.action import Verdict

    if not journal.is_dir():
        return None
    scan = Scan(RunLog(journal), Wanted())
    return Counter(traffic.host for traffic in scan if traffic.step.verdict is Verdict.FAULT)


def state_after(kept: KeptService, step: int) -> dict[str, Any]:
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


def differences(kept: KeptService, first: int | None, last: int | None) -> list[Difference]:
    """Between before the first step and after the last one; without steps, since the beginning."""
    since, until = kept.span(first, last)
    return [
        Difference(change, list(_fields("", change.before or {}, change.after or {}, 0)))
        for change in kept.changes(since, until)
    ]


def _built_in(name: str) -> BuiltIn:
    try:
        found = load(name)
    except Exception as error:  # a library that it needs is not installed
        return BuiltIn(name, f"cannot be used here: {error}", {})
    about = (found.__doc__ or "").strip().partition("\n\n")[0]
    return BuiltIn(name, " ".join(about.split()), found.options)


def _fields(field: str, before: Any, after: Any, depth: int) -> Iterator[FieldDiff]:
    """Down to the values that differ: `address.city`, `items[2].price`."""
    if before is _ABSENT or after is _ABSENT:
        was, now = (None if one is _ABSENT else one for one in (before, after))
        yield FieldDiff(field, was, now, before is _ABSENT, after is _ABSENT)
    elif isinstance(before, dict) and isinstance(after, dict) and depth < _MAX_FIELD_DEPTH:
        for name in {**before, **after}:
            inner = f"{field}.{name}" if field else name
            was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
            yield from _fields(inner, was, now, depth + 1)
    elif isinstance(before, list) and isinstance(after, list) and depth < _MAX_FIELD_DEPTH:
        for at in range(max(len(before), len(after))):
            was, now = (one[at] if at < len(one) else _ABSENT for one in (before, after))
            yield from _fields(f"{field}[{at}]", was, now, depth + 1)
    elif type(before) is not type(after) or before != after:  # 1 is neither true nor 1.0 here
        yield FieldDiff(field, before, after)
