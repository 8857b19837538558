"""A kept world as lines for people. An agent chose many of the words: each goes through `plain`,
stands on one line, and has a bounded length.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from paddock.cli.render.cells import labelled, paint
from paddock.cli.render.table import line_width, table
from paddock.cli.render.world_data import BuiltIn, Difference, FieldDiff, ServiceRow
from paddock.model.money import money_in
from paddock.model.plain import plain
from paddock.model.plural import many

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
