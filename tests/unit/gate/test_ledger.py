"""Limits over all processes: what is proposed or running counts, and a crash leaves it spent."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import pytest

from paddock.gate.approvals import Approval
from paddock.gate.ledger import Accounts, Ledger, PastAction
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from paddock.model.action import Action, Kind, Outcome
from paddock.policy.decide import Charge, Policy
from paddock.policy.file import load
from unit.gate.conftest import Opener
from unit.gate.gates import Tool, answered, finished, python

BUDGET = """\
version: 1
agent: spender
stage: broad
tools: {{spend: {{effect: write}}}}
rules:
  - id: budget
    match: {{kind: tool, name: spend}}
    limit: {{sum: args.amount, max: {most}, per: {per}}}
    decide: {decide}
approvals: {{timeout: 20s}}
"""

SPENDER = """
import asyncio, sys, time
from pathlib import Path
from paddock.gate.executors import Done
from paddock.journal.integrity.keys import SigningKey
from paddock.model.action import Action
from paddock.model.action import Kind
from unit.gate.gates import make_gate

home, name, text, how = Path(sys.argv[1]), sys.argv[3], sys.argv[4], sys.argv[5]
gate = make_gate(home, SigningKey.open(Path(sys.argv[2])), text, run=name)

async def live(action):
    if how == "hold":
        print("began", flush=True)
        while not (home / "go").exists():
            await asyncio.sleep(0.02)
    elif how == "die":
        import os
        os._exit(9)
    return Done()

async def spend(times):
    for _ in range(times):
        receipt = await gate.cross(Action(Kind.TOOL, "spend", {"amount": 3}), live)
        print(receipt.outcome, flush=True)

