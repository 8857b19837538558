"""The cases of a scenario: each point of its matrix, by name."""

from __future__ import annotations

from pathlib import Path

from paddock.run.scenarios.scenario import Scenario, cases_of

PLAIN = Scenario("refund", ("python", "agent.py"), Path("/project"))


def with_matrix(**axes: tuple[object, ...]) -> Scenario:
    return Scenario("refund", PLAIN.agent, PLAIN.cwd, sets={"a": 1}, matrix=axes)


def test_a_scenario_without_a_matrix_is_one_case() -> None:
    (case,) = cases_of(PLAIN)
    assert (case.name, case.scenario, case.point) == ("refund", PLAIN, {})


def test_each_combination_is_a_case_in_the_order_of_the_file() -> None:
    cases = list(cases_of(with_matrix(seed=(1, 2), stage=("draft", "narrow"))))
    assert [case.name for case in cases] == [
        "refund [seed=1, stage=draft]",
        "refund [seed=1, stage=narrow]",
        "refund [seed=2, stage=draft]",
        "refund [seed=2, stage=narrow]",
    ]
    assert (cases[2].scenario.seed, cases[2].scenario.stage) == (2, "draft")
    assert not cases[0].scenario.matrix


def test_values_that_are_no_words_have_short_names() -> None:
    fault = {"id": "lost", "match": {"kind": "http"}, "fault": {"after": 504}}
    axes = with_matrix(
        faults=("none", "flaky", fault, [fault, {"set": "storm"}]),
        policy=(Path("/project/strict.yaml"),),
        agent=(("python", "other.py"),),
    )
    names = [case.point["faults"] for case in cases_of(axes)]
    assert names == ["none", "flaky", "lost", "lost+storm"]
    case = next(cases_of(axes))
    assert (case.point["policy"], case.point["agent"]) == ("strict.yaml", "python other.py")
    assert case.scenario.file == Path("/project/strict.yaml")
    assert case.scenario.agent == ("python", "other.py")


def test_what_an_axis_sets_is_laid_over_what_the_scenario_sets() -> None:
    cases = list(cases_of(with_matrix(set=({"b": 2}, {"a": 3}))))
    assert [case.scenario.sets for case in cases] == [{"a": 1, "b": 2}, {"a": 3}]
