"""One recorded step as a replay needs it, and what a matching can end in."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import msgspec

from paddock.model.action import Kind
from paddock.model.events import Proposed, Settled
from paddock.model.steps import Step

_DOORS = ("protocol", "mismatch", "secrets")  # who refused, in journals that do not say by_door
BEYOND_BUDGET = "the budget of the recorded run was used up (record: {budget: ...})"


class RecordedStep:
    """A step of the recorded run, as matching needs it: the step, and how it stands to the others.

    It was in flight from record `proposed_n` to record `settled_n`; what an agent does next may
    follow from its answer from `begun_n` on. A step that an approver edited ends with the step that
    was made of it, which is `last`. Everything is computed once: matching looks at each step often.
    """

    __slots__ = (
        "answer_n", "arguments", "background", "begun_n", "is_candidate", "is_contained",
        "is_refused_by_door", "is_unseen", "is_whole", "keyed", "kind", "last", "name", "number",
        "proposed_n", "repeats", "sent", "settled_n", "step", "unkept", "within",
    )  # fmt: skip

    def __init__(
        self,
        step: Step,
        arguments: Mapping[str, Any],
        *,
        last: Step | None = None,
        within: int | None = None,
        unkept: str = "",
        begun_n: int | None = None,
        is_unseen: bool = False,
    ) -> None:
        """Make the view. `arguments` are those of the action as they are compared: masked, with
        large values. `within` is the step in whose answer this one was proposed. `unkept` says why
        the journal does not have all of the answer. `begun_n` is the last record before the answer
        began; None if it began when the step settled. If the step is unseen, nothing of its answer
        reached the agent, and it only has to come."""
        proposal, settlement = step.record(Proposed), (last or step).record(Settled)
        proposed, decided = step.proposed, step.decided
        assert proposal is not None and proposed is not None
        self.step = step
        self.arguments = arguments
        self.last = last or step
        self.within = within
        self.unkept = unkept
        self.begun_n = begun_n
        self.is_unseen = is_unseen
        self.background: str | None = None  # the rule that makes it background traffic
        self.number = step.number
        self.kind = proposed.kind
        self.name = proposed.name
        # For each value that is not shown, its keyed hash.
        self.keyed: Mapping[str, str] = {**proposed.keyed, **(proposed.context.get("keyed") or {})}
        self.proposed_n = proposal.n
        self.settled_n = None if settlement is None else settlement.n
        self.is_contained = proposed.is_contained  # it is carried out again, not answered
        self.is_whole = proposal.is_whole  # whether the journal has all of what was proposed
        # Its door refused it by itself; nothing was decided.
        self.is_refused_by_door = decided is not None and (
            decided.by_door or decided.decided_by in _DOORS
        )
        self.repeats = 0 if step.repeats is None else step.repeats.count
        self.sent = _sent_digests(proposed, self.last)
        self.answer_n = _answer_n(self.settled_n, begun_n)
        self.is_candidate = self._is_candidate()

    def as_background(self, rule: str | None) -> RecordedStep:
        """Return the same step as background traffic by this rule."""
        step = copy(self)
        step.background = rule
        step.is_candidate = step._is_candidate()
        return step

    def _is_candidate(self) -> bool:
        """Return whether an agent proposes it by itself, as a part of what it does, and its door
        lets it pass."""
        return not self.is_refused_by_door and self.within is None and self.background is None

    @property
    def is_answerable(self) -> bool:
        """Return whether it can be answered from the record. A contained one needs no answer."""
        return self.is_contained or (self.settled_n is not None and not self.unkept)


def _sent_digests(proposed: Proposed, last: Step) -> Mapping[str, Any] | None:
    """Return the digests of a body that streamed by, whose request was decided on by its head."""
    if "body_sha256" in proposed.arguments:
        return None
    sent = last.result.get("sent")
    return sent if isinstance(sent, Mapping) and not sent.get("is_part") else None


def _answer_n(settled_n: int | None, begun_n: int | None) -> float:
    """Return when the agent could first act on an answer; infinite, if it never could. Half a
    record later than the last one before it, so that no two steps have the same place."""
    if settled_n is None:
        return math.inf
    return settled_n if begun_n is None else min(begun_n + 0.5, settled_n)


class Difference(msgspec.Struct, frozen=True):
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


class StepMatch(msgspec.Struct, frozen=True):
    """The proposed action is this recorded step. `is_repeat`: a DNS query that came before, or one
    of the refusals that were only counted."""

    row: RecordedStep
    is_repeat: bool = False


class Background(msgspec.Struct, frozen=True):
    """The proposed action is background traffic. It gets the answer of `row`, which has come
    already if it `is_repeat`; None: the record has no answer for it."""

    rule: str
    row: RecordedStep | None
    is_repeat: bool = False


class Early(msgspec.Struct, frozen=True):
    """The proposed action is a recorded step (or, with `row` None, what follows the past), and
    steps that come before it are not answered yet. The caller holds it and proposes it again when
    one of them was answered."""

    row: RecordedStep | None
    waits_for: tuple[RecordedStep, ...]


class Mismatch(msgspec.Struct, frozen=True):
    """The replay has left the record. `row` is the step it is compared with, if there is one."""

    kind: DivergedBy
    row: RecordedStep | None
    differences: tuple[Difference, ...] = ()

    @property
    def step(self) -> int | None:
        return None if self.row is None else self.row.number


class Live(msgspec.Struct, frozen=True):
    """The past is over: this is to be decided on and carried out anew."""


MatchResult = StepMatch | Background | Early | Mismatch | Live


class ActionView(msgspec.Struct, frozen=True):
    """An action as what is compared: JSON parts by name, without what may differ anyway."""

    kind: Kind
    name: str
    parts: Mapping[str, Any]
    keyed: Mapping[str, str] = {}  # by place: `headers.authorization`
    place: tuple[Any, ...] = ()  # kind, host, method and such: what similar ones have in common
    digest: bytes = b""  # equal ones are the same in every part
    left_out: Mapping[str, str] = {}  # headers that are not compared
    has_ids: bool = False  # among its headers: they must fit those of other requests
    sent: Mapping[str, Any] | None = None  # as of a row; None where it is not known yet
