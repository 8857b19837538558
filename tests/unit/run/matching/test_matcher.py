from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.model.action import Kind
from paddock.run.matching.candidates import told_by_body
from paddock.run.matching.fork_points import check_forkable
from paddock.run.matching.matcher import Matcher
from paddock.run.matching.recorded_step import (
    DivergedBy,
    Early,
    Live,
    Mismatch,
    RecordedStep,
    StepMatch,
)
from paddock.run.matching.rules import Rules, vary_of
from paddock.run.matching.timestamps import Timestamps
from unit.run.matching.samples import Sent, http, proposed, recorded


def call(name: str) -> Sent:
    return http("POST", f"/{name}", body={"name": name})


def question(host: str, kind: str = "A") -> Sent:
    return Sent(Kind.DNS, host, {"host": host, "name": host, "type": kind})


def rows(*calls: Sent) -> list[RecordedStep]:
    """One after the other."""
    return [recorded(one, step) for step, one in enumerate(calls, 1)]


def together(*calls: Sent) -> list[RecordedStep]:
    """All proposed before the first is settled, and settled in reverse."""
    size = len(calls)
    return [
        recorded(one, step, proposed_n=step, settled_n=3 * size - step)
        for step, one in enumerate(calls, 1)
    ]


def taken(past: Matcher, sent: Sent) -> RecordedStep:
    match = past.propose(proposed(sent))
    assert isinstance(match, StepMatch), match
    return match.row


A, B, C = call("a"), call("b"), call("c")


def test_steps_in_flight_together_match_in_any_order() -> None:
    past = Matcher(together(A, B, C))
    assert [taken(past, one).number for one in (C, A, B)] == [3, 1, 2]


def test_answers_go_out_in_the_recorded_order() -> None:
    past = Matcher(together(A, B))
    first, second = taken(past, A), taken(past, B)
    assert not past.may_answer(first)
    assert past.held_by(first) == (second,)
    assert past.may_answer(second)
    past.answered(second)
    assert past.may_answer(first)


def test_a_step_waits_until_what_came_before_it_is_answered() -> None:
    past = Matcher(rows(A, B))
    early = past.propose(proposed(B))
    assert isinstance(early, Early)
    assert [one.number for one in early.waits_for] == [1]
    row = taken(past, A)
    assert isinstance(past.propose(proposed(B)), Early)
    past.answered(row)
    assert taken(past, B).number == 2


def test_whoever_gives_up_waiting_is_told_of_the_order() -> None:
    past = Matcher(rows(A, B))
    diverged = past.give_up(proposed(B))
    assert (diverged.kind, diverged.step) == (DivergedBy.ORDER, 2)
    assert "step 1" in diverged.differences[0].recorded


def test_an_answer_that_is_held_by_a_call_that_never_came_names_it() -> None:
    past = Matcher(together(A, B))
    diverged = past.give_up_answer(taken(past, A))
    assert (diverged.kind, diverged.step) == (DivergedBy.MISSING, 2)


def test_equal_calls_are_taken_in_their_order() -> None:
    past = Matcher(rows(A, A, A))
    for step in (1, 2, 3):
        row = taken(past, A)
        assert row.number == step
        past.answered(row)
    assert past.propose(proposed(A)) == Mismatch(DivergedBy.EXTRA, None)


def test_a_changed_call_is_held_against_the_most_similar_one() -> None:
    past = Matcher(together(A, http("GET", "/x"), http("POST", "/b", body={"name": "b", "n": 1})))
    diverged = past.propose(proposed(B))
    assert isinstance(diverged, Mismatch)
    assert (diverged.kind, diverged.step) == (DivergedBy.CHANGED, 3)
    assert [one.at for one in diverged.differences] == ["body.n"]


def test_a_step_that_was_never_settled_has_no_answer() -> None:
    past = Matcher([recorded(A, 1, settled_n=None)])
    diverged = past.propose(proposed(A))
    assert isinstance(diverged, Mismatch)
    assert (diverged.kind, diverged.step) == (DivergedBy.UNKEPT, 1)


def test_a_step_whose_answer_was_cut_has_no_answer() -> None:
    diverged = Matcher([recorded(A, 1, unkept="not kept")]).propose(proposed(A))
    assert isinstance(diverged, Mismatch)
    assert diverged.kind is DivergedBy.UNKEPT


def test_a_step_that_was_not_kept_whole_says_so_before_what_differs() -> None:
    diverged = Matcher([recorded(A, 1, is_whole=False)]).propose(proposed(B))
    assert isinstance(diverged, Mismatch)
    assert diverged.kind is DivergedBy.UNKEPT
    assert "budget" in diverged.differences[0].recorded
    assert len(diverged.differences) > 1


