"""One action on its way through the gate."""

from __future__ import annotations

from typing import NamedTuple

from paddock.gate.executors import Means
from paddock.gate.ledger import Reservation
from paddock.model.action import Action, Decision


class Crossing(NamedTuple):
    """What is known of it so far."""

    step: int
    action: Action
    decision: Decision
    reservation: Reservation
    position: int  # of its last record
    means: Means
    edits: int = 0
    answered_by: str | None = None
