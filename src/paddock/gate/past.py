"""The record of an earlier run, as the gate meets it: an action is found in it, and what came of it
then is given again. Nothing is decided anew, nobody is asked, and nothing outside is touched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from paddock.journal.writer import Entry
from paddock.model.action import Action, Decision, Outcome, Verdict
from paddock.model.values import dataclass


class Departed(Exception):
    """The agent left its record. The message is meant for the agent and for people."""


def _departed(at: str | None, recorded: Any, proposed: Any) -> Departed:
    return Departed("This run left its record.")


def is_same_body(recorded: Mapping[str, Any], came: Mapping[str, Any]) -> bool:
    """Return whether two records of a body that streamed by are of the same bytes."""
    return all(came.get(name) == recorded.get(name) for name in ("bytes", "sha256"))


async def _at_once(n: int) -> None:
    """Waits for nobody."""


def _nothing_sealed() -> list[tuple[str, str]]:
    return []


@dataclass(frozen=True, slots=True)
class Met:
    """The recorded step that an action was found to be, and what came of it."""

    run: str
    step: int
    decision: Decision
    outcome: Outcome
    result: Any = None
    error: str | None = None
    cost: Mapping[str, Any] = field(default_factory=dict)
    answered_by: str | None = None
    draft_id: str | None = None
    is_repeat: bool = False  # of a step that came already, and may come as often as it likes
    is_silent: bool = False  # nothing of its answer reached the agent
    beside: str | None = None  # the rule by which it goes on beside what the agent does
    within: tuple[Entry, ...] = ()  # steps that were part of its answer, as they were recorded
    edited: Edited | None = None  # what an approver made of it: its answer is the answer
    # Tells who keeps the record that an answer cannot be given: where it differs, and how.
    departed: Callable[[str | None, Any, Any], Departed] = field(default=_departed, compare=False)
    # Whether a body that streamed by may be the recorded one.
    is_same_body: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] = field(
        default=is_same_body, compare=False
    )
    # Whether a message of a WebSocket may be the recorded one; and returns when all that was
    # answered before a record of the earlier run has been answered again. Raises Departed.
    is_same_text: Callable[[str, str], bool] = field(default=str.__eq__, compare=False)
    until: Callable[[int], Awaitable[None]] = field(default=_at_once, compare=False)
    # The same before the end of an answer; and what came before has been taken.
    until_end: Callable[[int], Awaitable[None]] = field(default=_at_once, compare=False)
    wait_s: float = field(default=10.0, compare=False)  # for a message of the agent
    # Reads the pieces of an answer that is too long to be one value, one after the other.
    pieces: tuple[Callable[[], bytes], ...] = field(default=(), compare=False)
    # The credentials among the headers of an answer, which the journal does not show.
    unsealed: Callable[[], list[tuple[str, str]]] = field(default=_nothing_sealed, compare=False)

    @property
    def source(self) -> dict[str, Any]:
        """For the journal: where the answer comes from."""
        source = {"run": self.run, "step": self.step}
        return source if self.beside is None else {**source, "beside": self.beside}

    @property
    def edits(self) -> tuple[Edited, ...]:
        """What approvers made of it, one after the other."""
        return () if self.edited is None else (self.edited, *self.edited.met.edits)

    @property
    def last(self) -> Met:
        """Whose answer the agent got."""
        return self.edits[-1].met if self.edits else self

    def because(self, decided_by: str, why: str) -> Met:
        """What goes on beside, and its door refuses now: for the reason that there is now."""
        if self.beside is None:
            return self
        decision = replace(self.decision, verdict=Verdict.BLOCK, decided_by=decided_by, why=why)
        return replace(self, decision=decision, error=why)


@dataclass(frozen=True, slots=True)
class Edited:
    """A recorded step that no agent proposed: an approver had made it of another one."""

    action: Action
    met: Met
    entries: tuple[Entry, ...]  # its proposal and its decision


class Past(Protocol):
    """What stands before the rules while an earlier run is lived through again."""

    async def meet(self, action: Action) -> Met | None:
        """The recorded step; None from the moment on at which things are live. May wait for others
        whose turn comes first. What goes on beside may have no step: then it is a repeat of step 0.
        Raises Departed."""
        ...

    def refused(self, action: Action) -> Met | None:
        """The same for what a door refuses by itself: it only has to be known. Raises Departed."""
        ...

    def has_request(self, request: Action) -> bool:
        """Return whether the record has requests like this one as steps around questions to a
        model."""
        ...

    def needs_body(self, request: Action) -> bool:
        """Return whether the record has several requests with one head and different bodies at this
        endpoint, so that only the body tells which of them this is."""
        ...

    async def turn(self, met: Met) -> None:
        """Returns when the answer of this step may go out: answers come in their recorded order.
        Raises Departed."""
        ...

    def over(self, met: Met) -> None:
        """The answer has gone out."""
        ...
