"""Whatever is changed in what was recorded or in what is proposed, a replay leaves the record at
that step. What is let pass is declared here by name."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from cases import for_each
from paddock.model.action import Kind
from paddock.policy.background import USUAL, background_rule
from paddock.run.matching.matcher import Matcher
from paddock.run.matching.recorded_step import (
    Background,
    DivergedBy,
    Early,
    MatchResult,
    Mismatch,
    StepMatch,
)
from paddock.run.matching.rules import STRICT, Rules
from unit.run.matching.mutations import Mutant, mutants
from unit.run.matching.samples import SAMPLES, Sent, http, proposed, recorded

DECLARED = {
    "the order of keys in JSON",
    "the version of HTTP",
    "a header that no server acts upon",
    "the number or the real file of a program",
    "1 as 1.0 where no bytes are sent",
    "what a client makes up",
}
# Of what goes on beside, the classes that make something else of it, and those that lead to another
# place, of which it gets no answer. Any other is let pass.
NOT_BESIDE = {"method", "host", "path"}
ELSEWHERE = {"scheme", "port", "the spelling of a path"}
BESIDE = Rules(beside=tuple(map(background_rule, (*USUAL, "POST traces.example/v1/traces"))))
TRACE = http(
    "POST",
    "/v1/traces",
    host="traces.example",
    query="batch=1",
    headers={"authorization": "Bearer ***", "x-tenant": "blue"},
    body={"spans": [{"id": "a", "took": 5}], "is_last": False},
    keyed={"headers.authorization": "ab" * 16},
)
BEFORE, AFTER = http(path="/before"), http(path="/after")
SIDES = ("recorded", "proposed")


@for_each("name", SAMPLES)
def test_unchanged_sample_matches(name: str) -> None:
    assert isinstance(_replayed(SAMPLES[name], SAMPLES[name]), StepMatch)


@for_each("name", SAMPLES)
def test_every_mutant_but_the_declared_diverges_at_its_step(name: str) -> None:
    survivors = Counter(
        f"{mutant.of}: {mutant.name} ({side})"
        for mutant, side, outcome in _outcomes(SAMPLES[name])
        if not _is_found(outcome) and mutant.of not in DECLARED
    )
    assert not survivors


@for_each("name", SAMPLES)
def test_no_further_mutant_is_let_pass_where_something_goes_on_beside(name: str) -> None:
    survivors = Counter(
        f"{mutant.of}: {mutant.name} ({side})"
        for mutant, side, outcome in _outcomes(SAMPLES[name], BESIDE)
        if not _is_found(outcome) and mutant.of not in DECLARED
    )
    assert not survivors


def test_of_what_goes_on_beside_every_mutant_of_its_place_is_found_and_no_other_is() -> None:
    for mutant, side, outcome in _outcomes(TRACE, BESIDE):
        of, said = _of(mutant), f"{mutant.of}: {mutant.name} ({side})"
        if of in NOT_BESIDE and side == "proposed":
            assert isinstance(outcome, Mismatch), said
        elif of in NOT_BESIDE | ELSEWHERE:
            assert isinstance(outcome, Background) and outcome.row is None, said
        else:
            assert isinstance(outcome, Background) and outcome.row is not None, said
            assert outcome.row.number == 2, said
    assert {_of(mutant) for mutant in mutants(TRACE)} > NOT_BESIDE | ELSEWHERE


def test_what_was_no_part_of_that_in_the_record_is_missed_when_it_is_now() -> None:
    for mutant in mutants(TRACE):
        rows = [recorded(mutant.sent, 1)]
        is_missed = bool(Matcher(rows, BESIDE).missing())
        assert is_missed == (_of(mutant) in NOT_BESIDE), f"{mutant.of}: {mutant.name}"


def _of(mutant: Mutant) -> str:
    """Rules read `/%61` as `/a`."""
    return "the spelling of a path" if mutant.name == "escaped" else mutant.of


@for_each("name", SAMPLES)
def test_every_declared_mutant_matches(name: str) -> None:
    """Otherwise the list says more than is true."""
    killed = [
        f"{mutant.of}: {mutant.name} ({side})"
        for mutant, side, outcome in _outcomes(SAMPLES[name])
        if mutant.of in DECLARED and not isinstance(outcome, StepMatch)
    ]
    assert not killed


def test_there_are_more_than_a_thousand_mutants_and_every_declared_class_occurs() -> None:
    of = [(mutant.of, name, mutant.name) for name in SAMPLES for mutant in mutants(SAMPLES[name])]
    assert len(set(of)) == len(of)
    assert len([one for one in of if one[0] not in DECLARED]) * len(SIDES) > 1000
    assert {one[0] for one in of} >= DECLARED


@for_each(("one", "other"), list(itertools.permutations(SAMPLES, 2)))
def test_no_sample_is_taken_for_another(one: str, other: str) -> None:
    assert _is_found(_replayed(SAMPLES[one], SAMPLES[other]))


@for_each("at", range(1, len(SAMPLES)))
def test_two_dependent_calls_that_change_places_diverge_by_order(at: int) -> None:
    calls = list(SAMPLES.values())
    swapped = [*calls[: at - 1], calls[at], calls[at - 1], *calls[at + 1 :]]
    diverged = _first_divergence(calls, swapped)
    assert (diverged.kind, diverged.step) == (DivergedBy.ORDER, at + 1)


@for_each("at", range(1, len(SAMPLES) + 1))
def test_a_call_that_is_left_out_is_found(at: int) -> None:
    calls = list(SAMPLES.values())
    diverged = _first_divergence(calls, [*calls[: at - 1], *calls[at:]])
    is_last = at == len(calls)
    expected = (DivergedBy.MISSING, at) if is_last else (DivergedBy.ORDER, at + 1)
    assert (diverged.kind, diverged.step) == expected


@for_each("at", range(1, len(SAMPLES) + 1))
def test_a_call_that_comes_twice_is_found_unless_it_asks_for_a_name(at: int) -> None:
    calls = list(SAMPLES.values())
    twice = [*calls[:at], *calls[at - 1 :]]
    if calls[at - 1].kind is Kind.DNS:
        with pytest.raises(_NoDivergence):
            _first_divergence(calls, twice)
        return
    diverged = _first_divergence(calls, twice)
    is_last = at == len(calls)
    expected = (DivergedBy.EXTRA, None) if is_last else (DivergedBy.CHANGED, at + 1)
    assert (diverged.kind, diverged.step) == expected


@for_each("at", range(len(SAMPLES) + 1))
def test_a_call_that_was_never_made_is_found_where_it_comes(at: int) -> None:
    calls = list(SAMPLES.values())
    more = [*calls[:at], http("DELETE", "/v1/everything"), *calls[at:]]
    diverged = _first_divergence(calls, more)
    is_last = at == len(calls)
    expected = (DivergedBy.EXTRA, None) if is_last else (DivergedBy.CHANGED, at + 1)
    assert (diverged.kind, diverged.step) == expected


def _outcomes(sample: Sent, rules: Rules = STRICT) -> Iterator[tuple[Mutant, str, MatchResult]]:
    for mutant in mutants(sample):
        yield mutant, "proposed", _replayed(sample, mutant.sent, rules)
        yield mutant, "recorded", _replayed(mutant.sent, sample, rules)


def _replayed(was: Sent, comes: Sent, rules: Rules = STRICT) -> MatchResult:
    """What comes as the second of three dependent steps."""
    rows = [recorded(one, step) for step, one in enumerate((BEFORE, was, AFTER), 1)]
    past = Matcher(rows, rules)
    first = past.propose(proposed(BEFORE))
    assert isinstance(first, StepMatch)
    past.answered(first.row)
    return past.propose(proposed(comes))


def _is_found(outcome: MatchResult) -> bool:
    if not isinstance(outcome, Mismatch) or outcome.kind is not DivergedBy.CHANGED:
        return False
    return outcome.step == 2 and bool(outcome.differences)


def _first_divergence(calls: list[Sent], made: list[Sent]) -> Mismatch:
    """Of an agent that makes one call after the other. _NoDivergence if there is none."""
    past = Matcher(recorded(one, step) for step, one in enumerate(calls, 1))
    for one in made:
        view = proposed(one)
        match past.propose(view):
            case StepMatch(row):
                past.answered(row)
            case Early():
                return past.give_up(view)
            case Mismatch() as diverged:
                return diverged
    diverged_at_end = past.ended()
    if diverged_at_end is None:
        raise _NoDivergence
    return diverged_at_end


class _NoDivergence(Exception):
    """The agent came to its end as recorded."""
