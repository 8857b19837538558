"""Runs against what was expected: each expectation fails when it should, and says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.model.events import Alert, WorldEnded
from paddock.run.scenarios.checks import Bar, FailedCheck, judge
from paddock.run.scenarios.expressions import world_condition
from paddock.run.scenarios.parser import scenario_of
from paddock.run.scenarios.result import RunResult
from unit.run.recorded import Crossed, agent, ask_model, post, record, refund, search

DONE = {"exit_code": 0, "stdout": "all done\n", "stderr": "a warning\n", "duration_us": 5}
ALERT = Alert("egress.denied", 1, {"host": "evil.example"})
WORLD = WorldEnded(digest="d")


def ran(
    tmp_path: Path, *crossed: Crossed, result: dict[str, Any] | None = DONE, **more: Any
) -> RunResult:
    first = Crossed(agent("python", "agent.py"), record=result)
    states = more.pop("states", {})
    return RunResult(record(tmp_path, "r", [first, *crossed], **more), world=states)


def judged(result: RunResult, **expect: Any) -> list[FailedCheck]:
    path = Path(__file__)
    terms = scenario_of({"name": "a", "agent": ["a"], "expect": expect}, path).expect
    conditions = tuple(world_condition(one, ["api.stripe.com"]) for one in terms.world)
    return judge(result, Bar(terms, conditions))


def the_one(failures: list[FailedCheck]) -> FailedCheck:
    assert len(failures) == 1, failures
    return failures[0]


def test_a_run_that_is_as_expected_has_no_failures(tmp_path: Path) -> None:
    result = ran(
        tmp_path,
        Crossed(post(amount=1200)),
        Crossed(ask_model("hi"), cost={"input_tokens": 5, "output_tokens": 5, "usd_micros": 9}),
        last=[WORLD],
        states={"api.stripe.com": {"refunds": [{"amount": 1200}]}},
    )
    assert not judged(
        result,
        exit=0,
        world="api.stripe.com.refunds.exists(r, r.amount == 1200)",
        actions={
            "must": [{"kind": "http", "host": "api.stripe.com", "count": 1}],
            "must_not": [{"host": "evil.example"}],
        },
        steps={"max": 3},
        cost={"max_usd": 0.01, "max_tokens": 10},
        verdicts={"bad": 0},
        alerts=[],
        invariants="hold",
        output={"contains": "all", "lacks": "Traceback", "matches": "^all", "equals": "all done\n"},
        errors={"contains": "warning"},
    )


def test_another_exit_status_is_told_with_the_last_line_of_stderr(tmp_path: Path) -> None:
    failed = {**DONE, "exit_code": 2, "stderr": "Traceback\nKeyError: 'x'\n\n"}
    one = the_one(judged(ran(tmp_path, result=failed)))
    assert (one.where, one.expected, one.step) == ("expect.exit", "exit 0", 1)
    assert one.found == "exit 2: KeyError: 'x'"
    assert one.look("abc") == "paddock show abc --step 1"


@pytest.mark.parametrize(("exits", "is_well"), [("any", True), ("nonzero", True), ([0, 3], False)])
def test_other_exit_statuses_may_be_expected(tmp_path: Path, exits: Any, is_well: bool) -> None:
    result = ran(tmp_path, result={**DONE, "exit_code": 2})
    assert (not judged(result, exit=exits)) is is_well


def test_a_run_without_an_end_fails_even_if_any_exit_is_expected(tmp_path: Path) -> None:
    one = the_one(judged(ran(tmp_path, result=None, is_closed=False), exit="any"))
    assert "did not end by itself" in one.found


def test_texts_say_what_is_there_instead(tmp_path: Path) -> None:
    found = judged(
        ran(tmp_path),
        output={"contains": ["done", "nope"], "lacks": "all", "matches": "x$", "equals": "all!\n"},
    )
    assert [one.where for one in found] == [
        "expect.output.contains",
        "expect.output.lacks",
        "expect.output.matches",
        "expect.output.equals",
    ]
    assert found[0].expected == "'nope' in it"
    assert "line 1 is 'all done', not 'all!'" in found[3].found


def test_what_a_terminal_would_obey_is_spelled_out(tmp_path: Path) -> None:
    result = ran(tmp_path, result={**DONE, "stdout": "\x1b[2J\x07evil\u202e"})
    one = the_one(judged(result, output={"contains": "x"}))
    assert "\x1b" not in one.found and "\u202e" not in one.found


def test_a_missing_action_says_what_came_instead(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(post("/v1/charges", amount=3)))
    words = {"kind": "http", "host": "api.stripe.com", "path": "/v1/refunds"}
    one = the_one(judged(result, actions={"must": [words]}))
    assert one.where == "expect.actions.must[0]"
    assert one.expected == "at least 1 of {kind: http, host: api.stripe.com, path: /v1/refunds}"
    assert "step 2 (POST api.stripe.com/v1/charges)" in one.found


def test_an_action_too_many_is_a_failure_at_its_step(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(refund(5)), Crossed(search("x")), Crossed(refund(6)))
    one = the_one(
        judged(result, actions={"must": [{"kind": "tool", "name": "refund", "count": 1}]})
    )
    assert (one.expected[:4], one.found[:2], one.step) == ("1 of", "2:", 4)


def test_an_unwanted_action_fails_even_if_it_was_blocked(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(refund(500)))
    one = the_one(judged(result, actions={"must_not": [{"kind": "tool", "name": "refund"}]}))
    assert one.step == 2
    assert "decided: block by no-large-refunds" in one.found


def test_only_unwanted_if_it_was_decided_so(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(refund(500)))
    words = {"kind": "tool", "name": "refund", "decided": "allow"}
    assert not judged(result, actions={"must_not": [words]})
    assert judged(result, actions={"must": [words]})


def test_an_unwanted_action_of_which_it_cannot_be_told_fails(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(post(amount=3)))
    words = {"kind": "http", "when": "body.nothing > 3"}
    one = the_one(judged(result, actions={"must_not": [words]}))
    assert "it cannot be told" in one.found
    one = the_one(judged(result, actions={"must": [words]}))
    assert "of step 2" in one.found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("api.stripe.com.refunds.exists(r, r.amount == 7)", "does not hold"),
        ("api.stripe.com.refnds.size() == 0", "cannot be told"),
        ("api.stripe.com.refunds[9].amount == 7", "cannot be told"),
    ],
)
def test_a_condition_on_the_world_that_is_not_met_shows_the_state(
    tmp_path: Path, condition: str, found: str
) -> None:
    states = {"api.stripe.com": {"refunds": [{"amount": 1200}]}}
    one = the_one(judged(ran(tmp_path, states=states), world=condition))
    assert found in one.found
    assert one.expected == condition
    assert one.look("abc") == "paddock world show abc"


def test_steps_are_counted_as_the_run_counts_them(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(search("a")), Crossed(search("b")))
    assert the_one(judged(result, steps={"max": 2})).found == "3"
    assert the_one(judged(result, steps={"min": 4})).found == "3"
    assert not judged(result, steps=3)


def test_cost_above_the_limit_fails(tmp_path: Path) -> None:
    cost = {"input_tokens": 90, "output_tokens": 10, "usd_micros": 60_000}
    result = ran(tmp_path, Crossed(ask_model("hi"), cost=cost))
    found = judged(result, cost={"max_usd": 0.05, "max_tokens": 99})
    assert [one.found for one in found] == ["100", "$0.06 for 1 call"]


def test_a_price_that_is_not_known_is_no_pass(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(ask_model("hi"), cost={"input_tokens": 9, "output_tokens": 1}))
    one = the_one(judged(result, cost={"max_usd": 100}))
    assert "the price of claude-x is not known" in one.found


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ([], ["no alerts", "egress.denied"]),
        ({"max": 0}, ["0 alerts", "1: egress.denied"]),
        (0, ["0 alerts"]),
        (["secret.misplaced", "egress.denied"], ["the alert secret.misplaced", "not raised"]),
        (["secret.misplaced"], ["no alerts but secret.misplaced"]),
    ],
)
def test_alerts_that_differ_fail(tmp_path: Path, expect: Any, words: list[str]) -> None:
    result = ran(tmp_path, Crossed(search("x"), after=[ALERT]))
    said = " ".join(f"{one.expected} {one.found}" for one in judged(result, alerts=expect))
    for word in words:
        assert word in said


def test_the_alert_that_is_expected_is_no_failure(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(search("x"), after=[ALERT]))
    assert not judged(result, alerts=["egress.denied"])
    assert not judged(result, alerts={"min": 1})


def test_a_broken_invariant_fails(tmp_path: Path) -> None:
    broken = WorldEnded("d", broken={"api.stripe.com": ["A refund is larger than its charge."]})
    one = the_one(judged(ran(tmp_path, last=[broken]), invariants="hold"))
    assert one.found == "api.stripe.com: A refund is larger than its charge."


def test_invariants_of_a_run_without_a_world_cannot_be_told(tmp_path: Path) -> None:
    assert "no world" in the_one(judged(ran(tmp_path), invariants="hold")).found


def test_verdicts_are_counted_by_name(tmp_path: Path) -> None:
    crossed = [Crossed(search("a")), Crossed(search("b"))]  # the fault strikes at step 3
    one = the_one(judged(ran(tmp_path, *crossed), verdicts={"gave_up": 0}))
    assert (one.where, one.step) == ("expect.verdicts.gave_up", 3)
    assert not judged(RunResult(tmp_path / "runs" / "r"), verdicts={"gave-up": 1, "bad": 0})


def test_faults_that_struck_nothing_fail_where_one_must(tmp_path: Path) -> None:
    one = the_one(judged(ran(tmp_path, Crossed(search("a"))), faults={"min": 1}))
    assert (one.where, one.found) == ("expect.faults", "no fault struck anything")
    assert one.look("r") == "paddock verdicts r"


def test_faults_that_struck_are_counted(tmp_path: Path) -> None:
    result = ran(tmp_path, Crossed(search("a")), Crossed(search("b")))  # it strikes at step 3
    assert not judged(result, faults={"min": 1})
    assert the_one(judged(result, faults=0)).found == "1: slow-search 1 time"


def test_files_that_were_not_recorded_are_no_pass(tmp_path: Path) -> None:
    one = the_one(judged(ran(tmp_path), files={"out.txt": {"exists": False}}))
    assert one.where == "expect.files"
