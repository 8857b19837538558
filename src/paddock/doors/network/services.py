"""What all connections of one sandbox share: the gate, the servers, the secrets, the alerts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.doors.network.custody import Custody
from paddock.doors.network.upstreams import Upstreams
from paddock.gate.gate import Gate
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Decision, Outcome, Receipt, Verdict
from paddock.policy.decide import Policy

_UNKNOWN_STEP = 0

# The alerts of the door.
DENIED = "egress.denied"
MISMATCH = "egress.mismatch"
MALFORMED = "egress.malformed"
REBINDING = "egress.rebinding"
MISPLACED = "secret.misplaced"
EXHAUSTED = "door.exhausted"


@dataclass(slots=True)
class Services:
    """One per door."""

    open_gate: Callable[[], Gate]
    upstreams: Upstreams
    custody: Custody
    policy: Callable[[], Policy]

    def gate(self) -> Gate:
        """Raises JournalBroken or OSError: what cannot be recorded is not done."""
        return self.open_gate()

    def refuse(self, action: Action, decided_by: str, why: str) -> Receipt:
        """A no of the door's own. It holds even when it cannot be written down."""
        try:
            return self.gate().refuse(action, decided_by, why)
        except (JournalBroken, OSError) as error:
            decision = Decision(Verdict.BLOCK, decided_by, why, action.effect)
            return Receipt(Outcome.REFUSED, _UNKNOWN_STEP, error=why, decision=decision,
                           exception=error)  # fmt: skip

    def stop(
        self, action: Action, decided_by: str, why: str, alert: str, about: Mapping[str, Any]
    ) -> Receipt:
        """A no that somebody should hear of."""
        receipt = self.refuse(action, decided_by, why)
        self.alert(alert, about, receipt.step)
        return receipt

    def alert(self, name: str, about: Mapping[str, Any], step: int | None = None) -> None:
        """Tells whoever watches. The refusal does not depend on it."""
        with contextlib.suppress(JournalBroken, OSError):
            self.gate().alerts.raised(name, about, step or None)

    def is_staged(self, host: str) -> bool:
        """Whether the file says where this name is dialled; what is between is its author's."""
        return host in self.upstreams.dialer.network.hosts

    def note(self, body: Mapping[str, Any], step: int | None = None) -> None:
        with contextlib.suppress(JournalBroken, OSError):
            self.gate().note(body, step)
