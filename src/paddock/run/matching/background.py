"""Background traffic: traces and telemetry that a library sends by the clock. In which parts, how
often and when is not reproducible, so such an action is neither ordered nor required, and what it
carries is not compared. Its endpoint is: it gets only answers of the same endpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from paddock.llm.formats import is_model_path, recognise
from paddock.model.action import Action, Effect, Kind
from paddock.policy.background import BackgroundRule
from paddock.run.matching.recorded_step import ActionView, Background, RecordedStep

_KINDS = (Kind.HTTP, Kind.CONNECT, Kind.DNS)
_PLACED = {
    Kind.HTTP: ("method", "scheme", "host", "port", "path"),
    Kind.CONNECT: ("host", "port", "transport"),
    Kind.DNS: ("host", "type"),
}
Place = tuple[Any, ...]


def marked(
    rows: Iterable[RecordedStep], rules: tuple[BackgroundRule, ...]
) -> tuple[RecordedStep, ...]:
    """Return the steps, background traffic marked with the rule that makes it so."""
    if not rules:
        return tuple(rows)
    return tuple(_marked(row, rules) for row in rows)


def _marked(row: RecordedStep, rules: tuple[BackgroundRule, ...]) -> RecordedStep:
    if row.within is not None or row.kind not in _KINDS:
        return row
    rule = _rule_of(row.kind, row.name, row.arguments, rules)
    return row if rule == row.background else row.as_background(rule)


class BackgroundSteps:
    """The background traffic of a recorded run, and which of it has come again."""

    def __init__(self, rows: Iterable[RecordedStep], rules: tuple[BackgroundRule, ...]) -> None:
        self._rules = rules
        self._left: dict[Place, deque[RecordedStep]] = {}
        self._last: dict[Place, RecordedStep] = {}
        for row in sorted(rows, key=lambda row: row.proposed_n):
            # What its door refused never came so far: the door refuses it again by itself.
            if row.background is not None and not row.is_refused_by_door and row.is_answerable:
                self._left.setdefault(_place(row.kind, row.arguments), deque()).append(row)

    def rule_of(self, view: ActionView) -> str | None:
        """Return the rule that makes a proposed action background traffic; None if none does."""
        return _rule_of(view.kind, view.name, view.parts, self._rules)

    def take(self, view: ActionView) -> Background | None:
        """Return the recorded answer for background traffic: the answers of its endpoint one after
        the other, then the last one again."""
        rule = self.rule_of(view)
        if rule is None:
            return None
        endpoint = _place(view.kind, view.parts)
        left = self._left.get(endpoint)
        if not left:
            return Background(rule, self._last.get(endpoint), is_repeat=True)
        row = self._last[endpoint] = left.popleft()
        return Background(rule, row)


def _rule_of(
    kind: Kind, name: str, parts: Mapping[str, Any], rules: tuple[BackgroundRule, ...]
) -> str | None:
    if not rules or kind not in _KINDS or _is_question(kind, parts):
        return None
    action = Action(kind, name, parts, Effect.WRITE)
    return next((rule.text for rule in rules if rule.matches(action)), None)


def _is_question(kind: Kind, parts: Mapping[str, Any]) -> bool:
    """Return whether a request may go to a model, judged by its path alone. Model calls are what
    the agent does, so no rule makes them background traffic."""
    if kind is not Kind.HTTP:
        return False
    method, path, host = (str(parts.get(key)) for key in ("method", "path", "host"))
    is_asked = is_model_path(method, unquote(path))
    return is_asked or recognise(method, path, None, None, host) is not None


def _place(kind: Kind, parts: Mapping[str, Any]) -> Place:
    """Return the endpoint as it is written, in a hashable form whatever the record contains."""
    return (kind, *(repr(parts.get(key)) for key in _PLACED[kind]))
