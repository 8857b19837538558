"""The gate of one sandbox, and its journal: opened by the first action, closed after the last.

Parts of a sandbox that come before its first action hold this object and ask for `gate` when they
need it. What cannot be recorded is not done, so asking may raise.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from paddock.doors.machine.guest import LocalGuest
from paddock.fence.offload import offload
from paddock.gate.alerts import RaisedAlert
from paddock.gate.gate import Gate
from paddock.gate.recorded_answers import RecordedAnswers
from paddock.gate.run_gate import approvers_for, open_gate
from paddock.gate.run_keys import run_keyed
from paddock.journal.errors import JournalBroken
from paddock.model.errors import Blocked, OutOfSpace
from paddock.model.events import Opened
from paddock.model.space import is_out_of_space
from paddock.policy.decide import Policy
from paddock.state.disk_space import full_disk
from paddock.state.home import Home

_SETTLE_S = 2.0  # a caller whose callback hangs is not waited for any longer


def _ignore(gate: Gate) -> None:
    """Take no notice that the gate is open."""


class Opening(msgspec.Struct, frozen=True):
    """The beginning of a sandbox's journal, and the source of its answers."""

    about: Opened | None = None  # of the run of an agent; the programs that it starts are steps
    kind: str | None = None  # of any other sandbox: the command that made it
    answers: RecordedAnswers | None = None
    on_open: Callable[[Gate], None] = _ignore  # told of the gate before anything crosses
    parent: str | None = None  # the sandbox that this one is a fork of
    fault_counts: Mapping[str, Any] | None = None  # how often that one has met each fault


class SandboxGate:
    """One per sandbox; runs on the engine's loop."""

    def __init__(
        self,
        home: Home,
        guest: LocalGuest,
        policy: Policy,
        opening: Opening,
        secret_values: Callable[[], Mapping[str, str]],
    ) -> None:
        """`secret_values` returns what the journal must not show."""
        self.policy = policy
        self.opening = opening
        self.home = home
        self._guest = guest
        self._secret_values = secret_values
        self._gate: Gate | None = None
        self._is_closed = False
        self._under_way = 0
        self._quiet = asyncio.Event()

    @property
    def is_run(self) -> bool:
        """Return whether an agent is at work, whose run can be replayed."""
        return self.opening.about is not None

    @property
    def root(self) -> str:
        """Return the first run of its lineage; itself, if it is no fork and no replay."""
        about = self.opening.about
        if about is None or about.lineage is None:
            return self._guest.sandbox_id
        return about.lineage.root

    @property
    def opened(self) -> Gate | None:
        """Return the gate if it was opened and its journal is not closed."""
        return None if self._is_closed else self._gate

    @property
    def gate(self) -> Gate:
        """Return the gate, opened when first needed."""
        if self._gate is None:
            sandbox_id = self._guest.sandbox_id
            self._gate = open_gate(
                self.home,
                sandbox_id,
                self.policy,
                about=self._about(),
                secrets=self._secret_values(),
                approvers=approvers_for(self.policy),
                answers=self.opening.answers,
            )
            self._gate.records.journal.failure_listeners.append(self._guest.fail)
            self._gate.records.keyed = run_keyed(self.home, sandbox_id, self.root)
            self.opening.on_open(self._gate)
            if self.opening.fault_counts is not None and self._gate.faults is not None:
                self._gate.faults.restore(self.opening.fault_counts)
        return self._gate

    def for_action(self) -> Gate:
        """Return the gate for an action of a caller. Raises Blocked if it cannot be recorded, and
        what says that the sandbox is paused, has ended or has no room."""
        _ = self._guest.channel  # an ended or paused sandbox says so, before anything is recorded
        try:
            return self.gate
        except OutOfSpace:
            raise
        except (JournalBroken, OSError) as error:
            if is_out_of_space(error):
                raise full_disk(self.home.root, error) from error
            raise Blocked(f"it could not be recorded, so it was not done: {error}") from error

    def _about(self) -> Opened:
        """Return what the first record says about the run."""
        guest, opening = self._guest, self.opening
        run = opening.about or Opened(guest.sandbox_id, self.policy.agent, kind=opening.kind)
        return msgspec.structs.replace(
            run,
            sandbox=guest.sandbox_id,
            template=guest.spec.template,
            enforcement=dict(guest.machine.enforcement),
            parent=opening.parent,
        )

    def fault_counts(self) -> Mapping[str, Any] | None:
        """Return how often each fault was met, for a fork, which goes on counting from there."""
        plan = None if self._gate is None else self._gate.faults
        return self.opening.fault_counts if plan is None else plan.counts()

    def change_policy(self, policy: Policy) -> None:
        """Decide by another policy from the next action on."""
        self.policy = policy
        if self._gate is not None:
            self._gate.change_policy(policy)

    def count_stored(self, size: int) -> None:
        """Count bytes that were stored for the run outside of its journal."""
        if self._gate is not None:
            self._gate.records.journal.budget.add(size)

    def alerts(self) -> list[RaisedAlert]:
        """Return the alerts so far."""
        return [] if self._gate is None else self._gate.alerts.all()

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Within this something goes on that has to settle before the journal is closed."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._quiet.set()

    async def close(self, why: str) -> None:
        """End the journal when what is under way has been settled; what comes later is refused."""
        deadline = time.monotonic() + _SETTLE_S
        while self._under_way and (left_s := deadline - time.monotonic()) > 0:
            self._quiet.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), left_s)
        gate, self._is_closed = self._gate, True
        if gate is not None:
            try:
                await offload(gate.close, why)
            except JournalBroken as failure:
                self._guest.fail(failure)
