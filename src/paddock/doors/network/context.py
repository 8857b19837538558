"""The parts of the door that all connections of one sandbox share: the gate, the connections to
servers, the secrets, the alerts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.doors.network.bodies.capture import Room
from paddock.doors.network.bodies.memory import BodyMemory
from paddock.doors.network.faults.stale_answers import StaleAnswers
from paddock.doors.network.heavy_work import HeavyWork
from paddock.doors.network.layers.pacer import Pacer
from paddock.doors.network.secrets.custody import Custody
from paddock.doors.network.transport.pool import ConnectionPool
from paddock.gate.alerts import EGRESS_DENIED
from paddock.gate.gate import Gate
from paddock.journal.errors import JournalBroken
from paddock.journal.secrets.seal import Sealer
from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.model.action import Action, Decision, Outcome, Receipt, Verdict
from paddock.model.events import AnyEvent
from paddock.policy.decide import Policy
from paddock.policy.graphql import GraphqlEndpoint
from paddock.world.world import StandIn, World

if TYPE_CHECKING:
    from paddock.doors.network.inside_api.calls import InsideCalls

_UNKNOWN_STEP = 0

# The alerts of the door.
DENIED = EGRESS_DENIED
MISMATCH = "egress.mismatch"
MALFORMED = "egress.malformed"
REBINDING = "egress.rebinding"
MISPLACED = "secret.misplaced"
EXHAUSTED = "door.exhausted"
STAND_IN = "world.failed"


class DoorContext(msgspec.Struct):
    """The collaborators of one door."""

    open_gate: Callable[[], Gate]
    pool: ConnectionPool
    custody: Custody
    policy: Callable[[], Policy]
    world: World | None = None
    pacer: Pacer | None = None  # without one, answers go out as they come
    stale: StaleAnswers = msgspec.field(default_factory=StaleAnswers)
    inside: InsideCalls | None = None  # what programs report, in a run
    room: Room = msgspec.field(default_factory=Room)  # for what answers say
    sealer: Sealer | None = None  # without one, credentials of answers are not kept
    sealed_for: str | None = None  # the run for which seals hold; this one where nothing is said
    held: BodyMemory = msgspec.field(default_factory=BodyMemory)  # of requests
    keyed: ValueHmac | None = None  # without one, credentials of requests cannot be compared

    @property
    def latest_prompt(self) -> str | None:
        """Return the version of the prompt that the agent reported last."""
        return None if self.inside is None else self.inside.latest_prompt

    @property
    def work(self) -> HeavyWork:
        return self.custody.work

    @property
    def graphql(self) -> tuple[GraphqlEndpoint, ...]:
        """The endpoints that the paddock file declares to be GraphQL."""
        network = self.policy().network
        return () if network is None else network.graphql

    def stand_in(self, host: str, port: int) -> StandIn | None:
        """Return the stand-in that answers at this host and port, or None."""
        network, terms = self.policy().network, self.policy().world
        if self.world is None or network is None or terms is None:
            return None
        where = network.stand_in(host, port)
        return None if where is None else self.world.get(terms.at(where).place)

    @property
    def position(self) -> int:
        """Return the number of the journal's last record; -1 where nothing can be recorded."""
        try:
            return self.open_gate().records.journal.position
        except (JournalBroken, OSError):
            return -1

    def gate(self) -> Gate:
        """Return the gate. Raises JournalBroken or OSError: what cannot be recorded is not done."""
        return self.open_gate()

    def refuse(self, action: Action, decided_by: str, why: str) -> Receipt:
        """Refuse an action by the door's own decision. The refusal holds even when it cannot be
        recorded."""
        try:
            return self.gate().refuse(action, decided_by, why)
        except (JournalBroken, OSError) as error:
            decision = Decision(Verdict.BLOCK, decided_by, why, action.effect)
            return Receipt(Outcome.REFUSED, _UNKNOWN_STEP, error=why, decision=decision,
                           exception=error)  # fmt: skip

    def stop(
        self, action: Action, decided_by: str, why: str, alert: str, about: Mapping[str, Any]
    ) -> Receipt:
        """Refuse an action and raise an alert."""
        receipt = self.refuse(action, decided_by, why)
        self.alert(alert, about, receipt.step)
        return receipt

    def alert(self, name: str, about: Mapping[str, Any], step: int | None = None) -> None:
        """Raise an alert. The refusal does not depend on it."""
        with contextlib.suppress(JournalBroken, OSError):
            self.gate().alerts.raised(name, about, step or None)

    def alert_misplaced(self, secret: str, host: str, port: int, step: int | None) -> None:
        """Tell that the placeholder of a secret was on its way to a host that it is not for."""
        self.alert(MISPLACED, {"secret": secret, "host": host, "port": port}, step)

    def is_staged(self, host: str) -> bool:
        """Return whether the file says where this name is dialled. The network between is its
        author's."""
        return host in self.pool.dialer.network.hosts

    def record(self, event: AnyEvent, step: int | None = None) -> None:
        """Record an event if that is possible; nothing depends on it."""
        with contextlib.suppress(JournalBroken, OSError):
            self.gate().record(event, step)
