"""One action on its way through the gate."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from paddock.gate.executors import Handlers
from paddock.gate.ledger import Reservation
from paddock.model.action import Action, Decision, Receipt


class Crossing(NamedTuple):
    """Everything that is known of an action on its way through the gate."""

    step: int
    action: Action
    decision: Decision
    reservation: Reservation
    position: int  # of its last record
    handlers: Handlers
    edits: int = 0
    answered_by: str | None = None


class StepObserver(Protocol):
    """Whoever records the state around each step, so that it can be restored."""

    async def before(self, action: Action) -> None:
        """Called when the action has been decided on and is not carried out yet."""
        ...

    def after(self, receipt: Receipt) -> None:
        """Called when the action has been settled."""
        ...