asyncio.run(spend(10 if how == "loop" else 1))
"""


def spend(amount: int) -> Action:
    return Action(Kind.TOOL, "spend", {"amount": amount})


def budget(most: int, per: str = "24h", decide: str = "block") -> str:
    return BUDGET.format(most=most, per=per, decide=decide)


def spender(home: Path, key: SigningKey, name: str, text: str, how: str) -> subprocess.Popen[str]:
    return python(SPENDER, home, key.directory, name, text, how)


def test_eight_processes_together_never_exceed_a_budget(tmp_path: Path, key: SigningKey) -> None:
    GateStore(tmp_path / "gate.sqlite").close()
    text = budget(100)
    all_of_them = [spender(tmp_path, key, f"run-{n}", text, "loop") for n in range(8)]
    said = "".join(map(finished, all_of_them)).split()
    assert len(said) == 80
    assert said.count("done") == 33  # times 3 is 99, and one more would be too much
    assert said.count("refused") == 47


RESERVER = """
import sys; from pathlib import Path
from paddock.gate.ledger import Ledger
from paddock.gate.store import GateStore
from paddock.policy.decide import Charge
ledger = Ledger(GateStore(Path(sys.argv[1])), "agent", sys.argv[2])
sys.stdin.readline()
print(*(ledger.reserve([Charge("r", 1, 3600.0)]).spent["r"] for _ in range(200)))
"""


def test_no_two_reservations_see_the_same_amount_spent(store: GateStore, tmp_path: Path) -> None:
    all_of_them = [
        python(RESERVER, tmp_path / "gate.sqlite", f"run-{n}", stdin=subprocess.PIPE)
        for n in range(4)
    ]
    for one in all_of_them:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    seen = sorted(int(word) for one in all_of_them for word in finished(one).split())
    assert seen == list(range(800))


def test_what_is_still_running_counts(tmp_path: Path, key: SigningKey) -> None:
    GateStore(tmp_path / "gate.sqlite").close()
    all_of_them = [spender(tmp_path, key, f"run-{n}", budget(10), "hold") for n in range(8)]
    first = [one.stdout.readline().strip() for one in all_of_them if one.stdout]
    assert sorted(first) == ["began"] * 3 + ["refused"] * 5  # while nothing has finished
    (tmp_path / "go").touch()
    rest = "".join(map(finished, all_of_them)).split()
    assert rest == ["done"] * 3


def test_crash_between_reserving_and_settling_leaves_it_spent(
    tmp_path: Path, key: SigningKey
) -> None:
    GateStore(tmp_path / "gate.sqlite").close()
    text = budget(5)
    dying = spender(tmp_path, key, "run-1", text, "die")
    dying.communicate(timeout=60)
    assert dying.returncode == 9
    assert finished(spender(tmp_path, key, "run-2", text, "once")).split() == ["refused"]


def test_question_that_waits_counts_and_a_no_gives_it_back(opener: Opener) -> None:
    gate, tool = opener(budget(10, decide="ask")), Tool()

    def deny(one: Approval) -> None:
        assert gate.accounts.real.reserve([Charge("budget", 0, 86400.0)]).spent == {"budget": 11}
        gate.approvals.deny(one.approval_id, "ann")

    asyncio.run(answered(gate, gate.cross(spend(11), tool), deny))
    assert tool.calls == []
    assert asyncio.run(gate.cross(spend(10), tool)).outcome is Outcome.DONE


def test_refused_call_gives_back_and_failed_call_does_not(opener: Opener) -> None:
    gate = opener(budget(10))
    assert asyncio.run(gate.cross(spend(11), Tool())).outcome is Outcome.REFUSED
    assert asyncio.run(gate.cross(spend(6), Tool(error=OSError("half done")))).outcome is (
        Outcome.FAILED
    )
    assert asyncio.run(gate.cross(spend(5), Tool())).outcome is Outcome.REFUSED
    assert asyncio.run(gate.cross(spend(4), Tool())).outcome is Outcome.DONE


def test_cancelled_call_stays_spent(opener: Opener) -> None:
    gate = opener(budget(10))

    async def cross() -> None:
        began = asyncio.Event()

        async def live(action: Action) -> None:
            began.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(gate.cross(spend(6), live))  # type: ignore[arg-type]
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await gate.cross(spend(5), Tool())).outcome is Outcome.REFUSED

    asyncio.run(cross())


@pytest.mark.parametrize(("per", "second"), [("run", Outcome.DONE), ("1h", Outcome.REFUSED)])
def test_limit_of_a_run_is_counted_for_the_run_and_a_window_for_the_agent(
    opener: Opener, per: str, second: Outcome
) -> None:
    for run, outcome in (("run-1", Outcome.DONE), ("run-2", second)):
        gate = opener(budget(10, per=per), run=run)
        assert asyncio.run(gate.cross(spend(6), Tool())).outcome is outcome
        assert asyncio.run(gate.cross(spend(6), Tool())).outcome is Outcome.REFUSED


def test_what_was_spent_before_the_window_is_forgotten(store: GateStore) -> None:
    ledger = Ledger(store, "agent", "run")
    ledger.reserve([Charge("r", 5, 60.0)])
    with store.writing() as connection:
        connection.execute("UPDATE spends SET at = ?", (time.time() - 61,))
    assert ledger.reserve([Charge("r", 1, 60.0)]).spent == {"r": 0}
    assert ledger.reserve([Charge("r", 1, 120.0)]).spent == {"r": 6}


def test_release_gives_back_exactly_its_own(store: GateStore) -> None:
    ledger = Ledger(store, "agent", "run")
    first = ledger.reserve([Charge("r", 5, None), Charge("s", 7, None)])
    ledger.reserve([Charge("r", 2, None)])
    ledger.release(first)
    ledger.release(first)
    seen = ledger.reserve([Charge("r", 0, None), Charge("s", 0, None)]).spent
    assert seen == {"r": 2, "s": 0}


def test_accounts_of_two_agents_are_apart(store: GateStore) -> None:
    Ledger(store, "a", "run-a").reserve([Charge("r", 5, 60.0)])
    assert Ledger(store, "b", "run-b").reserve([Charge("r", 1, 60.0)]).spent == {"r": 0}


COUNTED = """\
version: 1
agent: spender
stage: broad
tools: {spend: {effect: write}}
rules:
  - id: budget
    match: {kind: tool, name: spend}
    limit: {LIMIT}
    decide: block
