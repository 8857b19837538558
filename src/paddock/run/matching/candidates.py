"""The recorded steps that a proposed action may be, found without looking at all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from paddock.gate.recorded_answers import is_same_body
from paddock.model.action import Kind
from paddock.run.matching.bindings import Bindings, Id
from paddock.run.matching.compare import ViewComparison, headers_left_out
from paddock.run.matching.recorded_step import ActionView, Difference, RecordedStep
from paddock.run.matching.rules import Rules
from paddock.run.matching.sequence import Turns
from paddock.run.matching.view import row_view

# How many steps of one place are looked at, when nothing is equal in every part. What an agent does
# this much too early is called changed, not early.
MAX_LOOKED_AT = 512
MAX_SIMILAR = 64  # of those whose turn it is, when the most similar one is wanted

_FIXED_PARTS = ("method", "host", "port", "name")
Pairs = dict[Id, Id]


class Equal(NamedTuple):
    """A recorded step that a proposed action is, the pairs of ids that this makes, and what was
    different and let vary."""

    row: RecordedStep
    pairs: Pairs
    varied: tuple[str, ...]


class Candidates:
    """Rows by what is in them. `turns` tells which ones are taken already."""

    def __init__(self, rows: Sequence[RecordedStep], rules: Rules, turns: Turns) -> None:
        self._rules = rules
        self._turns = turns
        self._is_deep = any(rule.is_at(("path",)) for rule in rules.vary)
        self._has_come = turns.has_come
        self._views = {row.number: row_view(row) for row in rows}
        self._exact: dict[bytes, deque[RecordedStep]] = {}
        self._near: dict[tuple[Any, ...], deque[RecordedStep]] = {}
        for row in sorted(rows, key=lambda row: row.proposed_n):
            view = self._views[row.number]
            self._exact.setdefault(view.digest, deque()).append(row)
            self._near.setdefault(self._neighbourhood(view), deque()).append(row)

    def view(self, row: RecordedStep) -> ActionView:
        return self._views[row.number]

    def equal(self, view: ActionView, bindings: Bindings) -> Equal | None:
        """Return the earliest equal step that has not come. A step that is equal in every part goes
        before steps that are equal by a rule, and one with the same body before those with only the
        same head."""
        equal = self._equal(view, bindings)
        if equal is None and view.sent is not None:
            return self._equal(replace(view, sent=None), bindings)
        return equal

    def _equal(self, view: ActionView, bindings: Bindings) -> Equal | None:
        has_ids = self._rules.has_ids or view.has_ids
        exact = None if has_ids else next(self._open(self._exact, view.digest, view.sent), None)
        if exact is not None and self._turns.is_turn(exact):
            return self._exactly(exact, view)
        near = self._open(self._near, self._neighbourhood(view), view.sent)
        for count, row in enumerate(near):
            if row is exact or count >= MAX_LOOKED_AT:
                break
            comparison = ViewComparison(self._rules, bindings, limit=1)
            recorded = self._views[row.number]
            if not comparison.run(recorded, view):
                return Equal(row, comparison.pairs, comparison.varied(recorded, view))
        return None if exact is None else self._exactly(exact, view)

    def _exactly(self, row: RecordedStep, view: ActionView) -> Equal:
        return Equal(row, {}, tuple(headers_left_out(self._views[row.number], view)))

    def closest(
        self, view: ActionView, rows: Sequence[RecordedStep], bindings: Bindings
    ) -> tuple[RecordedStep, tuple[Difference, ...]]:
        """Return the most similar step, the earliest of several, and its differences."""

        def similarity(candidate: tuple[RecordedStep, tuple[Difference, ...]]) -> tuple[int, int]:
            return _similarity(self._views[candidate[0].number], view, candidate[1])

        return max(((row, self._differences(row, view, bindings)) for row in rows), key=similarity)

    def _differences(
        self, row: RecordedStep, view: ActionView, bindings: Bindings
    ) -> tuple[Difference, ...]:
        return ViewComparison(self._rules, bindings).run(self._views[row.number], view)

    def _neighbourhood(self, view: ActionView) -> tuple[Any, ...]:
        """Return the parts that never vary, so that equal views have them in common."""
        parts = view.parts
        common = (view.kind, *(repr(parts.get(key)) for key in _FIXED_PARTS))
        path = parts.get("path") if view.kind in (Kind.HTTP, Kind.MODEL) else None
        if self._is_deep or not isinstance(path, str):
            return common  # a path that varies as a whole may be one of another depth
        return (*common, path.count("/"))

    def _open(
        self, rows_by: dict[Any, deque[RecordedStep]], key: Any, sent: Mapping[str, Any] | None
    ) -> Iterator[RecordedStep]:
        rows = rows_by.get(key)
        if rows is None:
            return
        while rows and self._has_come(rows[0]):
            rows.popleft()
        for row in rows:
            if not self._has_come(row) and _may_have_sent(row, sent):
                yield row


def told_by_body(rows: Iterable[RecordedStep]) -> list[RecordedStep]:
    """Return the steps whose proposals equal another's in all but their bodies, which were
    streamed."""
    alike: dict[bytes, list[RecordedStep]] = {}
    for row in rows:
        if row.sent is not None:
            alike.setdefault(row_view(row).digest, []).append(row)
    several = (group for group in alike.values() if not _have_one_body(group))
    return [row for group in several for row in group]


def _have_one_body(rows: Sequence[RecordedStep]) -> bool:
    return all(_may_have_sent(row, rows[0].sent) for row in rows)


def _may_have_sent(row: RecordedStep, sent: Mapping[str, Any] | None) -> bool:
    """Return whether a body that is not known may be the row's, or one that is known is."""
    if row.sent is None or sent is None or is_same_body(row.sent, sent):
        return True
    stable = row.sent.get("stable")
    return stable is not None and stable == sent.get("stable")


def _similarity(
    recorded: ActionView, proposed: ActionView, differences: tuple[Difference, ...]
) -> tuple[int, int]:
    """Rank a candidate: the same endpoint counts more than the same content."""
    pairs = zip(recorded.place, proposed.place, strict=False)
    return sum(value == other for value, other in pairs), -len(differences)
