"""Which policy a run was under at which step.

A fork has another policy than its past. Whoever replays it, or forks it further, changes the policy
at the same step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from paddock.policy.decide import Policy
from paddock.run.order import load_policy

if TYPE_CHECKING:
    from paddock.run.matching.recorded_step import RecordedStep
    from paddock.run.order import Order
    from paddock.run.replay.recorded_run import RecordedRun


class PolicyEpoch(msgspec.Struct, frozen=True):
    """A policy that holds from one step on."""

    at: int
    policy: Policy
    file: str | None = None  # what the policy was made from, for people


class PolicyHistory(msgspec.Struct, frozen=True):
    """The policy of each step."""

    first: Policy
    epochs: tuple[PolicyEpoch, ...] = ()

    @classmethod
    def of(cls, recorded: RecordedRun) -> PolicyHistory:
        """Return the policies that a recorded run was under. Each text is parsed once."""
        epochs = (
            PolicyEpoch(at, load_policy(source), source.name)
            for at, source in recorded.policy_changes
        )
        return cls(load_policy(recorded.configured.policy), tuple(epochs))

    def at(self, step: int) -> Policy:
        return [self.first, *(epoch.policy for epoch in self.epochs if epoch.at <= step)][-1]

    def since(self, step: int) -> tuple[Policy, ...]:
        """Return all policies from that step on."""
        return (self.at(step), *(epoch.policy for epoch in self.epochs if epoch.at > step))

    def order_at(self, order: Order, step: int) -> Order:
        """Return the order with the policy that the step was under."""
        for epoch in self.epochs:
            if epoch.at <= step:
                order = replace(order, policy=epoch.policy, file=epoch.file)
        return order


class PolicyEpochs:
    """The policies of a replayed run, changed when their step comes.

    `change(epoch, last_step)` puts a policy in force; `last_step` is the last step that counted
    under the policy before it.
    """

    def __init__(
        self,
        epochs: Iterable[PolicyEpoch],
        steps: Iterable[RecordedStep],
        change: Callable[[PolicyEpoch, int], Awaitable[None]],
    ) -> None:
        self._left = sorted(epochs, key=lambda epoch: epoch.at)
        # Whoever has been answered may act, so a policy changes before the last answer before its
        # step. Programs are not answered: between that answer and their step they are on record.
        self._open = {step.number for step in steps if step.is_candidate and not step.is_contained}
        self._last_step = 0
        self._change = change

    async def reach(self, step: int, *, is_answered: bool) -> None:
        """Apply the policy changes up to a step that has come, or that is about to be answered."""
        if is_answered:
            self._open.discard(step)
        before, self._last_step = self._last_step, max(self._last_step, step)
        while self._left and (self._left[0].at <= step or not self._awaits(self._left[0])):
            epoch = self._left.pop(0)
            await self._change(epoch, self._last_step if is_answered else before)

    def _awaits(self, epoch: PolicyEpoch) -> bool:
        return any(step < epoch.at for step in self._open)
