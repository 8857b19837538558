"""Many who ask and many who answer, at once and in real processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from paddock.gate.approvals import Approval, Approvals, request
from paddock.journal.integrity.keys import SigningKey
from paddock.model.action import Outcome
from unit.gate.approvals.test_questions import question
from unit.gate.conftest import Opener
from unit.gate.gates import Tool, finished, python, refund

# Eight agents in one process, each with a run of its own; says what came of each.
EIGHT_AGENTS = """
import asyncio, json, sys
from pathlib import Path
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from unit.gate.gates import Tool, make_gate, refund

home, number = Path(sys.argv[1]), int(sys.argv[3])
key, store = SigningKey.open(Path(sys.argv[2])), GateStore(home / "gate.sqlite")

async def agent(n):
    gate, tool = make_gate(home, key, run=f"run-{n}", store=store), Tool()
    receipt = await gate.cross(refund(10_000 + n), tool)
    return [n, receipt.outcome, receipt.answered_by, tool.calls]

async def all_of_them():
    return await asyncio.gather(*(agent(number * 8 + n) for n in range(8)))

print(json.dumps(asyncio.run(all_of_them())))
"""


def test_32_agents_asking_at_once_each_get_their_own_answer(
    approvals: Approvals, tmp_path: Path, key: SigningKey
) -> None:
    agents = [python(EIGHT_AGENTS, tmp_path, key.directory, number) for number in range(4)]
    answered: dict[int, str] = {}

    async def answer() -> None:
        while any(agent.poll() is None for agent in agents):
            for one in approvals.all():
                answered.setdefault(*_answer(approvals, one))
            await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(answer(), 100))
    found = [row for agent in agents for row in json.loads(finished(agent))]
    assert sorted(row[0] for row in found) == list(range(32))
    for number, outcome, by, calls in found:
        if number % 3 == 0:
            assert (outcome, by) == ("done", f"approver-{number}")
            assert calls == [{"amount": 10_000 + number, "customer": "ada"}]
        else:
            assert (outcome, calls) == ("refused", [])
    assert len(answered) == 32


def _answer(approvals: Approvals, one: Approval) -> tuple[int, str]:
    number = one.content["arguments"]["amount"] - 10_000
    assert one.run == f"run-{number}"
    answer = approvals.approve if number % 3 == 0 else approvals.deny
    return number, answer(one.approval_id, f"approver-{number}").approval_id


# Answers whatever id comes in, as fast as it can, and says whether it was first.
RACER = """
import sys; from pathlib import Path
from paddock.gate.approvals import Approvals
from paddock.gate.store import GateStore
from paddock.model.errors import Conflict
approvals, name = Approvals(GateStore(Path(sys.argv[1]))), sys.argv[2]
print("ready", flush=True)
for line in sys.stdin:
    try:
        answer = approvals.approve if name == "ann" else approvals.deny
        print("won", answer(line.strip(), name).answered_by, flush=True)
    except Conflict as error:
        print("lost", error, flush=True)
"""


def test_two_approvers_racing_have_one_winner_and_the_other_is_told(
    approvals: Approvals, tmp_path: Path
) -> None:
    names = ("ann", "bob")
    racers = [
        python(RACER, tmp_path / "gate.sqlite", name, stdin=subprocess.PIPE) for name in names
    ]
    for racer in racers:
        assert _said(racer) == "ready"
    for number in range(50):
        one = approvals.ask(question())
        for racer in racers if number % 2 else reversed(racers):
            assert racer.stdin is not None
            racer.stdin.write(one.approval_id + "\n")
            racer.stdin.flush()
        said = dict(zip(names, map(_said, racers), strict=True))
        kept = approvals.get(one.approval_id)
        winner, loser = names if said["ann"].startswith("won") else names[::-1]
        assert said[winner] == f"won {winner}"
        assert said[loser].startswith("lost")
        assert f"{kept.state} already by {winner}" in said[loser]
        assert (kept.state, kept.answered_by) == (
            "approved" if winner == "ann" else "denied",
            winner,
        )
    for racer in racers:
        racer.communicate(timeout=30)


def _said(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().strip()


class Nods:
    """Says yes after a moment."""

    async def consider(self, approval: Approval, approvals: Approvals) -> None:
        await asyncio.sleep(0.05)
        approvals.approve(approval.approval_id, "nod")


class Raises:
    async def consider(self, approval: Approval, approvals: Approvals) -> None:
        raise RuntimeError("out of order")


class Waits:
    """Waits for ever, and notes that it was told to stop."""

    was_cancelled = False

    async def consider(self, approval: Approval, approvals: Approvals) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


class Clings:
    """Does not leave when it is told to."""

    async def consider(self, approval: Approval, approvals: Approvals) -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue


def test_approver_that_fails_does_not_answer_for_the_others(opener: Opener) -> None:
    tool, waits = Tool(), Waits()
    gate = opener(approvers=[Raises(), waits, Nods()])
    receipt = asyncio.run(gate.cross(refund(9000), tool))
    assert (receipt.outcome, receipt.answered_by) == (Outcome.DONE, "nod")
    assert waits.was_cancelled


def test_approver_that_does_not_leave_cannot_hold_the_run(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "_LEAVE_S", 0.1)
    gate = opener(approvers=[Clings(), Nods()])

    async def cross() -> Outcome:
        receipt = await asyncio.wait_for(gate.cross(refund(9000), Tool()), 30)
        return receipt.outcome

    assert asyncio.run(cross()) is Outcome.DONE


def test_only_approver_that_fails_means_no(opener: Opener) -> None:
    from unit.gate.gates import REFUNDS

    tool = Tool()
    gate = opener(REFUNDS.replace("30s", "1s"), approvers=[Raises()])
    assert asyncio.run(gate.cross(refund(9000), tool)).outcome is Outcome.REFUSED
    assert tool.calls == []


def test_login_name_is_the_accounts_and_not_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = request.login_name()
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "the-boss")
    assert request.login_name() == real != "the-boss"
