"""Expectations of a run, as values. Neither their syntax nor the run is known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.action import Kind
from paddock.model.plural import many
from paddock.policy.rules import Match


class Span(msgspec.Struct, frozen=True):
    """A minimum and a maximum count."""

    least: int = 0
    most: int | None = None

    def holds(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        if self.least == self.most:
            return str(self.most)
        return f"{self.least} to {self.most}" if self.least else f"at most {self.most}"

    def of(self, noun: str) -> str:
        """Return `1 step`, `at least 2 steps`, `0 to 1 step`."""
        last = self.least if self.most is None else self.most
        return f"{self}{many(last, noun).removeprefix(str(last))}"


class TextTerms(msgspec.Struct, frozen=True):
    """Conditions on a text. `matches` are patterns of CEL, which take no more than linear time."""

    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    equals: str | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.contains or self.lacks or self.matches) and self.equals is None


class FileTerms(msgspec.Struct, frozen=True):
    """Conditions on a file at the end. A relative path starts at the project."""

    path: str
    is_there: bool = True
    text: TextTerms = TextTerms()
    conditions: tuple[str, ...] = ()  # CEL over what is in it; `$` stands for the document


class ActionTerms(msgspec.Struct, frozen=True):
    """Actions that are looked for among those that were proposed, by the words of rules."""

    words: Mapping[str, Any]  # as written, to show
    kinds: tuple[Kind, ...]  # none: whatever goes to the host
    match: Match = msgspec.field(default_factory=Match)
    unless: Match | None = None
    when: str | None = None
    count: Span = Span(1)
    decided: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()


class AlertTerms(msgspec.Struct, frozen=True):
    """Which alerts must come, by name, and no others; or how many in all may."""

    names: tuple[str, ...] | None = None
    count: Span = Span()


class CostTerms(msgspec.Struct, frozen=True):
    """The most that the models may cost."""

    usd_micros: int | None = None
    tokens: int | None = None


class Expectations(msgspec.Struct, frozen=True):
    """All that a scenario expects. What is not said is not looked at, but for the exit status."""

    exits: tuple[int, ...] | None = (0,)  # None: any, as long as it ended by itself
    files: tuple[FileTerms, ...] = ()
    world: tuple[str, ...] = ()
    must: tuple[ActionTerms, ...] = ()
    must_not: tuple[ActionTerms, ...] = ()
    steps: Span | None = None
    faults: Span | None = None  # how many steps faults on purpose strike
    cost: CostTerms = CostTerms()
    verdicts: Mapping[str, Span] = {}
    alerts: AlertTerms | None = None
    do_invariants_hold: bool = False
    output: TextTerms = TextTerms()
    errors: TextTerms = TextTerms()
    least_rate: float | None = None  # of runs that pass; without it all must
