"""When faults strike: by number, by chance that is no chance, and the same for the same run."""

from __future__ import annotations

import errno
import json
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.gate.executors import Fault
from paddock.gate.faults import (
    MAX_THINGS,
    FaultPlan,
    break_text,
    cut_at,
    error_of,
    fault_phases,
    spoiled_value,
    wait_of,
)
from paddock.model.action import Action, Effect, Kind
from paddock.policy.faults import FaultTerms, Strikes
from paddock.policy.rules import Match


def http(path: str = "/v1", method: str = "GET", host: str = "a.example", **more: Any) -> Action:
    effect = Effect.READ if method == "GET" else Effect.WRITE
    arguments = {"host": host, "port": 443, "method": method, "path": path, "query": "", **more}
    return Action(Kind.HTTP, f"{method} {host}", arguments, effect)


def fault(name: str = "x", strikes: Strikes | None = None, **more: Any) -> FaultTerms:
    said = {"kinds": (Kind.HTTP,), "options": {"status": 503}, "match": Match(), **more}
    return FaultTerms(name, strikes=strikes or Strikes(), **said)


def struck(plan: FaultPlan, actions: list[Action]) -> list[str | None]:
    found = [plan.strike(action, step) for step, action in enumerate(actions, 1)]
    return [None if words is None else words["id"] for words in found]


def test_what_strikes_brings_its_words_and_its_name() -> None:
    plan = FaultPlan([fault("slow", options={"delay": 2.0})])
    assert plan.strike(http(), 1) == {"id": "slow", "delay": 2.0}


def test_a_fault_strikes_what_it_matches_and_nothing_else() -> None:
    match = Match((("host", ("*.example",)), ("method", ("POST",))))
    plan = FaultPlan([fault(match=match, unless=Match((("path", ("/health",)),)))])
    actions = [http(method="POST"), http(), http(method="POST", host="b.test"),
               http("/health", "POST"), Action(Kind.TOOL, "POST", {})]  # fmt: skip
    assert struck(plan, actions) == ["x", None, None, None, None]


def test_when_sees_the_action_as_a_rule_does() -> None:
    plan = FaultPlan([fault(when="body.amount > 100")])
    bodies: list[Any] = [{"amount": 200}, {"amount": 5}, {"other": 1}, None]
    assert struck(plan, [http(body=body) for body in bodies]) == ["x", None, None, None]


def test_the_effect_is_the_one_that_was_computed() -> None:
    plan = FaultPlan([fault(match=Match((("effect", ("write",)),)))])
    assert plan.strike(http(), 1) is None
    assert plan.strike(http(), 2, Effect.WRITE) is not None


def test_of_several_that_strike_the_first_of_the_file_does() -> None:
    plan = FaultPlan([fault("first", Strikes(times=1)), fault("second"), fault("third")])
    assert struck(plan, [http()] * 3) == ["first", "second", "second"]


def test_what_was_not_struck_is_not_counted_as_a_strike() -> None:
    plan = FaultPlan([fault("all"), fault("once", Strikes(times=1))])
    struck(plan, [http()] * 5)
    assert plan.counts()["struck"] == {"all": 5}


def test_times_first_after_every_and_steps_count_matches() -> None:
    plan = FaultPlan([fault("x", Strikes(after=1, first=2)), fault("y", Strikes(steps=(1, 5)))])
    assert struck(plan, [http()] * 5) == ["y", "x", "x", None, "y"]


def test_a_rate_is_about_that_share() -> None:
    plan = FaultPlan([fault("x", Strikes(rate=0.3))], seed=7)
    found = struck(plan, [http(f"/{number}") for number in range(2000)])
    assert 500 < found.count("x") < 700


@given(st.permutations([f"/{number % 7}" for number in range(40)]), st.integers(0, 2**63))
def test_what_is_struck_does_not_depend_on_what_happens_between(
    order: list[str], seed: int
) -> None:
    """The k-th request for a path has its fate, whatever else there was before it."""

    def fates(paths: list[str]) -> dict[tuple[str, int], bool]:
        plan, seen = FaultPlan([fault("x", Strikes(rate=0.5))], seed), Counter[str]()
        found = {}
        for step, path in enumerate(paths):
            found[path, seen[path]] = plan.strike(http(path), step) is not None
            seen[path] += 1
        return found

    assert fates(order) == fates(sorted(order))


def test_another_seed_gives_other_faults_and_the_same_seed_the_same() -> None:
    def fates(seed: int, own: int | None = None) -> list[str | None]:
        plan = FaultPlan([fault("x", Strikes(rate=0.5, seed=own))], seed)
        return struck(plan, [http()] * 64)

    assert fates(1) == fates(1)
    assert fates(1) != fates(2)
    assert fates(1, own=9) == fates(2, own=9)


def test_two_faults_of_one_rate_do_not_strike_together() -> None:
    terms = [fault("x", Strikes(rate=0.5)), fault("y", Strikes(rate=0.5))]
    assert {"x", "y", None} == set(struck(FaultPlan(terms), [http()] * 64))


def test_a_try_with_other_arguments_is_the_next_try_of_the_same_thing() -> None:
    def fates(bodies: list[Any]) -> list[str | None]:
        plan = FaultPlan([fault("x", Strikes(rate=0.5))])
        return struck(plan, [http(body=body) for body in bodies])

    assert fates([{"key": 1}] * 40) == fates([{"key": number} for number in range(40)])