def test_the_agent_itself_matches_though_it_was_never_settled() -> None:
    agent = Sent(Kind.EXEC, "agent", {"argv": ["agent"], "cwd": "/", "program": "/agent"})
    past = Matcher([recorded(agent, 1, settled_n=None, is_contained=True), recorded(A, 2)])
    assert taken(past, agent).number == 1
    assert taken(past, A).number == 2


def test_what_came_inside_of_an_answer_is_neither_awaited_nor_missed() -> None:
    tool = Sent(Kind.TOOL, "refund", {"amount": 1})
    past = Matcher([recorded(A, 1, settled_n=30), recorded(tool, 2, within=1), recorded(B, 4)])
    past.answered(taken(past, A))
    past.answered(taken(past, B))
    assert past.missing() == ()


def test_a_name_may_be_asked_for_again_and_need_not_be() -> None:
    past = Matcher(rows(question("x.example"), question("x.example"), A))
    first = taken(past, question("x.example"))
    past.answered(first)
    assert taken(past, A).number == 3
    assert taken(past, question("x.example")).number == 2
    repeat = past.propose(proposed(question("x.example")))
    assert isinstance(repeat, StepMatch) and (repeat.row.number, repeat.is_repeat) == (2, True)
    assert past.missing() == ()


def test_another_name_is_a_divergence() -> None:
    past = Matcher(rows(question("x.example")))
    taken(past, question("x.example"))
    assert isinstance(past.propose(proposed(question("y.example"))), Mismatch)
    assert isinstance(past.propose(proposed(question("x.example", "TXT"))), Mismatch)


def test_a_refusal_by_the_door_may_come_often_or_never() -> None:
    refusal = recorded(question("no.example"), 1, is_refused_by_door=True)
    past = Matcher([refusal, recorded(A, 2)])
    assert past.refused(proposed(question("no.example"))) == refusal
    assert past.refused(proposed(question("no.example"))) == refusal
    past.answered(taken(past, A))
    assert past.missing() == ()
    assert Matcher([refusal]).missing() == ()


def test_a_refusal_that_is_not_in_the_record_is_a_divergence() -> None:
    past = Matcher(rows(A))
    diverged = past.refused(proposed(A))
    assert isinstance(diverged, Mismatch)
    assert [one.at for one in diverged.differences] == ["is_refused_by_door"]
    assert isinstance(past.refused(proposed(question("no.example"))), Mismatch)


def test_a_recorded_refusal_does_not_answer_what_the_door_lets_pass() -> None:
    past = Matcher([recorded(A, 1, is_refused_by_door=True)])
    assert isinstance(past.propose(proposed(A)), Mismatch)


def test_a_refused_connection_that_never_came_is_missed() -> None:
    connect = Sent(Kind.CONNECT, "x:1", {"host": "x", "port": 1, "transport": "udp"})
    past = Matcher([recorded(connect, 1, is_refused_by_door=True)])
    assert [one.number for one in past.missing()] == [1]
    past.refused(proposed(connect))
    assert past.missing() == ()


def test_after_the_last_step_of_the_past_everything_is_live() -> None:
    past = Matcher(rows(A, B, C))
    past.until(3)
    past.answered(taken(past, A))
    assert not past.is_live
    row = taken(past, B)
    assert isinstance(past.propose(proposed(C)), Early)
    assert isinstance(past.propose(proposed(call("new"))), Early)
    past.answered(row)
    assert past.propose(proposed(call("new"))) == Live()
    assert past.refused(proposed(question("no.example"))) == Live()
    assert past.missing() == ()


def test_a_program_that_the_others_wait_for_is_taken_out_of_its_turn() -> None:
    """Threads in a process whose interpreter is held by the start of a program ask for nothing."""
    program = Sent(Kind.EXEC, "tool", {"program": "/bin/tool", "argv": ["tool"], "cwd": "/"})
    past = Matcher([*rows(A, B), recorded(program, 3, is_contained=True)])
    past.answered(taken(past, A))
    assert isinstance(past.propose(proposed(program)), Early)
    match = past.propose(proposed(program), is_stuck=True)
    assert isinstance(match, StepMatch) and match.row.number == 3
    assert taken(past, B).number == 2
    assert isinstance(Matcher(rows(A, B)).propose(proposed(B), is_stuck=True), Early)


def test_a_step_of_the_future_waits_while_the_past_is_not_over() -> None:
    past = Matcher(together(A, B, C))
    past.until(3)
    early = past.propose(proposed(C))
    assert isinstance(early, Early)
    assert [one.number for one in early.waits_for] == [1, 2]
    assert isinstance(past.propose(proposed(call("new"))), Mismatch)


def test_a_past_that_ends_before_the_first_step_is_live_at_once() -> None:
    past = Matcher(rows(A))
    past.until(1)
    assert past.propose(proposed(B)) == Live()


