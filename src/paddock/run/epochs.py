"""Under which terms a run was at which step. A fork has other terms than its past; whoever lives
through it again, in a replay or in a further fork, comes under them at the same step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paddock.gate.ledger import Deed
from paddock.model.values import dataclass
from paddock.policy.decide import Policy
from paddock.run.order import policy_in, policy_words

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.gate.gate import Gate
    from paddock.run.matching.rows import Row
    from paddock.run.order import Order
    from paddock.run.tape import Tape


@dataclass(frozen=True, slots=True)
class Epoch:
    """Terms that hold from one step on."""

    at: int
    policy: Policy
    file: str | None = None  # what the policy was made from, for people

    def as_note(self) -> dict[str, Any]:
        return {"what": "terms", "at": self.at, "policy": policy_words(self.policy, self.file)}


def epochs_of(tape: Tape) -> tuple[Epoch, ...]:
    """Those after the first, which are in the order of the run."""
    return tuple(Epoch(at, policy_in(words), words.get("name")) for at, words in tape.terms)


def order_at(order: Order, epochs: Iterable[Epoch], step: int) -> Order:
    """The order with the terms that the step was under."""
    for epoch in epochs:
        if epoch.at <= step:
            order = replace(order, policy=epoch.policy, file=epoch.file)
    return order


@dataclass(frozen=True, slots=True)
class Lived:
    """Under which terms each step was."""

    first: Policy
    epochs: tuple[Epoch, ...]

    def at(self, step: int) -> Policy:
        return [self.first, *(one.policy for one in self.epochs if one.at <= step)][-1]

    def since(self, step: int) -> tuple[Policy, ...]:
        """All terms from that step on."""
        return (self.at(step), *(one.policy for one in self.epochs if one.at > step))


def lived_under(tape: Tape) -> Lived:
    return Lived(policy_in(tape.setting.get("policy") or {}), epochs_of(tape))


class Epochs:
    """The terms of a run that is lived through again, changed when their step comes."""

    def __init__(self, epochs: Iterable[Epoch], rows: Iterable[Row]) -> None:
        self._left = sorted(epochs, key=lambda one: one.at)
        # Who has been answered may act, so other terms come before the last answer before them.
        # Programs are not answered: between that answer and their step they are on record.
        self._open = {row.step for row in rows if row.is_candidate and not row.is_contained}
        self._came = 0  # the last step that was counted under the terms before
        self.change: Callable[[Epoch, int], Awaitable[None]] | None = None

    async def come(self, step: int, *, is_answered: bool) -> None:
        """This step has come, or is about to be answered."""
        if is_answered:
            self._open.discard(step)
        came, self._came = self._came, max(self._came, step)
        while self._left and (self._left[0].at <= step or not self._awaits(self._left[0])):
            epoch = self._left.pop(0)
            assert self.change is not None
            await self.change(epoch, self._came if is_answered else came)

    def _awaits(self, epoch: Epoch) -> bool:
        return any(step < epoch.at for step in self._open)


async def change_terms(box: Box, gate: Gate, tape: Tape, epoch: Epoch, came: int) -> None:
    """The sandbox is under them from now on, and its journal says so. What came before counts for
    their limits, as they count."""
    before = gate.policy
    gate.note(epoch.as_note())
    if epoch.policy.digest == before.digest:
        return
    # An answer is on its way. Nothing of a past that is on record stays open but for requests.
    await box.network.change_terms(epoch.policy, cuts=False)
    lived, done = lived_under(tape), tape.done_before(min(epoch.at, came + 1))
    gate.count_past(Deed(action, outcome, lived.at(action.step or 0)) for action, outcome in done)
