"""The recorded steps that a proposed action may be, found without looking at all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.model.action import Kind
from paddock.run.matching.bindings import Bindings, Id
from paddock.run.matching.compare import Comparison
from paddock.run.matching.rows import Difference, Row, View
from paddock.run.matching.rules import Rules
from paddock.run.matching.sequence import Turns
from paddock.run.matching.view import row_view

# How many steps of one place are looked at, when nothing is equal in every part. What an agent does
# this much too early is called changed, not early.
MAX_LOOKED_AT = 512
MAX_SIMILAR = 64  # of those whose turn it is, when the most similar one is wanted

_FIXED_PARTS = ("method", "host", "port", "name")
Pairs = dict[Id, Id]


class Candidates:
    """Rows by what is in them. `turns` tells which ones are taken already."""

    def __init__(self, rows: Sequence[Row], rules: Rules, turns: Turns) -> None:
        self._rules = rules
        self._turns = turns
        self._is_deep = any(one.is_at(("path",)) for one in rules.vary)
        self._has_come = turns.has_come
        self._views = {row.step: row_view(row) for row in rows}
        self._exact: dict[bytes, deque[Row]] = {}
        self._near: dict[tuple[Any, ...], deque[Row]] = {}
        for row in sorted(rows, key=lambda row: row.proposed_n):
            view = self._views[row.step]
            self._exact.setdefault(view.digest, deque()).append(row)
            self._near.setdefault(self._neighbourhood(view), deque()).append(row)

    def view(self, row: Row) -> View:
        return self._views[row.step]

    def equal(self, view: View, bindings: Bindings) -> tuple[Row, Pairs] | None:
        """The earliest that is equal and has not come, and the pairs of ids that this makes. One
        that is equal in every part goes before those that are so by a rule."""
        exact = None if self._rules.has_ids else next(self._open(self._exact, view.digest), None)
        if exact is not None and self._turns.is_turn(exact):
            return exact, {}
        for count, row in enumerate(self._open(self._near, self._neighbourhood(view))):
            if row is exact or count >= MAX_LOOKED_AT:
                break
            comparison = Comparison(self._rules, bindings, limit=1)
            if not comparison.run(self._views[row.step], view):
                return row, comparison.pairs
        return None if exact is None else (exact, {})

    def closest(
        self, view: View, rows: Sequence[Row], bindings: Bindings
    ) -> tuple[Row, tuple[Difference, ...]]:
        """The most similar of some rows, the earliest of those, and how it differs."""

        def similarity(found: tuple[Row, tuple[Difference, ...]]) -> tuple[int, int]:
            return _similarity(self._views[found[0].step], view, found[1])

        return max(((row, self._differences(row, view, bindings)) for row in rows), key=similarity)

    def _differences(self, row: Row, view: View, bindings: Bindings) -> tuple[Difference, ...]:
        return Comparison(self._rules, bindings).run(self._views[row.step], view)

    def _neighbourhood(self, view: View) -> tuple[Any, ...]:
        """What is never let vary, so that equal ones have it in common."""
        parts = view.parts
        common = (view.kind, *(repr(parts.get(key)) for key in _FIXED_PARTS))
        path = parts.get("path") if view.kind in (Kind.HTTP, Kind.MODEL) else None
        if self._is_deep or not isinstance(path, str):
            return common  # a path that varies as a whole may be one of another depth
        return (*common, path.count("/"))

    def _open(self, rows_by: dict[Any, deque[Row]], key: Any) -> Iterator[Row]:
        rows = rows_by.get(key)
        if rows is None:
            return
        while rows and self._has_come(rows[0]):
            rows.popleft()
        for row in rows:
            if not self._has_come(row):
                yield row


def _similarity(
    recorded: View, proposed: View, differences: tuple[Difference, ...]
) -> tuple[int, int]:
    """What is said to the same place is more similar than what says the same elsewhere."""
    pairs = zip(recorded.place, proposed.place, strict=False)
    return sum(one == other for one, other in pairs), -len(differences)