def test_a_fork_goes_on_where_the_run_was() -> None:
    terms = [fault("x", Strikes(rate=0.5)), fault("y", Strikes(times=3, after=2))]
    whole = struck(FaultPlan(terms, 3), [http()] * 40)
    before = FaultPlan(terms, 3)
    first = struck(before, [http()] * 15)
    fork = FaultPlan(terms, 3)
    fork.restore(json.loads(json.dumps(before.counts())))
    assert first + struck(fork, [http()] * 25) == whole
    assert struck(before, [http()] * 25) == whole[15:]


def test_threads_share_the_number_of_times() -> None:
    plan = FaultPlan([fault("x", Strikes(times=50))])
    found: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: found.extend(struck(plan, [http()] * 100)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count("x") == 50


def test_ever_new_paths_do_not_fill_the_memory() -> None:
    plan = FaultPlan([fault("x", Strikes(rate=0.001))])
    for number in range(MAX_THINGS + 10):
        plan._occurrence("x", str(number))
    assert len(plan.counts()["things"]) == MAX_THINGS


def test_an_action_that_cannot_be_matched_is_not_struck() -> None:
    plan = FaultPlan([fault(match=Match((("path", ("/**",)),)))])
    assert plan.strike(http("/a/../b"), 1) is None


def test_odd_values_are_things_as_well() -> None:
    plan = FaultPlan([fault("x", Strikes(rate=0.5))])
    assert plan.strike(Action(Kind.HTTP, "\ud800", {"path": object(), "host": b"x"}), 1) in (
        None,
        {"id": "x", "status": 503},
    )


def test_what_is_real_is_never_done_twice() -> None:
    plan = FaultPlan([fault("twice", options={"duplicate": True}), fault("other")])
    write = http(method="POST")
    assert plan.strike(write, 1, is_real=True) == {"id": "other", "status": 503}
    assert plan.strike(http(), 2, is_real=True) == {"id": "twice", "duplicate": True}
    assert plan.strike(write, 3) == {"id": "twice", "duplicate": True}


@for_each(
    ("words", "before", "effect", "answer", "is_instead"),
    [
        ({"delay": 1.0}, {"delay"}, set(), set(), False),
        ({"delay": 1.0, "status": 503, "error": "e"}, {"delay", "status", "error"}, set(), set(),
         True),
        ({"timeout": 3.0}, {"timeout"}, set(), set(), True),
        ({"after": "timeout", "timeout": 3.0}, set(), set(), {"after", "timeout"}, False),
        ({"after": 503, "retry_after": 1, "error": "e"}, set(), set(),
         {"after", "retry_after", "error"}, False),
        ({"delay": 1.0, "truncate": 3, "drip": 2}, {"delay"}, set(), {"truncate", "drip"}, False),
        ({"duplicate": True, "malformed": True}, set(), {"duplicate"}, {"malformed"}, False),
        ({"kill": 2.0}, set(), {"kill"}, set(), False),
        ({"stale": True}, set(), {"stale"}, set(), False),
        ({"disk_full": True}, {"disk_full"}, set(), set(), True),
    ],
)  # fmt: skip
def test_words_act_before_the_effect_on_it_or_on_its_answer(
    words: dict[str, Any], before: set[str], effect: set[str], answer: set[str], is_instead: bool
) -> None:
    split = fault_phases({"id": "x", **words})
    assert [set(part) for part in split] == [before, effect, answer]
    assert split.is_instead is is_instead


def test_waits_are_bounded() -> None:
    assert wait_of({"delay": 2.0, "timeout": 3.0}) == 5.0
    assert wait_of({"delay": 3600.0, "timeout": 3600.0}) == 3600.0
    assert wait_of({}) == 0.0


@for_each(
    ("words", "kind", "says"),
    [
        ({"reset": True}, ConnectionResetError, "reset by peer"),
        ({"after": "reset"}, ConnectionResetError, "reset by peer"),
        ({"timeout": 3.0}, TimeoutError, "timed out"),
        ({"after": "timeout"}, TimeoutError, "timed out"),
        ({"status": 404}, Fault, "HTTP 404"),
        ({"after": 503, "error": "down"}, Fault, "down"),
        ({"error": "no"}, Fault, "no"),
        ({"after": "error"}, Fault, "The service failed."),
    ],
)
def test_a_function_raises_what_the_real_one_would(
    words: dict[str, Any], kind: type[Exception], says: str
) -> None:
    error = error_of({"id": "x", **words})
    assert type(error) is kind
    assert says in str(error)


def test_a_full_disk_is_the_error_of_a_full_disk() -> None:
    error = error_of({"disk_full": True})
    assert isinstance(error, OSError)
    assert error.errno == errno.ENOSPC


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
                    lambda one: st.lists(one) | st.dictionaries(st.text(), one)))  # fmt: skip
def test_a_broken_text_is_never_json(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2) + "\n"):
        with pytest.raises(json.JSONDecodeError):
            json.loads(break_text(text))


@given(st.integers(0, 50) | st.floats(0.01, 0.99), st.integers(1, 100))
def test_what_is_cut_is_never_whole(truncate: int | float, length: int) -> None:
    assert 0 <= cut_at(truncate, length) < length


def test_a_result_is_spoiled_as_text_and_left_alone_otherwise() -> None:
    value = {"balance": 100}
    assert spoiled_value(value, {"wrong_type": "a/b"}) is value
    assert spoiled_value("0123456789", {"truncate": 0.5}) == "01234"
    assert spoiled_value(value, {"malformed": True}) == '{"balance": 100,}'
