"""The errors that a plain Python caller of a tool gets. For an agent the same things are values."""

from __future__ import annotations

from paddock.model.action import Outcome
from paddock.model.errors import PaddockError


class ToolError(PaddockError):
    """A call of a tool failed. What the tool itself raised is the cause."""

    def __init__(
        self, message: str, *, outcome: Outcome | None = None, step: int | None = None
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.step = step


class InvalidArguments(ToolError):
    """The arguments do not fit the tool. Nothing was decided and nothing was done."""


class ToolRefused(ToolError):
    """The call did not happen. The message says why."""


class ToolDrafted(ToolRefused):
    """The call was kept as a draft for a person, and did not happen yet."""

    def __init__(self, message: str, *, draft_id: str | None, step: int | None = None) -> None:
        super().__init__(message, outcome=Outcome.DRAFTED, step=step)
        self.draft_id = draft_id
