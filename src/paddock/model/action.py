"""What an agent wants, what is decided about it, and what came of it. Values only.

An Action crosses the gate, a Decision says how, a Receipt is what the agent gets back. All three
are written to the journal as they are; nothing in them is computed later.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from paddock.model.values import dataclass


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
    """What an action does to what it touches."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def is_write(self) -> bool:
        """Whether something is different afterwards."""
        return self is not Effect.READ


class Verdict(enum.StrEnum):
    """How an action is answered, from the loosest to the strictest."""

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
    """How far an agent is trusted. A ceiling: it can only tighten what rules grant."""

    OBSERVE = "observe"
    DRAFT = "draft"
    APPROVE = "approve"
    NARROW = "narrow"
    BROAD = "broad"


class Outcome(enum.StrEnum):
    """What came of an action."""

    DONE = "done"
    FAILED = "failed"  # it was carried out, and the answer is an error
    DRAFTED = "drafted"
    SIMULATED = "simulated"
    FAULTED = "faulted"
    REFUSED = "refused"  # it did not happen: blocked, denied, expired, or it could not be recorded


@dataclass(frozen=True, slots=True)
class Action:
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
    context: Mapping[str, Any] = field(default_factory=dict)  # prompt version, model, tool call id
    # The arguments as the journal keeps them, where large parts of them are kept elsewhere.
    recorded: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def at(self, step: int) -> Action:
        """The same as a step of a run. Every action comes by here, and `replace` is slow."""
        return Action(
            self.kind,
            self.name,
            self.arguments,
            self.effect,
            self.is_reversible,
            self.is_contained,
            self.parent,
            step,
            self.context,
            self.recorded,
        )


@dataclass(frozen=True, slots=True)
class RuleHit:
    """A rule that matched an action, and what it wants."""

    rule_id: str
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about an action. `decided_by` is a rule's id, or `stage:draft`,
    `undeclared`, `default`, `error` where no rule of the file did it."""

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


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the agent gets back, and what the journal says came of an action."""

    outcome: Outcome
    step: int
    result: Any = None
    error: str | None = None
    decision: Decision | None = None
    answered_by: str | None = None  # the person, for an action that was asked
    draft_id: str | None = None
    cost: Mapping[str, Any] = field(default_factory=dict)
    # As the executor raised it, for a caller in the same process. It is not written anywhere.
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def is_done(self) -> bool:
        """Whether the real thing was done and went well."""
        return self.outcome is Outcome.DONE