def test_programs_of_the_past_need_not_end_before_it_is_over() -> None:
    agent = Sent(Kind.EXEC, "agent", {"argv": ["agent"], "cwd": "/", "program": "/agent"})
    past = Matcher([recorded(agent, 1, settled_n=99, is_contained=True), recorded(A, 2)])
    past.until(2)
    assert not past.is_live
    taken(past, agent)
    assert past.is_live


def test_ids_that_the_agent_made_up_belong_together_from_first_sight() -> None:
    rules = Rules((vary_of("headers.idempotency-key=id"),))

    def keyed(key: str, path: str = "/pay") -> Sent:
        return http("POST", path, headers={"idempotency-key": key}, body={"n": 1})

    past = Matcher(rows(keyed("k-one"), keyed("k-one"), keyed("k-two")), rules)
    past.answered(taken(past, keyed("fresh-1")))
    assert past.give_up(proposed(keyed("fresh-2"))).kind is DivergedBy.ORDER
    past.answered(taken(past, keyed("fresh-1")))
    diverged = past.propose(proposed(keyed("fresh-1")))
    assert isinstance(diverged, Mismatch)
    assert [one.at for one in diverged.differences] == ["headers.idempotency-key"]
    assert taken(past, keyed("fresh-2")).number == 3


def test_a_new_id_is_known_in_later_paths_and_texts() -> None:
    rules = Rules((vary_of("body.id=id"),))
    past = Matcher(
        rows(
            http("POST", "/orders", body={"id": "order-1111"}),
            http("GET", "/orders/order-1111"),
            http("POST", "/mail", body={"text": "see order-1111."}),
        ),
        rules,
    )
    past.answered(taken(past, http("POST", "/orders", body={"id": "order-2222"})))
    assert isinstance(past.propose(proposed(http("GET", "/orders/order-3333"))), Mismatch)
    past.answered(taken(past, http("GET", "/orders/order-2222")))
    assert taken(past, http("POST", "/mail", body={"text": "see order-2222."})).number == 3


def test_a_path_that_varies_as_a_whole_may_have_another_depth() -> None:
    rules = Rules((vary_of(r"path=re:/files/.*"),))
    past = Matcher(rows(http("GET", "/files/a"), http("GET", "/other")), rules)
    assert isinstance(past.propose(proposed(http("GET", "/elsewhere/b/c"))), Mismatch)
    assert taken(past, http("GET", "/files/b/c/d")).number == 1


@pytest.mark.parametrize(
    ("was", "comes"), [("a.example:1", "b.example:1"), ("*", ""), ("a/x", "b/x")]
)
def test_a_path_without_a_slash_before_it_is_compared_as_a_whole(was: str, comes: str) -> None:
    past = Matcher(rows(http("CONNECT", was)))
    assert isinstance(past.propose(proposed(http("CONNECT", comes))), Mismatch)
    assert taken(past, http("CONNECT", was)).number == 1


@pytest.mark.parametrize("k", [0, -3, 9])
def test_a_fork_outside_of_the_record_is_refused(k: int) -> None:
    why = check_forkable(rows(A, B), k)
    assert why is not None
    assert "1 to 2" in why.why


def test_a_fork_begins_where_everything_before_has_its_answer_on_record() -> None:
    past = [
        recorded(A, 1),
        recorded(B, 2, proposed_n=20, settled_n=32),
        recorded(C, 3, proposed_n=21, settled_n=31),
        recorded(A, 4, proposed_n=40, settled_n=None),
    ]
    assert all(check_forkable(past, k) is None for k in (1, 2, 3, 4))
    five = check_forkable(past, 5)
    assert five is not None
    assert five.why.endswith("the answer of step 4")
    assert five.instead == (4,)


def test_what_was_under_way_when_a_fork_begins_is_answered_first() -> None:
    past = Matcher(
        [
            recorded(A, 1),
            recorded(B, 2, proposed_n=20, settled_n=32),
            recorded(C, 3, proposed_n=21, settled_n=31),
        ]
    )
    past.until(3)
    past.answered(taken(past, A))
    row = taken(past, B)
    assert isinstance(past.propose(proposed(C)), Early)
    assert past.may_answer(row)  # though the record answers step 3 before it
    past.answered(row)
    assert isinstance(past.propose(proposed(C)), Live)


def test_a_fork_does_not_begin_inside_of_an_answer() -> None:
    past = [recorded(A, 1, settled_n=30), recorded(B, 2, within=1), recorded(C, 4)]
    inside = check_forkable(past, 2)
    assert inside is not None
    assert "part of the answer of step 1" in inside.why
    assert inside.instead == (1, 4)


