"""The answers of a recorded run, as the gate asks for them.

During a replay an action is found in the record, and what came of it then comes of it again.
Nothing is decided anew, nobody is asked, and nothing outside is touched. The gate knows only the
interface `RecordedAnswers`; a run that is no replay has `NoRecordedAnswers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from paddock.journal.writer import JournalEntry
from paddock.model.action import Action, Decision, Outcome, Verdict
from paddock.model.events import RecordedSource


class ReplayDiverged(Exception):
    """The agent left its record. The message is meant for the agent and for people."""


def _diverged(at: str | None, recorded: Any, proposed: Any) -> ReplayDiverged:
    return ReplayDiverged("This run left its record.")


def is_same_body(recorded: Mapping[str, Any], came: Mapping[str, Any]) -> bool:
    """Return whether two records of a body that streamed by are of the same bytes."""
    return all(came.get(name) == recorded.get(name) for name in ("bytes", "sha256"))


async def _at_once(n: int) -> None:
    """Wait for nobody."""


def _nothing_sealed() -> list[tuple[str, str]]:
    return []


class RecordedOutcome(msgspec.Struct, frozen=True):
    """The recorded step that an action was found to be, and what came of it."""

    run: str
    step: int
    decision: Decision
    outcome: Outcome
    result: Any = None
    error: str | None = None
    cost: Mapping[str, Any] = {}
    answered_by: str | None = None
    draft_id: str | None = None
    is_repeat: bool = False  # of a step that came already, and may come as often as it likes
    is_unseen: bool = False  # nothing of its answer reached the agent
    background: str | None = None  # the rule that makes it background traffic
    inner: tuple[
        JournalEntry, ...
    ] = ()  # steps that were part of its answer, as they were recorded
    edited: EditedStep | None = None  # what an approver made of it: its answer is the answer
    # Records that the answer cannot be given: where it differs, and how. Returns what to raise.
    diverged: Callable[[str | None, Any, Any], ReplayDiverged] = _diverged
    # Whether a body that streamed by may be the recorded one.
    is_same_body: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] = is_same_body
    # Whether a message of a WebSocket may be the recorded one; and returns when all that was
    # answered before a record of the earlier run has been answered again. Raises ReplayDiverged.
    is_same_text: Callable[[str, str], bool] = str.__eq__
    until: Callable[[int], Awaitable[None]] = _at_once
    # The same before the end of an answer; and what came before has been taken.
    until_end: Callable[[int], Awaitable[None]] = _at_once
    wait_s: float = 10.0  # for a message of the agent
    # Reads the pieces of an answer that is too long to be one value, one after the other.
    pieces: tuple[Callable[[], bytes], ...] = ()
    # The credentials among the headers of an answer, which the journal does not show.
    unsealed: Callable[[], list[tuple[str, str]]] = _nothing_sealed

    @property
    def source(self) -> RecordedSource:
        """Return where the answer comes from, for the journal."""
        return RecordedSource(self.run, self.step, self.background)

    @property
    def edits(self) -> tuple[EditedStep, ...]:
        """Return the edits of approvers, one after the other."""
        return () if self.edited is None else (self.edited, *self.edited.outcome.edits)

    @property
    def last(self) -> RecordedOutcome:
        """Return the outcome that the agent got, of the last edit if there was one."""
        return self.edits[-1].outcome if self.edits else self

    def refused_for(self, decided_by: str, why: str) -> RecordedOutcome:
        """Return the outcome of background traffic that its door refuses now, for the reason that
        there is now."""
        if self.background is None:
            return self
        decision = replace(self.decision, verdict=Verdict.BLOCK, decided_by=decided_by, why=why)
        return replace(self, decision=decision, error=why)


class EditedStep(msgspec.Struct, frozen=True):
    """A recorded step that no agent proposed: an approver had made it of another one."""

    action: Action
    outcome: RecordedOutcome
    entries: tuple[JournalEntry, ...]  # its proposal and its decision


class RecordedAnswers(Protocol):
    """The record that is asked before the rules during a replay."""

    async def find(self, action: Action) -> RecordedOutcome | None:
        """Return the recorded outcome of the action; None from the step on at which the run is
        live. May wait for others whose turn comes first. Background traffic may have no step: then
        it is a repeat of step 0. Raises ReplayDiverged."""
        ...

    def find_refused(self, action: Action) -> RecordedOutcome | None:
        """Return the same for what a door refuses by itself. Raises ReplayDiverged."""
        ...

    def has_request(self, request: Action) -> bool:
        """Return whether the record has requests like this one as steps around model calls."""
        ...

    def needs_body(self, request: Action) -> bool:
        """Return whether the record has several requests with one head and different bodies at this
        endpoint, so that only the body tells which of them this is."""
        ...

    async def turn(self, outcome: RecordedOutcome) -> None:
        """Wait until the answer of this step may go out: answers come in their recorded order.
        Raises ReplayDiverged."""
        ...

    def over(self, outcome: RecordedOutcome) -> None:
        """Take note that the answer has gone out."""
        ...


class NoRecordedAnswers:
    """The answers of a run that is no replay: there are none."""

    async def find(self, action: Action) -> RecordedOutcome | None:
        return None

    def find_refused(self, action: Action) -> RecordedOutcome | None:
        return None

    def has_request(self, request: Action) -> bool:
        return False

    def needs_body(self, request: Action) -> bool:
        return False

    async def turn(self, outcome: RecordedOutcome) -> None: ...

    def over(self, outcome: RecordedOutcome) -> None: ...