"""
UNLIMITED = load("version: 1\nagent: spender\nstage: broad\ntools: {spend: {effect: write}}\n")


def limited(limit: str) -> Policy:
    return load(COUNTED.replace("LIMIT", limit))


class Fork:
    """The accounts of a fork that lived through what a run spent really, under one terms after
    the other."""

    def __init__(self, store: GateStore, *amounts: int) -> None:
        self._store = store
        self._actions = [spend(amount) for amount in amounts]
        self.accounts = Accounts(store, "spender", "fork")

    def past(self, terms: Policy) -> Fork:
        run = Accounts(self._store, "spender", "run")
        for action in self._actions:
            run.reserve(terms, action)
            self.accounts.count_again(terms, action, Outcome.DONE)
        self._terms = terms
        return self

    def come_under(self, terms: Policy) -> Fork:
        done = (PastAction(action, Outcome.DONE, self._terms) for action in self._actions)
        self.accounts.count_anew(terms, done)
        return self

    def spent(self, terms: Policy) -> int:
        """Before the next action, in this run or in this window."""
        held = self.accounts.reserve(terms, spend(0))
        self.accounts.release(held)
        return held.spent["budget"]


@pytest.mark.parametrize("per", ["run", "24h"])
def test_a_limit_that_only_a_fork_has_counts_what_its_past_spent(
    store: GateStore, per: str
) -> None:
    new = limited(f"count: 1, max: 2, per: {per}")
    assert Fork(store, 60, 60, 60).past(UNLIMITED).come_under(new).spent(new) == 3


@pytest.mark.parametrize("per", ["run", "24h"])
def test_a_limit_of_the_same_name_that_counts_something_else_counts_anew(
    store: GateStore, per: str
) -> None:
    old = limited("count: 1, max: 100, per: run")
    new = limited(f"sum: args.amount, max: 100, per: {per}")
    assert Fork(store, 60, 60, 60).past(old).come_under(new).spent(new) == 180


def test_what_the_earlier_run_paid_of_the_budget_of_its_agent_is_not_paid_twice(
    store: GateStore,
) -> None:
    old, new = (limited(f"sum: args.amount, max: {most}, per: 24h") for most in (100, 200))
    fork = Fork(store, 40, 20).past(old)
    assert fork.spent(old) == 60
    assert fork.come_under(new).spent(new) == 60
    of_run = limited("sum: args.amount, max: 100, per: run")
    assert fork.come_under(of_run).spent(of_run) == 60


def test_however_often_terms_change_the_past_counts_once(store: GateStore) -> None:
    first, second = limited("count: 1, max: 9, per: 24h"), limited("count: 1, max: 9, per: run")
    fork = Fork(store, 1, 1).past(UNLIMITED)
    for terms in (first, UNLIMITED, second, first):
        fork.come_under(terms)
    assert fork.spent(first) == fork.come_under(second).spent(second) == 2


def test_what_an_earlier_run_spent_counts_for_no_other_run_than_the_fork(
    store: GateStore,
) -> None:
    new = limited("count: 1, max: 2, per: 24h")
    Fork(store, 1, 1).past(UNLIMITED).come_under(new)
    other = Accounts(store, "spender", "other")
    assert other.reserve(new, spend(1)).spent == {"budget": 0}


WORLD = """\
version: 1
agent: spender
stage: broad
world: {api.stripe.com: payments}
rules:
  - id: budget
    match: {kind: http}
    limit: {count: 1, max: 5, per: PER}
    decide: block
"""


@pytest.mark.parametrize("outcome", [Outcome.SIMULATED, Outcome.FAILED])
@pytest.mark.parametrize("per", ["run", "24h"])
def test_what_was_spent_in_a_world_counts_anew_in_that_world_only(
    store: GateStore, per: str, outcome: Outcome
) -> None:
    terms = load(WORLD.replace("PER", per))
    words = {"host": "api.stripe.com", "port": 443, "method": "POST", "path": "/", "headers": {}}
    post = Action(Kind.HTTP, "POST api.stripe.com/", words)
    accounts = Accounts(store, "spender", "fork")
    accounts.count_again(terms, post, outcome)
    accounts.count_anew(terms, [PastAction(post, outcome, terms)] * 2)
    assert accounts.reserve(terms, post).spent == {"budget": 2}
    real = load(WORLD.replace("PER", per).replace("world: {api.stripe.com: payments}", ""))
    accounts.count_anew(real, [PastAction(post, outcome, terms)] * 2)
    assert accounts.reserve(real, post).spent == {"budget": 0}
