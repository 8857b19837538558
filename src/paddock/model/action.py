"""What an agent wants, what is decided about it, and what came of it. Values only.

An Action crosses the gate, a Decision says how, a Receipt is what the agent gets back. All three
are written to the journal as they are; nothing in them is computed later.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec


class Kind(enum.StrEnum):
    """Through which door an action comes."""

    EXEC = "exec"
    FILE = "file"
    CODE = "code"
    TOOL = "tool"
    HTTP = "http"
    CONNECT = "connect"
    DNS = "dns"
    MODEL = "model"


class Effect(enum.StrEnum):
    """The effect of an action on what it touches."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def is_write(self) -> bool:
        """True if something is different afterwards."""
        return self is not Effect.READ


class Verdict(enum.StrEnum):
    """The kinds of decisions, from the loosest to the strictest."""

    ALLOW = "allow"
    SIMULATE = "simulate"
    FAULT = "fault"
    ASK = "ask"
    BLOCK = "block"

    @property
    def strictness(self) -> int:
        """Two verdicts on one action: the one with the larger number holds."""
        return _STRICTNESS[self]


_STRICTNESS = {verdict: number for number, verdict in enumerate(Verdict)}


class Stage(enum.StrEnum):
    """The stages of trust. A stage is a ceiling: it can only tighten what rules grant."""

    OBSERVE = "observe"
    DRAFT = "draft"
    APPROVE = "approve"
    NARROW = "narrow"
    BROAD = "broad"


class Outcome(enum.StrEnum):
    """The outcome of an action."""

    DONE = "done"
    FAILED = "failed"  # it was carried out, and the answer is an error
    DRAFTED = "drafted"
    SIMULATED = "simulated"
    FAULTED = "faulted"
    REFUSED = "refused"  # it did not happen: blocked, denied, expired, or it could not be recorded


class Action(msgspec.Struct, frozen=True):
    """One thing that an agent wants to do. `arguments` is JSON; what rules see is exactly this.

    A contained action stays inside the fence (a file or a program of the sandbox): rules decide
    on it, the stage does not.
    """

    kind: Kind
    name: str
    arguments: Mapping[str, Any]
    effect: Effect = Effect.READ
    is_reversible: bool = True
    is_contained: bool = False
    parent: int | None = None  # the step that caused it
    step: int | None = None  # given by the gate
    context: Mapping[str, Any] = {}  # prompt version, model, tool call id
    # The arguments as the journal keeps them, where large parts of them are kept elsewhere.
    recorded: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        # Without what is recorded: it is masked only when it is written.
        return (
            f"Action(kind={self.kind!r}, name={self.name!r}, arguments={self.arguments!r}, "
            f"effect={self.effect!r}, is_reversible={self.is_reversible!r}, "
            f"is_contained={self.is_contained!r}, parent={self.parent!r}, step={self.step!r}, "
            f"context={self.context!r})"
        )

    def at(self, step: int) -> Action:
        """Return the same action as a step of a run."""
        return msgspec.structs.replace(self, step=step)


class RuleHit(msgspec.Struct, frozen=True):
    """A rule that matched an action, and what it wants."""

    rule_id: str
    verdict: Verdict
    why: str


class Decision(msgspec.Struct, frozen=True):
    """The decision about an action. `decided_by` is a rule's id, or `stage:draft`, `undeclared`,
    `default`, `error` where no rule of the file decided."""

    verdict: Verdict
    decided_by: str
    why: str
    effect: Effect  # as computed from the arguments, never looser than declared
    hits: tuple[RuleHit, ...] = ()
    is_draft: bool = False  # simulate by writing a draft
    fault: Mapping[str, Any] | None = None
    # What is done about an asked action once a person says yes. It need not be allow: another rule
    # may want it simulated, and in the stage draft a yes gives a draft.
    once_approved: Verdict = Verdict.ALLOW


class Receipt(msgspec.Struct, frozen=True):
    """The result that the agent gets back, and that the journal records for an action."""

    outcome: Outcome
    step: int
    result: Any = None
    error: str | None = None
    decision: Decision | None = None
    answered_by: str | None = None  # the person, for an action that was asked
    draft_id: str | None = None
    cost: Mapping[str, Any] = {}
    # As the executor raised it, for a caller in the same process. It is not written anywhere.
    exception: BaseException | None = None

    def __repr__(self) -> str:
        # Without the exception: nothing has masked what it says.
        return (
            f"Receipt(outcome={self.outcome!r}, step={self.step!r}, result={self.result!r}, "
            f"error={self.error!r}, decision={self.decision!r}, answered_by={self.answered_by!r}, "
            f"draft_id={self.draft_id!r}, cost={self.cost!r})"
        )

    @property
    def is_done(self) -> bool:
        """True if the real effect happened and went well."""
        return self.outcome is Outcome.DONE
