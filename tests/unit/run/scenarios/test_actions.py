"""Actions found among the steps of a run, by the words of rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.journal.log import RunLog
from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.model.events import ProgramStarted, Proposed, Record
from paddock.model.steps import Step
from paddock.policy.rules import Match
from paddock.run.scenarios.actions import RunAction, Search, read_actions
from paddock.run.scenarios.result import RunResult
from paddock.run.scenarios.terms import ActionTerms
from unit.run.recorded import Crossed, agent, begin, cross, post, record, refund, search


def proposed(step: int, kind: str, **arguments: Any) -> RunAction:
    name = str(arguments.get("program") or arguments.get("name") or kind)
    event = Proposed.of(Action(Kind(kind), name, arguments))
    return RunAction(Step(step, [Record(step, 5, step, event)]))


ACTIONS = (
    proposed(1, "exec", program="curl", argv=["curl"], cwd="/home/user"),
    proposed(2, "http", host="evil.example", method="GET", path="/", port=443),
    proposed(3, "connect", host="evil.example", port=443),
    proposed(4, "dns", name="evil.example"),
    proposed(5, "model", host="evil.example", model="gpt", provider="openai"),
    proposed(6, "exec", program="/usr/bin/curl", argv=["curl", "x"], cwd="/home/user"),
)


def found(**words: Any) -> list[int]:
    kinds = tuple(Kind(one) for one in words.pop("kinds", ()))
    fields = tuple((name, (value,)) for name, value in words.items())
    terms = ActionTerms({}, kinds, Match(fields))
    return [one.step for one in Search(terms).among(ACTIONS).found]


def test_without_a_kind_every_way_to_the_host_is_found() -> None:
    assert found(host="evil.example") == [2, 3, 4, 5]
    assert found(host="*.example") == [2, 3, 4, 5]
    assert found(host="example") == []


def test_with_a_kind_only_that_kind_is_found() -> None:
    assert found(kinds=["connect"], host="evil.example") == [3]


def test_the_agents_own_command_is_nothing_that_it_proposed() -> None:
    assert found(kinds=["exec"], program="curl") == [6]


def test_an_action_that_no_rule_can_be_compared_with_is_unclear_not_absent() -> None:
    odd = (proposed(2, "http", host="evil.example", method="GET", path="/a/../b"),)
    terms = ActionTerms({}, (Kind.HTTP,), Match((("path", ("/b",)),)))
    findings = Search(terms).among(odd)
    assert not findings.found
    assert findings.unclear[0][0].step == 2


def test_an_expression_that_fails_on_an_action_makes_it_unclear() -> None:
    terms = ActionTerms({}, (Kind.HTTP,), when="body.amount > 3")
    assert [one.step for one, _ in Search(terms).among(ACTIONS).unclear] == [2]


def test_programs_that_programs_start_are_found_and_the_steps_own_is_counted_once(
    tmp_path: Path,
) -> None:
    gate = begin(tmp_path, "r")
    shell = Action(
        Kind.EXEC, "sh", {"argv": ["sh", "-c", "x"], "cwd": "/", "program": "sh"}, Effect.WRITE,
        is_contained=True, parent=1,
    )  # fmt: skip
    cross(gate, [Crossed(agent("python", "agent.py")), Crossed(shell)])
    for words in (["sh", "-c", "x"], ["curl", "evil"], ["sh", "-c", "x"]):
        gate.observe(ProgramStarted(f"/usr/bin/{words[0]}", words, "/", pid=3), 2)
    gate.close("the agent ended")
    actions = tuple(read_actions(RunLog(tmp_path / "runs" / "r")))
    assert [(one.step, one.arguments["argv"][0], one.is_observed) for one in actions] == [
        (1, "python", False),
        (2, "sh", False),
        (2, "curl", True),
        (2, "sh", True),
    ]
    curl = actions[2]
    assert (curl.kind, curl.name, curl.effect, curl.parent) == ("exec", "/usr/bin/curl", "write", 1)
    assert curl.arguments == {"program": "/usr/bin/curl", "argv": ["curl", "evil"], "cwd": "/"}
    assert (curl.verdict, curl.outcome, curl.result, curl.error) == (None, None, None, None)


def test_an_action_says_what_was_proposed_decided_and_done(tmp_path: Path) -> None:
    cost = {"input_tokens": 3}
    crossed = [Crossed(agent("python")), Crossed(search("x"), result="two hits", cost=cost)]
    action = RunResult(record(tmp_path, "r", crossed)).steps[1]
    assert (action.step, action.kind, action.name) == (2, "tool", "search")
    assert (action.arguments, action.effect, action.parent) == ({"query": "x"}, "read", 1)
    assert (action.verdict, action.decided_by, action.outcome) == ("allow", "default", "done")
    assert (action.result, action.error, action.cost) == ("two hits", None, cost)
    assert (action.context, action.is_observed, action.why) == ({}, False, "Nothing forbids it.")


def test_actions_of_a_result_are_found_by_words(tmp_path: Path) -> None:
    crossed = [agent("python"), refund(5), refund(500), search("x"), post(amount=3)]
    result = RunResult(record(tmp_path, "r", [Crossed(one) for one in crossed]))
    assert [one.step for one in result.actions(kind="tool", name="refund")] == [2, 3]
    assert [one.step for one in result.actions(name="refund", decided="block")] == [3]
    assert [one.step for one in result.actions("http", method="POST", path="/v1/*")] == [5]
    assert [one.step for one in result.actions("tool", name="refund", when="args.amount > 9")] == [
        3
    ]
    assert result.actions("tool", name="refund", outcome=["refused"])[0].decided_by == (
        "no-large-refunds"
    )
    assert len(result.actions()) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"kind": "htp"}, "did you mean http"),
        ({"kind": "tool", "host": "x"}, "no action has host"),
        ({"kind": "tool", "when": "args.nothing > 9"}, "cannot be told of step"),
    ],
)
def test_words_that_find_nothing_by_mistake_are_refused(
    tmp_path: Path, words: dict[str, Any], said: str
) -> None:
    result = RunResult(record(tmp_path, "r", [Crossed(agent("python")), Crossed(refund(5))]))
    with pytest.raises(InvalidInput, match=said):
        result.actions(**words)
