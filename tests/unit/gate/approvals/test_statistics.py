"""What the questions of each rule came to."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from paddock.gate.approvals import Approvals
from paddock.gate.approvals.statistics import rule_statistics
from paddock.gate.store import GateStore
from paddock.model.action import Decision, RuleHit, Verdict
from unit.gate.approvals.test_questions import ASKS, question


def asks(*rules: str) -> Decision:
    return replace(ASKS, hits=tuple(RuleHit(rule, Verdict.ASK, "") for rule in rules))


def test_nothing_asked_gives_nothing(approvals: Approvals) -> None:
    assert rule_statistics(approvals) == []


def test_answers_are_counted_for_each_rule_that_asked(approvals: Approvals) -> None:
    for answer in ("approve", "approve", "approve", "edit", "deny", "expire", "withdraw", "none"):
        one = approvals.ask(question(decision=asks("a", "b") if answer == "deny" else asks("a")))
        if answer in ("approve", "deny"):
            getattr(approvals, answer)(one.approval_id, "ann")
        elif answer == "edit":
            approvals.edit(one.approval_id, "ann", {})
        elif answer != "none":
            getattr(approvals, answer)(one.approval_id)
    first, second = rule_statistics(approvals)
    assert (first.rule, first.asked) == ("a", 8)
    assert (first.approved, first.edited, first.denied) == (3, 1, 1)
    assert (first.expired, first.withdrawn, first.pending) == (1, 1, 1)
    assert first.false_alarms == pytest.approx(3 / 5)
    assert (second.rule, second.asked, second.false_alarms) == ("b", 1, 0.0)


def test_without_an_answer_there_is_no_share_and_no_wait(approvals: Approvals) -> None:
    one = approvals.ask(question())
    approvals.expire(one.approval_id)
    (found,) = rule_statistics(approvals)
    assert (found.false_alarms, found.median_wait_s, found.expired) == (None, None, 1)


def test_wait_is_the_median_of_what_people_took(approvals: Approvals, store: GateStore) -> None:
    for waited_s in (1.0, 5.0, 100.0):
        one = approvals.approve(approvals.ask(question()).approval_id, "ann")
        with store.writing() as connection:
            connection.execute(
                "UPDATE approvals SET answered_at = asked_at + ? WHERE id = ?",
                (waited_s, one.approval_id),
            )
    approvals.expire(approvals.ask(question()).approval_id)
    (found,) = rule_statistics(approvals)
    assert found.median_wait_s == pytest.approx(5.0)


def test_window_and_agent_leave_the_others_out(approvals: Approvals, store: GateStore) -> None:
    old = approvals.ask(question())
    with store.writing() as connection:
        connection.execute(
            "UPDATE approvals SET asked_at = ? WHERE id = ?",
            (time.time() - 3600, old.approval_id),
        )
    approvals.ask(question(agent="other"))
    assert sum(one.asked for one in rule_statistics(approvals)) == 2
    assert sum(one.asked for one in rule_statistics(approvals, window_s=60)) == 1
    assert sum(one.asked for one in rule_statistics(approvals, agent="other")) == 1
    assert rule_statistics(approvals, agent="other", window_s=60)[0].asked == 1
    assert rule_statistics(approvals, agent="nobody") == []


def test_question_that_is_past_its_time_counts_as_expired(approvals: Approvals) -> None:
    approvals.ask(question(timeout_s=0.0))
    (found,) = rule_statistics(approvals)
    assert (found.expired, found.pending) == (1, 0)


def test_stage_that_asks_is_counted_by_its_name(approvals: Approvals) -> None:
    approvals.ask(question(decision=replace(ASKS, decided_by="stage:approve", hits=())))
    assert [one.rule for one in rule_statistics(approvals)] == ["stage:approve"]


def test_damaged_row_is_counted_and_not_left_out(approvals: Approvals, store: GateStore) -> None:
    approvals.deny(approvals.ask(question()).approval_id, "ann")
    with store.writing() as connection:
        connection.execute("UPDATE approvals SET content = '{'")
    assert [one.rule for one in rule_statistics(approvals)] == ["unknown"]
