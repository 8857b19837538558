"""What a world changes at the gate: nothing for actions that no stand-in answers."""

from __future__ import annotations

import asyncio

import pytest

from paddock.gate.approvals import Approval, Approvals
from paddock.gate.approvals.question_text import question_lines
from paddock.gate.executors import Done
from paddock.model.action import Action, Effect, Kind, Outcome, Receipt
from unit.gate.conftest import Opener

HEAD = """\
version: 1
agent: tester
stage: broad
network: {allow: ["real.example:443"]}
world: {fake.example: payments}
rules:
  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}
"""
LIMIT = """\
  - id: few
    match: {kind: http, method: POST}
    decide: block
    why: Two are enough.
    limit: {count: 1, max: 2, per: PER}
"""


def program(name: str) -> Action:
    words = {"program": f"/usr/bin/{name}", "argv": [name], "cwd": "/"}
    return Action(Kind.EXEC, name, words, Effect.WRITE, is_contained=True)


def post(host: str) -> Action:
    words = {"host": host, "port": 443, "method": "POST", "path": "/v1", "scheme": "https"}
    return Action(Kind.HTTP, host, words, Effect.WRITE)


@pytest.mark.parametrize("verdict", ["block", "ask", "fault"])
def test_a_rule_with_the_name_of_the_world_is_a_rule(opener: Opener, verdict: str) -> None:
    rule = f"  - {{id: world, match: {{kind: exec, program: '**/touch'}}, decide: {verdict}}}\n"
    gate = opener(HEAD + rule)
    assert not gate.lets_pass(program("touch"))
    assert gate.lets_pass(program("ls"))


def test_what_a_stand_in_answers_passes(opener: Opener) -> None:
    gate = opener(HEAD)
    assert gate.lets_pass(post("fake.example"))
    assert not gate.lets_pass(post("nowhere.example"))


def test_only_what_a_fault_is_about_has_to_cross_for_it(opener: Opener) -> None:
    faults = """\
faults:
  - {id: down, match: {kind: http, host: real.example}, fault: {status: 503}, every: 9}
  - {id: full, match: {kind: exec, program: "**/touch"}, fault: {disk_full: true}}
"""
    gate, plain = opener(HEAD + faults), opener(HEAD, run="run-2")
    assert plain.lets_pass(post("real.example"))
    assert not gate.lets_pass(post("real.example"))  # though it is the ninth that is struck
    assert gate.lets_pass(post("fake.example"))
    assert not gate.lets_pass(program("touch"))
    assert gate.lets_pass(program("ls"))
    assert gate.faults is not None and not gate.faults.counts()["matches"]


@pytest.mark.parametrize(("host", "is_stood_in"), [("fake.example", True), ("real.example", False)])
def test_person_is_told_whether_a_stand_in_answers(
    opener: Opener, host: str, is_stood_in: bool
) -> None:
    told = []

    class Reader:
        async def consider(self, approval: Approval, approvals: Approvals) -> None:
            told.append(" ".join(question_lines(approval)))
            approvals.deny(approval.approval_id, "ann", "")

    async def live(action: Action) -> Done:
        return Done()

    rule = "  - {id: ask, match: {kind: http, method: POST}, decide: ask}\n"
    gate = opener(HEAD + rule, approvers=(Reader(),))
    asyncio.run(gate.cross(post(host), live))
    assert ("a stand-in answers; nothing real happens" in told[0]) is is_stood_in
    assert ("be undone" in told[0]) is not is_stood_in


@pytest.mark.parametrize("per", ["run", "24h"])
def test_what_is_spent_in_a_world_leaves_the_real_budget_alone(opener: Opener, per: str) -> None:
    gate = opener(HEAD + LIMIT.replace("PER", per))

    async def done(action: Action) -> Done:
        return Done(value=1)

    async def simulated(action: Action) -> Done:
        return Done(value=1, outcome=Outcome.SIMULATED)

    def cross(host: str) -> Receipt:
        return asyncio.run(gate.cross(post(host), done, simulate=simulated))

    hosts = ["fake.example"] * 3 + ["real.example"] * 3
    outcomes = [cross(host).outcome for host in hosts]
    assert outcomes == [Outcome.SIMULATED, Outcome.SIMULATED, Outcome.REFUSED,
                        Outcome.DONE, Outcome.DONE, Outcome.REFUSED]  # fmt: skip
