"""What goes on beside an agent is neither ordered nor required, and gets only what was answered at
the same place. Everything else is compared as ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.action import Kind
from paddock.policy.background import background_rule
from paddock.run.matching.background import marked
from paddock.run.matching.fork_points import check_forkable, places
from paddock.run.matching.matcher import Matcher
from paddock.run.matching.recorded_step import (
    Background,
    DivergedBy,
    Early,
    Live,
    Mismatch,
    RecordedStep,
    StepMatch,
)
from paddock.run.matching.rules import Rules
from unit.run.matching.samples import SAMPLES, Sent, http, model, proposed, recorded

TRACES = "POST traces.example/v1/*"
RULES = Rules(
    beside=(
        background_rule(TRACES),
        background_rule("all.example"),
        background_rule("api.openai.com"),
    )
)
A, B, C = (http("POST", f"/{name}", body={"name": name}) for name in "abc")


def trace(number: int, path: str = "/v1/traces", **more: str) -> Sent:
    return http("POST", path, host="traces.example", body={"spans": number}, **more)


def question(host: str, kind: str = "A") -> Sent:
    return Sent(Kind.DNS, host, {"host": host, "name": host, "type": kind})


def connection(host: str) -> Sent:
    return Sent(Kind.CONNECT, host, {"host": host, "port": 443, "transport": "tls"})


def rows(*calls: Sent) -> list[RecordedStep]:
    return [recorded(one, step) for step, one in enumerate(calls, 1)]


def past_of(*calls: Sent) -> Matcher:
    return Matcher(rows(*calls), RULES)


def beside(past: Matcher, sent: Sent) -> tuple[int | None, bool]:
    found = past.propose(proposed(sent))
    assert isinstance(found, Background), found
    return None if found.row is None else found.row.number, found.is_repeat


def lived(past: Matcher, sent: Sent) -> int:
    found = past.propose(proposed(sent))
    assert isinstance(found, StepMatch), found
    past.answered(found.row)
    return found.row.number


def test_answers_of_a_place_come_in_their_order_and_the_last_one_for_ever() -> None:
    past = past_of(trace(1), A, trace(2))
    came = [beside(past, trace(9)) for _ in range(4)]
    assert came == [(1, False), (3, False), (3, True), (3, True)]


def test_another_place_gets_no_answer_of_this_one() -> None:
    past = past_of(trace(1), A)
    for other in (
        trace(1, "/v1/logs"),
        http("POST", "/v1/traces", host="all.example"),
        http("PUT", "/v1/traces", host="all.example"),
        replace(trace(1), address={**trace(1).address, "port": 8443}),
        replace(trace(1), address={**trace(1).address, "scheme": "http"}),
    ):
        assert beside(past, other) == (None, True)
    assert beside(past, trace(1)) == (1, False)


def test_nobody_waits_for_it_and_it_is_not_missed() -> None:
    past = past_of(A, trace(1), B, trace(2), C)
    assert [lived(past, one) for one in (A, B, C)] == [1, 3, 5]
    assert past.missing() == ()
    assert past.ended() is None


def test_what_it_does_not_touch_is_still_ordered_and_missed() -> None:
    past = past_of(A, trace(1), B)
    assert beside(past, trace(1)) == (2, False)
    assert isinstance(past.propose(proposed(B)), Early)
    assert past.give_up(proposed(B)).kind is DivergedBy.ORDER
    assert [row.number for row in past.missing()] == [1, 3]


def test_an_answer_that_was_never_given_or_not_kept_is_not_given() -> None:
    known = [
        recorded(trace(1), 1, settled_n=None),
        recorded(trace(2), 2, unkept="cut"),
        recorded(trace(3), 3, is_refused_by_door=True),
    ]
    good = recorded(trace(4), 4)
    assert beside(Matcher(known, RULES), trace(1)) == (None, True)
    assert beside(Matcher([*known, good], RULES), trace(1)) == (4, False)
    assert Matcher([*known, good], RULES).missing() == ()


def test_a_step_in_flight_for_ever_holds_no_answer_back() -> None:
    exporter = recorded(trace(1), 1, proposed_n=1, settled_n=2)
    past = Matcher([exporter, recorded(A, 2, proposed_n=3, settled_n=4)], RULES)
    found = past.propose(proposed(A))
    assert isinstance(found, StepMatch)
    assert past.may_answer(found.row)


@pytest.mark.parametrize(
    "sent",
    [
        model("/v1/chat/completions", "api.openai.com", {"model": "m", "messages": []}, {}),
        model("/v1/responses", "all.example", {"model": "m", "input": "x"}, {}),
        http("POST", "/v1/chat/completions", host="api.openai.com", body={"messages": []}),
        http("POST", "/v1/chat/completions/", host="all.example", raw=b"?"),
        http("POST", "/v1/m%65ssages", host="all.example", body={"model": "m", "messages": []}),
        http("POST", "/gateway/v1/messages", host="all.example", body={"spans": 1}),
        http("GET", "/v1/responses/resp_1", host="all.example"),
    ],
)
def test_a_question_to_a_model_is_never_beside(sent: Sent) -> None:
    past = past_of(A)
    assert past.background_rule(proposed(sent)) is None
    assert isinstance(past.propose(proposed(sent)), Mismatch)
    assert [row.background for row in marked(rows(sent), RULES.beside)] == [None]
    assert [row.number for row in past_of(sent).missing()] == [1]


@for_each("name", SAMPLES)
def test_no_tool_program_or_request_elsewhere_is_beside(name: str) -> None:
    assert past_of(A).background_rule(proposed(SAMPLES[name])) is None


def test_names_and_connections_of_its_host_are_beside() -> None:
    past = past_of(question("all.example"), connection("all.example"), A)
    assert lived(past, A) == 3
    assert past.missing() == ()
    assert beside(past, question("all.example")) == (1, False)
    assert beside(past, question("all.example", "AAAA")) == (None, True)
    assert beside(past, connection("all.example")) == (2, False)
    assert beside(past, question("traces.example")) == (None, True)


def test_a_connection_is_not_beside_by_a_rule_about_requests() -> None:
    past = past_of(connection("traces.example"))
    assert isinstance(past.propose(proposed(http())), Mismatch)
    assert [row.number for row in past.missing()] == [1]


def test_what_within_an_answer_stays_there() -> None:
    inside = recorded(http(host="all.example"), 2, within=1)
    assert marked([inside], RULES.beside) == (inside,)


def test_what_its_door_refused_is_not_missed() -> None:
    past = Matcher([recorded(trace(1), 1, is_refused_by_door=True), recorded(A, 2)], RULES)
    assert lived(past, A) == 2
    assert past.missing() == ()


def test_the_future_of_a_fork_does_not_begin_with_what_comes_by_the_clock() -> None:
    past = past_of(A, trace(1), B, trace(2))
    past.until(3)
    assert not past.is_live
    lived(past, A)
    assert past.is_live
    assert [beside(past, trace(9)) for _ in range(2)] == [(2, False), (2, True)]
    assert past.propose(proposed(http("POST", "/new"))) == Live()


def test_the_future_may_begin_at_such_a_step() -> None:
    past = past_of(A, trace(1), B)
    past.until(2)
    assert beside(past, trace(1)) == (None, True)
    lived(past, A)
    assert past.propose(proposed(trace(1))) == Live()


def test_a_fork_can_begin_where_such_a_step_is_in_flight_or_has_no_answer() -> None:
    calls = rows(A, trace(1), B, C)
    calls[1] = recorded(trace(1), 2, settled_n=None)
    assert check_forkable(calls, 3) is not None
    assert places(calls)[-1] == 2
    known = marked(calls, RULES.beside)
    assert all(check_forkable(known, step) is None for step in range(1, 6))
    assert places(known)[-1] == 5


def test_without_a_rule_nothing_is_beside() -> None:
    past = Matcher(rows(trace(1), A))
    assert past.background_rule(proposed(trace(1))) is None
    assert isinstance(past.propose(proposed(trace(2))), Mismatch)


@given(st.lists(st.sampled_from(["a", "b", "c", "trace"]), max_size=20))
def test_wherever_it_comes_the_others_find_what_they_find_without_it(made: list[str]) -> None:
    known = {"a": A, "b": B, "c": C, "trace": trace(7)}

    def outcomes(names: list[str], calls: list[RecordedStep]) -> list[object]:
        past, found = Matcher(calls, RULES), []
        for name in names:
            one = past.propose(proposed(known[name]))
            if isinstance(one, StepMatch):
                past.answered(one.row)
            if not isinstance(one, Background):
                found.append(one)
        return [*found, past.missing()]

    with_it = rows(A, trace(1), B, trace(2), C)
    without = [row for row in with_it if row.number % 2]
    plain = [name for name in made if name != "trace"]
    assert outcomes(made, with_it) == outcomes(plain, without)
