"""From the shape of `expect:` to terms, with the checks that a type cannot make. Loading this file
loads pydantic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.policy.expressions import compile_expression
from paddock.policy.fields import FIELDS
from paddock.policy.file.document import Path as Place
from paddock.policy.match_schema import UnlessShape
from paddock.policy.patterns import pattern_problem
from paddock.policy.problems import suggest
from paddock.policy.rules import Match
from paddock.policy.subject import names_for
from paddock.run.scenarios.expressions import check_pattern, json_condition
from paddock.run.scenarios.shape import ExpectedFileShape, ExpectShape, SoughtShape, TextShape
from paddock.run.scenarios.terms import (
    ActionTerms,
    CostTerms,
    Expectations,
    FileTerms,
    Span,
    TextTerms,
)

_OWN = frozenset({"kind", "unless", "when", "count", "decided", "outcome"})  # not of a rule's match
_TO_HOST = frozenset({"host"})
_ORDER = ("kind", "host", "method", "path", "name", "program")  # first, where they are


class ExpectationReader(msgspec.Struct):
    """Reads `expect:` of one scenario. `note` takes path, message, hint."""

    note: Callable[..., None]

    def read(self, shape: ExpectShape) -> Expectations:
        must, must_not = shape.actions.must, shape.actions.must_not
        at: Place = ("expect", "actions")
        return Expectations(
            exits=shape.exit,
            files=tuple(self._file(path, expected) for path, expected in shape.files.items()),
            world=shape.world,
            must=tuple(self._sought(expected, (*at, "must", n)) for n, expected in enumerate(must)),
            must_not=tuple(
                self._unwanted(expected, (*at, "must_not", n))
                for n, expected in enumerate(must_not)
            ),
            steps=shape.steps,
            faults=shape.faults,
            cost=self._cost(shape),
            verdicts=shape.verdicts,
            alerts=shape.alerts,
            do_invariants_hold=shape.invariants == "hold",
            output=self._text(shape.output, ("expect", "output")),
            errors=self._text(shape.errors, ("expect", "errors")),
            least_rate=None if shape.rate is None else shape.rate.min,
        )

    def _cost(self, shape: ExpectShape) -> CostTerms:
        usd = shape.cost.max_usd
        return CostTerms(None if usd is None else round(usd * 1_000_000), shape.cost.max_tokens)

    def _text(self, shape: TextShape, path: Place) -> TextTerms:
        for pattern in shape.matches:
            try:
                check_pattern(pattern)
            except InvalidInput as error:
                self.note((*path, "matches"), error.message, error.hint)
        return TextTerms(shape.contains, shape.lacks, shape.matches, shape.equals)

    def _file(self, name: str, shape: ExpectedFileShape) -> FileTerms:
        path: Place = ("expect", "files", name)
        text = self._text(shape, path)
        if not name or "\0" in name or ".." in name.split("/"):
            self.note(path, f"{name[:80]!r} is not a path", "write it without ..")
        if not shape.exists and (shape.json_ or not text.is_empty):
            self.note((*path, "exists"), "nothing can be said of a file that is not there")
        for condition in shape.json_:
            try:
                json_condition(condition)
            except InvalidInput as error:
                self.note((*path, "json"), error.message, error.hint)
        return FileTerms(name, shape.exists, text, shape.json_)

    def _unwanted(self, shape: SoughtShape, path: Place) -> ActionTerms:
        if shape.count is not None:
            self.note((*path, "count"), "what must not be has no count",
                      "write it below must, with count: {max: 3}")  # fmt: skip
        return self._sought(shape, path)

    def _sought(self, shape: SoughtShape, path: Place) -> ActionTerms:
        kinds = shape.kind or ()
        names = shape.model_fields_set - _OWN
        if not kinds and (names != _TO_HOST or "must" in path):
            hint = "write kind: http, exec, tool or another; only must_not: {host: ...} needs none"
            self.note((*path, "kind"), "this key is missing", hint, of_key=True)
        if not kinds and shape.when is not None:
            self.note((*path, "when"), "needs a kind to be about", "write kind: http, or another")
        if kinds and shape.when is not None:
            self._compile(shape.when, kinds, (*path, "when"))
        looked = kinds or (Kind.HTTP,)  # its hosts are written as everywhere
        unless = shape.unless
        return ActionTerms(
            words=_shown(shape),
            kinds=kinds,
            match=self._match(shape, looked, path),
            unless=None if unless is None else self._match(unless, looked, (*path, "unless")),
            when=shape.when,
            count=shape.count or Span(1),
            decided=shape.decided,
            outcomes=shape.outcome,
        )

    def _compile(self, source: str, kinds: tuple[Kind, ...], path: Place) -> None:
        try:
            compile_expression(source, names_for(kinds))
        except InvalidInput as error:
            self.note(path, error.message, error.hint)

    def _match(self, shape: UnlessShape, kinds: tuple[Kind, ...], path: Place) -> Match:
        fields: list[tuple[str, tuple[Any, ...]]] = []
        for name in sorted(shape.model_fields_set - _OWN):
            patterns = getattr(shape, name)
            if patterns is None:
                self.note((*path, name), "has no value", "write a pattern, or remove the key")
                continue
            for kind in kinds:
                self._check_field(kind, name, patterns, (*path, name))
            fields.append((name, patterns))
        return Match(tuple(fields))

    def _check_field(self, kind: Kind, name: str, patterns: tuple[Any, ...], path: Place) -> None:
        if name not in FIELDS[kind]:
            self.note(path, f"an action of kind {kind} has no {name}",
                      suggest(name, FIELDS[kind]), of_key=True)  # fmt: skip
            return
        for pattern in patterns:
            problem = pattern_problem(kind, name, pattern)
            if problem is not None:
                self.note(path, *problem)


def _shown(shape: UnlessShape) -> dict[str, Any]:
    """Return the options as they were written, so that a person finds them again."""
    names = [key for key in _ORDER if key in shape.model_fields_set]
    names += sorted(shape.model_fields_set - {"count", *_ORDER})
    return {name: _plain(getattr(shape, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, UnlessShape):
        return _shown(value)
    if isinstance(value, tuple):
        parts = [_plain(item) for item in value]
        return parts[0] if len(parts) == 1 else parts
    return value
