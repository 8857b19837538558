"""One recorded step as a replay needs it, and what a matching can end in. Values only."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from paddock.model.action import Kind
from paddock.model.values import dataclass

BEYOND_BUDGET = "the budget of the recorded run was used up (record: {budget: ...})"


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded step. It was in flight from record `proposed_n` to record `settled_n`; what an
    agent does next may follow from its answer from `begun_n` on."""

    step: int
    kind: Kind
    name: str
    arguments: Mapping[str, Any]  # as journalled: masked, and whole
    context: Mapping[str, Any]
    keyed: Mapping[str, str]  # for each value that is not shown, its keyed hash
    parent: int | None
    proposed_n: int
    settled_n: int | None  # None: the journal ends before it was settled
    is_refused_by_door: bool = False  # its door refused it by itself; nothing was decided
    is_within: int | None = None  # the step inside whose answer it was proposed
    is_contained: bool = False  # stays inside the fence: carried out again, not answered
    is_kept: bool = True  # whether the journal has all of its answer
    unkept: str = ""  # why it does not
    begun_n: int | None = None  # the last record before its answer began; None: when it settled
    beside: str | None = None  # the rule by which it goes on beside what the agent does
    is_silent: bool = False  # nothing of its answer reached the agent: it only has to come
    repeats: int = 0  # how often it was refused again, without a step for each
    is_whole: bool = True  # whether the journal has all of what was proposed
    sent: Mapping[str, Any] | None = None  # of a body that its proposal does not tell: its digests

    @property
    def answer_n(self) -> float:
        """When the agent could first act on its answer; infinite, if it never could. Half a record
        later than the last one before it, so that no two steps have the same place."""
        if self.settled_n is None:
            return math.inf
        return self.settled_n if self.begun_n is None else min(self.begun_n + 0.5, self.settled_n)

    @property
    def is_candidate(self) -> bool:
        """Whether an agent proposes it by itself, as a part of what it does, and its door lets it
        come to the gate."""
        return not self.is_refused_by_door and self.is_within is None and self.beside is None

    @property
    def is_answerable(self) -> bool:
        """Whether it can be given again what it was given. A contained one gets it by itself."""
        return self.is_contained or (self.settled_n is not None and self.is_kept)


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the proposed is not what was recorded. ABSENT where there is nothing."""

    at: str
    recorded: Any
    proposed: Any


class _Absent:
    """The mark for a value that is not there, which is not the same as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


class DivergedBy(enum.StrEnum):
    """In what way a replay has left the record."""

    CHANGED = "changed"  # something else than what comes next
    EXTRA = "extra"  # something, where nothing comes any more
    MISSING = "missing"  # a recorded step that never came
    ORDER = "order"  # a recorded step, before what it came after
    UNKEPT = "unkept"  # a recorded step whose answer the journal does not have


@dataclass(frozen=True, slots=True)
class Match:
    """The proposed is this recorded step. `is_again`: a question for a name that came before, or
    one of the refusals that were only counted."""

    row: Row
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """The proposed goes on beside what the agent does. It gets the answer of `row`, which has come
    already if it `is_again`; None: the record has no answer for it."""

    rule: str
    row: Row | None
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class Early:
    """The proposed is a recorded step (or, with `row` None, what follows the past), and those it
    waits for are still out. The caller holds it and proposes it again when one was answered."""

    row: Row | None
    waits_for: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Diverged:
    """The replay has left the record. `row` is the step it is held against, if there is one."""

    kind: DivergedBy
    row: Row | None
    differences: tuple[Difference, ...] = ()

    @property
    def step(self) -> int | None:
        return None if self.row is None else self.row.step


@dataclass(frozen=True, slots=True)
class Live:
    """The past is over: this is to be decided on and carried out anew."""


@dataclass(frozen=True, slots=True)
class NotForkable:
    """Why a fork cannot begin at a step, and at which ones nearby it can."""

    at: int
    why: str
    steps: tuple[int, ...]  # those that are in the way
    instead: tuple[int, ...]  # the nearest before and after, where there are any


Proposed = Match | Beside | Early | Diverged | Live


@dataclass(frozen=True, slots=True)
class View:
    """An action as what is compared: JSON parts by name, without what may differ anyway."""

    kind: Kind
    name: str
    parts: Mapping[str, Any]
    keyed: Mapping[str, str] = field(default_factory=dict)  # by place: `headers.authorization`
    place: tuple[Any, ...] = ()  # kind, host, method and such: what similar ones have in common
    digest: bytes = b""  # equal ones are the same in every part
    left_out: Mapping[str, str] = field(default_factory=dict)  # headers that are not compared
    has_ids: bool = False  # among its headers: they must fit those of other requests
    sent: Mapping[str, Any] | None = None  # as of a row; None where it is not known yet