@given(st.data())
def test_any_order_that_the_intervals_allow_is_a_match(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 7))
    numbers = list(range(1, 2 * count + 1))
    shuffled = data.draw(st.permutations(numbers))
    ends = sorted(tuple(sorted(shuffled[2 * at : 2 * at + 2])) for at in range(count))
    calls = [call(f"c{step % 3}") for step in range(count)]  # some are equal
    past = Matcher(
        recorded(one, step, proposed_n=low, settled_n=high)
        for step, (one, (low, high)) in enumerate(zip(calls, ends, strict=True), 1)
    )
    _run_in_some_order(past, calls, ends, data)
    assert past.missing() == ()


def _run_in_some_order(
    past: Matcher, calls: list[Sent], ends: list[tuple[int, int]], data: st.DataObject
) -> None:
    """An agent that may do whatever it has the answers for, in any order."""
    to_do = set(range(len(calls)))
    got: set[int] = set()
    out: list[RecordedStep] = []
    while to_do or out:
        may = [at for at in sorted(to_do) if _before(ends, at) <= got]
        may_answer = [row for row in out if past.may_answer(row)]
        choice = data.draw(st.sampled_from([*may, *may_answer]))
        if isinstance(choice, int):
            outcome = past.propose(proposed(calls[choice]))
            assert isinstance(outcome, StepMatch)
            to_do.discard(choice)
            out.append(outcome.row)
        else:
            out.remove(choice)
            past.answered(choice)
            got.add(choice.number - 1)


def _before(ends: list[tuple[int, int]], at: int) -> set[int]:
    return {one for one, (_, end) in enumerate(ends) if end < ends[at][0]}


def test_what_nobody_waited_for_only_has_to_come() -> None:
    left = recorded(A, 1, proposed_n=1, settled_n=50, is_unseen=True)
    past = Matcher([left, recorded(B, 2), recorded(C, 3)])
    past.until(4)
    row = taken(past, A)
    assert past.may_answer(row)  # which says nothing
    for one in (B, C):
        past.answered(taken(past, one))
    assert past.is_live


def test_what_nobody_waited_for_is_missed_when_it_does_not_come() -> None:
    left = recorded(A, 1, proposed_n=1, settled_n=50, is_unseen=True)
    past = Matcher([left, recorded(B, 2)])
    past.answered(taken(past, B))
    assert [row.number for row in past.missing()] == [1]


UPLOAD = http("POST", "/upload", headers={"transfer-encoding": "chunked"})


def uploads(*digests: str) -> list[RecordedStep]:
    """Requests under way together, with one head; their bodies streamed by."""
    size = len(digests)
    return [
        recorded(
            UPLOAD,
            step,
            proposed_n=step,
            settled_n=3 * size - step,
            body={"bytes": 4, "sha256": digest},
        )
        for step, digest in enumerate(digests, 1)
    ]


def test_requests_with_one_head_are_told_apart_by_their_bodies() -> None:
    alike = uploads("lamp", "desk")
    past = Matcher(alike)
    assert [row.number for row in told_by_body(alike)] == [1, 2]
    for digest, step in (("desk", 2), ("lamp", 1)):
        view = replace(proposed(UPLOAD), sent={"bytes": 4, "sha256": digest})
        match = past.propose(view)
        assert isinstance(match, StepMatch) and match.row.number == step


def test_a_body_that_no_step_had_is_held_against_the_first_with_its_head() -> None:
    view = replace(proposed(UPLOAD), sent={"bytes": 4, "sha256": "sofa"})
    match = Matcher(uploads("lamp", "desk")).propose(view)
    assert isinstance(match, StepMatch) and match.row.number == 1


def test_bodies_need_not_be_known_where_all_are_the_same() -> None:
    assert told_by_body(uploads("lamp", "lamp")) == []
    assert told_by_body(rows(A, B)) == []


def test_an_upload_may_have_the_present_moment_in_its_text_and_its_checksum() -> None:
    def record(text: str, checksum: str) -> dict[str, object]:
        body = f"1e\r\n{text}\r\n0\r\nx-amz-checksum-crc32:{checksum}\r\n\r\n"
        return {"bytes": len(body), "sha256": checksum, "body": body}

    past = Matcher([], Rules(moments=Timestamps.of_run(1e9, 1e9 + 10, (2e9, 2e9 + 10))))
    then = record("made at 2001-09-09T01:46:42Z", "zkhinQ==")
    now = record("made at 2033-05-18T03:33:22Z", "oviG8A==")
    assert past.is_same_body(then, now)
    assert not past.is_same_body(then, record("made at 2040-05-18T03:33:22Z", "oviG8A=="))
    assert not past.is_same_body(then, record("lost at 2033-05-18T03:33:22Z", "oviG8A=="))
    assert not past.is_same_body({**then, "is_cut": True}, {**now, "is_cut": True})
