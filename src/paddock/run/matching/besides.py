"""What goes on beside what an agent does: traces and telemetry that are sent by the clock. In which
parts, how often and when is nobody's promise, so such an action is neither ordered nor required,
and what it says is not compared. Where it goes is: it gets only answers of the same place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from paddock.doors.network.model_wire.wire import is_model_path, recognise
from paddock.model.action import Action, Effect, Kind
from paddock.policy.beside import BesideRule
from paddock.run.matching.rows import Beside, Row, View

_KINDS = (Kind.HTTP, Kind.CONNECT, Kind.DNS)
_PLACED = {
    Kind.HTTP: ("method", "scheme", "host", "port", "path"),
    Kind.CONNECT: ("host", "port", "transport"),
    Kind.DNS: ("host", "type"),
}
Place = tuple[Any, ...]


def marked(rows: Iterable[Row], rules: tuple[BesideRule, ...]) -> tuple[Row, ...]:
    """The rows, each that goes on beside with the rule that says so."""
    if not rules:
        return tuple(rows)
    return tuple(_marked(row, rules) for row in rows)


def _marked(row: Row, rules: tuple[BesideRule, ...]) -> Row:
    if row.is_within is not None or row.kind not in _KINDS:
        return row
    rule = _rule_of(row.kind, row.name, row.arguments, rules)
    return row if rule == row.beside else replace(row, beside=rule)


class Besides:
    """The steps of a record that went on beside it, and which of them have come again."""

    def __init__(self, rows: Iterable[Row], rules: tuple[BesideRule, ...]) -> None:
        self._rules = rules
        self._left: dict[Place, deque[Row]] = {}
        self._last: dict[Place, Row] = {}
        for row in sorted(rows, key=lambda row: row.proposed_n):
            # What its door refused never came so far: the door refuses it again by itself.
            if row.beside is not None and not row.is_refused_by_door and row.is_answerable:
                self._left.setdefault(_place(row.kind, row.arguments), deque()).append(row)

    def rule_of(self, view: View) -> str | None:
        """The rule by which a proposed action goes on beside."""
        return _rule_of(view.kind, view.name, view.parts, self._rules)

    def take(self, view: View) -> Beside | None:
        """What it gets: the answers of its place one after the other, the last one for ever."""
        rule = self.rule_of(view)
        if rule is None:
            return None
        place = _place(view.kind, view.parts)
        left = self._left.get(place)
        if not left:
            return Beside(rule, self._last.get(place), is_again=True)
        row = self._last[place] = left.popleft()
        return Beside(rule, row)


def _rule_of(
    kind: Kind, name: str, parts: Mapping[str, Any], rules: tuple[BesideRule, ...]
) -> str | None:
    if not rules or kind not in _KINDS or _is_question(kind, parts):
        return None
    action = Action(kind, name, parts, Effect.WRITE)
    return next((one.text for one in rules if one.means(action)), None)


def _is_question(kind: Kind, parts: Mapping[str, Any]) -> bool:
    """Whether a request may be one to a model, by its path alone: what an agent asks and is told is
    what it does, whatever a rule says."""
    if kind is not Kind.HTTP:
        return False
    method, path, host = (str(parts.get(key)) for key in ("method", "path", "host"))
    is_asked = is_model_path(method, unquote(path))
    return is_asked or recognise(method, path, None, None, host) is not None


def _place(kind: Kind, parts: Mapping[str, Any]) -> Place:
    """As it is spelled, and hashable whatever a record says."""
    return (kind, *(repr(parts.get(key)) for key in _PLACED[kind]))
