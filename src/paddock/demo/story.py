"""The story: a run in which something bad gets through, a fork at that step under better terms,
both side by side, and the run once more, exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from paddock.demo.narrator import Narrator, StoryMoment
from paddock.demo.person import DemoPerson
from paddock.demo.project import PAGE
from paddock.model.errors import SandboxError

if TYPE_CHECKING:
    from paddock.run.compare.comparison import Comparison
    from paddock.run.session import FinishedRun

SEED = 7  # the same ids in every demo
TIMEOUT_S = 120.0
LOOSE_CENTS, TIGHT_CENTS = 100_000, 20_000
FIX = f"rules.1.limit.max={TIGHT_CENTS}"
ATTACKED = "ch_kim_7731"  # the charge that a ticket wants back, and nobody owes
Tell = Callable[[StoryMoment], None]


class Played(msgspec.Struct, frozen=True):
    """One run of the story, and what was told of it."""

    ended: FinishedRun
    narrator: Narrator

    @property
    def run(self) -> str:
        return self.ended.run

    @property
    def steps(self) -> int:
        from paddock.run.report import report_of

        return report_of(self.ended.directory).steps

    @property
    def refunded_cents(self) -> int:
        """All money that went back, by the books of the stand-in."""
        from paddock.run.compare.ends import money_moved
        from paddock.run.compare.trail import read_trail

        return sum(money_moved(read_trail(self.ended.directory)).values())


class Story:
    """The parts of the demo, in the order in which they are played. Each raises SandboxError when
    it did not come out as it should."""

    def __init__(self, directory: Path, tell: Tell, think_s: float = 0.0) -> None:
        self._directory = directory
        self._tell = tell
        self._think_s = think_s

    def work(self) -> Played:
        """The agent works the queue, under terms that are too loose."""
        from paddock.gate.approvals import Approvals
        from paddock.gate.run_gate import gate_store
        from paddock.run.order import order_of
        from paddock.run.session import run
        from paddock.state.home import Home

        order = order_of(
            [sys.executable, "agent.py"], cwd=self._directory, seed=SEED, timeout=TIMEOUT_S
        )
        with DemoPerson(Approvals(gate_store(Home.find())), self._think_s) as person:
            narrator = Narrator(self._tell, on_begin=person.begin)
            return _check(run(order, narrator), narrator)

    def bad_step(self, first: Played) -> int:
        """Return the step at which money first went to somebody who is not owed it."""
        for refund in first.narrator.refunds:
            if refund.charge == ATTACKED:
                return refund.step
        raise SandboxError("the demo: nothing bad happened, and that is wrong")

    def fork(self, first: Played, step: int) -> Played:
        """The same past, and from the bad step on the tighter terms."""
        from paddock.run.replay.fork import ForkOptions, fork

        narrator = Narrator(self._tell, is_fork=True)
        options = ForkOptions(step, sets=(FIX,))
        return _check(fork(first.ended.directory, options, watch=narrator)[0], narrator)

    def compare(self, first: Played, second: Played) -> tuple[Comparison, Path]:
        """Compare both runs, and write the page that shows them."""
        from paddock.run.compare.comparison import compare
        from paddock.run.compare.page import comparison_page

        comparison = compare([first.ended.directory, second.ended.directory])
        page = self._directory / PAGE
        page.write_text(comparison_page(comparison))
        return comparison, page

    def replay(self, first: Played) -> Played:
        """The agent's program once more, with everything from the record."""
        from paddock.run.replay.replay import replay

        narrator = Narrator(lambda _: None)
        return _check(replay(first.ended.directory, watch=narrator), narrator)


def _check(ended: FinishedRun, narrator: Narrator) -> Played:
    if ended.divergence is not None:
        raise SandboxError(f"the demo: {ended.divergence.text}", hint=f"paddock show {ended.run}")
    if ended.exit_code != 0:
        reason = ended.error or narrator.complaint.strip().rpartition("\n")[2] or ended.ended_by
        raise SandboxError(f"the demo's agent failed: {reason}", hint=f"paddock show {ended.run}")
    return Played(ended, narrator)
