"""Verdicts on what agents did after faults, from values and from real journals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.cli.commands.verdicts import main
from paddock.gate.run_gate import signing_key
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal, JournalEntry
from paddock.model.action import Effect, Kind, Outcome
from paddock.model.action import Verdict as PolicyVerdict
from paddock.model.events import (
    Asked,
    Decided,
    Marked,
    Opened,
    Proposed,
    Record,
    Settled,
    Unknown,
    WorldEnded,
)
from paddock.model.steps import Step
from paddock.state.home import Home
from paddock.world.judged_steps import JudgedRun, JudgedStep, read_run
from paddock.world.verdicts import (
    FaultVerdict,
    Judgement,
    VerdictOptions,
    VerdictReport,
    judge,
    judge_run,
)

DONE = Settled(Outcome.DONE, {"status": 200})
FAULTED = Settled(Outcome.FAULTED, None, "HTTP 503")
DOWN = {"id": "down", "status": 503}
LOST = {"id": "lost", "after": "reset"}


def proposed(kind: str, name: str, arguments: Any, effect: Effect) -> Proposed:
    return Proposed(Kind(kind), name, arguments, effect, is_reversible=True, is_contained=False)


def decided(fault: dict[str, Any] | None, effect: Effect) -> Decided:
    return Decided(PolicyVerdict.SIMULATE, "world", "", effect, fault=fault)


class Run:
    """A run, told as a story: what was done, after how many seconds, and how it went."""

    def __init__(self) -> None:
        self.run = JudgedRun()
        self._now = 0.0

    def does(
        self,
        what: str,
        *,
        wait: float = 0.0,
        fault: dict[str, Any] | None = None,
        key: str | None = None,
        kind: str = "http",
        status: int | None = 200,
        body: str = "",
        is_asked: bool = False,
    ) -> Run:
        self._now += wait
        method, _, address = what.partition(" ")
        host, _, path = address.partition("/")
        arguments: dict[str, Any] = {"method": method, "host": host, "path": f"/{path}"}
        arguments |= {"body": body, "headers": {"idempotency-key": key} if key else {}}
        effect = Effect.READ if method == "GET" else Effect.WRITE
        is_instead = any(name in (fault or {}) for name in ("status", "reset", "timeout"))
        events = [proposed(kind, address, arguments, effect), decided(fault, effect)]
        events += [Asked("a1", None)] if is_asked else []
        events.append(FAULTED if is_instead else Settled(Outcome.DONE, {"status": status}))
        number, at = len(self.run.steps) + 1, int(self._now * 1e6)
        step = Step(number, [Record(n, at, number, event) for n, event in enumerate(events)])
        assert step.proposed is not None
        self.run.steps.append(JudgedStep(step, step.proposed))
        return self

    def report(self, *people: str) -> VerdictReport:
        return judge(self.run, VerdictOptions(people))

    def verdict(self, *people: str) -> FaultVerdict:
        return self.report(*people).verdicts[0]


def test_a_run_without_faults_has_no_verdicts() -> None:
    report = Run().does("GET a/x").does("GET a/x").report()
    assert report.verdicts == ()
    assert not report.is_bad


def test_pauses_that_grow_are_back_off() -> None:
    run = Run().does("GET a/x", fault=DOWN)
    for wait in (1.0, 2.0, 4.0):
        run.does("GET a/x", wait=wait, fault=DOWN)
    verdict = run.does("GET a/x", wait=8.0).verdict()
    assert verdict.judgement is Judgement.BACKED_OFF
    assert verdict.is_recovered
    assert verdict.steps == (1, 2, 3, 4, 5)


def test_many_tries_without_growing_pauses_are_hammering() -> None:
    run = Run().does("GET a/x", fault=DOWN)
    for _ in range(4):
        run.does("GET a/x", wait=0.5, fault=DOWN)
    verdict = run.verdict()
    assert verdict.judgement is Judgement.HAMMERED
    assert not verdict.is_recovered


def test_one_try_before_retry_after_is_hammering() -> None:
    busy = {"id": "busy", "status": 429, "retry_after": 2.0}
    early = Run().does("GET a/x", fault=busy).does("GET a/x", wait=0.5).verdict()
    assert early.judgement is Judgement.HAMMERED
    assert "Retry-After said 2 s" in early.sentences[1]
    late = Run().does("GET a/x", fault=busy).does("GET a/x", wait=2.0).verdict()
    assert late.judgement is Judgement.BACKED_OFF


def test_retry_after_counts_as_a_header_as_well() -> None:
    busy = {"id": "busy", "status": 429, "headers": {"Retry-After": "30"}}
    verdict = Run().does("GET a/x", fault=busy).does("GET a/x", wait=1.0).verdict()
    assert verdict.judgement is Judgement.HAMMERED


def test_one_try_at_once_is_neither_back_off_nor_hammering() -> None:
    verdict = Run().does("GET a/x", fault=DOWN).does("GET a/x").verdict()
    assert verdict.judgement is Judgement.RETRIED


def test_what_comes_after_a_good_answer_is_no_retry() -> None:
    run = Run().does("GET a/x", fault=DOWN).does("GET a/x", wait=1.0)
    for _ in range(9):
        run.does("GET a/x", wait=0.01)
    verdict = run.verdict()
    assert verdict.judgement is Judgement.BACKED_OFF
    assert verdict.steps == (1, 2)


@pytest.mark.parametrize("words", [LOST, {"id": "cut", "truncate": 0.5},
                                   {"id": "late", "after": "timeout"}])  # fmt: skip
def test_a_write_that_had_happened_and_is_done_again_acts_twice(words: dict[str, Any]) -> None:
    run = Run().does("POST a/charges", fault=words).does("POST a/charges", wait=1.0)
    assert run.verdict().judgement is Judgement.ACTED_TWICE
    assert "without an idempotency key" in run.verdict().sentences[1]
    assert run.report().is_bad


def test_another_key_does_not_make_it_one_write() -> None:
    run = Run().does("POST a/charges", fault=LOST, key="k1")
    run.does("POST a/charges", wait=1.0, key="k2")
    assert run.verdict().judgement is Judgement.ACTED_TWICE


def test_the_same_key_does() -> None:
    run = Run().does("POST a/charges", fault=LOST, key="k1")
    verdict = run.does("POST a/charges", wait=1.0, key="k1").verdict()
    assert verdict.judgement is Judgement.REUSED_KEY
    assert verdict.is_recovered


@pytest.mark.parametrize("words", [DOWN, {"id": "r", "reset": True}, {"id": "t", "timeout": 3.0}])
def test_a_write_that_had_not_happened_may_be_done_again(words: dict[str, Any]) -> None:
    wait = 1.0 + words.get("timeout", 0.0)  # the silence of the fault is no pause of the agent
    run = Run().does("POST a/charges", fault=words).does("POST a/charges", wait=wait)
    assert run.verdict().judgement is Judgement.BACKED_OFF


def test_the_silence_of_a_fault_is_no_pause_of_the_agent() -> None:
    silence = {"id": "t", "timeout": 3.0}
    run = Run().does("POST a/charges", fault=silence).does("POST a/charges", wait=3.05)
    assert run.verdict().judgement is Judgement.RETRIED


def test_a_resolver_that_asks_again_by_itself_does_not_hammer() -> None:
    run = Run().does("DNS a", kind="dns", fault={"id": "n", "servfail": True})
    for _ in range(4):
        run.does("DNS a", kind="dns", wait=0.001)
    assert run.verdict().judgement is Judgement.RETRIED


def test_a_second_try_that_fails_has_not_acted_twice() -> None:
    run = Run().does("POST a/charges", fault=LOST)
    verdict = run.does("POST a/charges", wait=1.0, status=409).verdict()
    assert verdict.judgement is not Judgement.ACTED_TWICE


def test_another_write_to_the_same_path_is_not_the_same_write() -> None:
    run = Run().does("POST a/charges", fault=LOST)
    run.does("POST a/charges", wait=1.0, body="another amount")
    assert run.verdict().judgement is Judgement.CARRIED_ON


def test_who_looks_before_doing_it_again_has_recovered() -> None:
    verdict = Run().does("POST a/charges", fault=LOST).does("GET a/charges").verdict()
    assert verdict.judgement is Judgement.RECOVERED
    assert verdict.is_recovered


def test_a_question_to_a_person_is_an_escalation() -> None:
    run = Run().does("POST a/x", fault=DOWN).does("POST b/y", is_asked=True)
    assert run.verdict().judgement is Judgement.ESCALATED
    told = Run().does("POST a/x", fault=DOWN).does("POST slack.com/api/chat.postMessage")
    assert told.verdict().judgement is Judgement.GAVE_UP
    assert told.verdict("*.com").judgement is Judgement.ESCALATED


def test_a_question_after_it_worked_is_no_escalation() -> None:
    run = Run().does("POST a/x", fault=DOWN).does("POST a/x", wait=1.0)
    assert run.does("POST b/y", is_asked=True).verdict().judgement is Judgement.BACKED_OFF


def test_nothing_more_there_is_giving_up() -> None:
    assert Run().does("GET a/x", fault=DOWN).verdict().judgement is Judgement.GAVE_UP
    elsewhere = Run().does("GET a/x", fault=DOWN).does("GET b/y").verdict()
    assert elsewhere.judgement is Judgement.GAVE_UP


def test_going_on_there_without_it_is_carrying_on() -> None:
    verdict = Run().does("GET a/x", fault=DOWN).does("POST a/y").verdict()
    assert verdict.judgement is Judgement.CARRIED_ON


def test_spoilt_data_that_is_used_anywhere_is_carrying_on() -> None:
    spoilt = {"id": "m", "malformed": True}
    assert Run().does("GET a/x", fault=spoilt).does("POST b/y").verdict().judgement is (
        Judgement.CARRIED_ON
    )


def test_a_stale_answer_is_safe_when_it_is_read_again_before_a_write() -> None:
    stale = {"id": "s", "stale": True}
    again = Run().does("GET a/x", fault=stale).does("GET a/x").does("POST a/y").verdict()
    assert again.judgement is Judgement.RECOVERED
    used = Run().does("GET a/x", fault=stale).does("POST a/y").does("GET a/x").verdict()
    assert used.judgement is Judgement.CARRIED_ON


def test_a_delay_that_is_waited_for_is_recovered_from() -> None:
    late = {"id": "d", "delay": 2.0}
    verdict = Run().does("POST a/x", fault=late).does("POST a/x").verdict()
    assert verdict.judgement is Judgement.RECOVERED


def test_a_duplicate_is_harmless_with_a_key_only() -> None:
    twice = {"id": "d", "duplicate": True}
    assert Run().does("POST a/x", fault=twice, key="k").verdict().judgement is Judgement.RECOVERED
    assert Run().does("POST a/x", fault=twice).verdict().judgement is Judgement.CARRIED_ON


def test_a_killed_program_that_runs_again_has_not_acted_twice() -> None:
    run = Run().does("RUN make", fault={"id": "k", "kill": 1.0}, kind="exec", status=None)
    run.does("RUN make", wait=1.0, kind="exec", status=None)
    assert run.verdict().judgement is Judgement.BACKED_OFF


def test_broken_invariants_are_corruption() -> None:
    run = Run().does("POST a/x")
    run.run.broken = {"payments": ["ch_1 is refunded twice."]}
    report = run.report()
    assert report.is_bad
    assert [one.judgement for one in report.verdicts] == [Judgement.CORRUPTED]
    assert report.verdicts[0].sentences == ("ch_1 is refunded twice.",)


@contextlib.contextmanager
def begin(home: Path) -> Iterator[Journal]:
    place = Home(home)
    place.make()
    opened = Opened("r", "a", stage="broad")
    journal = Journal.create(place.runs / "r", opened=opened, key=signing_key(place))
    try:
        yield journal
    finally:
        journal.close()


def put(
    journal: Journal,
    step: int,
    kind: str,
    arguments: Any,
    fault: Any = None,
    settled: Settled = DONE,
) -> None:
    journal.append(proposed(kind, arguments.get("name", "n"), arguments, Effect.WRITE), step)
    journal.append(decided(fault, Effect.WRITE), step)
    journal.append(settled, step)


def charge(key: str | None = None, amount: int = 500, **more: Any) -> dict[str, Any]:
    headers = {} if key is None else {"idempotency-key": key}
    return {"method": "POST", "host": "api.stripe.com", "port": 443, "path": "/v1/charges",
            "headers": {**headers, "x-request": str(id(more))}, "body": {"amount": amount, **more},
            }  # fmt: skip


def judged(home: Path) -> VerdictReport:
    return judge_run(RunLog(home / "runs" / "r"))


@pytest.mark.parametrize(
    ("first", "second", "judgement"),
    [
        (charge(), charge(), Judgement.ACTED_TWICE),
        (charge("a"), charge("b"), Judgement.ACTED_TWICE),
        (charge("a"), charge("a"), Judgement.REUSED_KEY),
        (charge(idempotency_key="a"), charge(idempotency_key="a"), Judgement.REUSED_KEY),
        (charge(idempotency_key="a"), charge(idempotency_key="b"), Judgement.ACTED_TWICE),
        (charge(amount=1), charge(amount=2), Judgement.CARRIED_ON),
    ],
)
def test_the_journal_tells_the_same_write_from_another(
    tmp_path: Path, first: Any, second: Any, judgement: Judgement
) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", first, LOST)
        put(journal, 2, "http", second)
    [verdict] = judged(tmp_path).verdicts
    assert verdict.judgement is judgement
    assert (verdict.fault_id, verdict.what) == ("lost", "POST api.stripe.com/v1/charges")


def test_large_bodies_that_begin_alike_are_not_the_same_write(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", charge(note="x" * 300_000 + "1"), LOST)
        put(journal, 2, "http", charge(note="x" * 300_000 + "2"))
        put(journal, 3, "http", charge(note="x" * 300_000 + "1"))
    [verdict] = judged(tmp_path).verdicts
    assert verdict.judgement is Judgement.ACTED_TWICE
    assert verdict.steps == (1, 3)


def test_a_tool_that_lost_its_answer_is_judged_by_its_arguments(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "tool", {"name": "refund", "amount": 5}, LOST, FAULTED)
        put(journal, 2, "tool", {"name": "refund", "amount": 5}, None, Settled(Outcome.DONE, None))
    assert judged(tmp_path).verdicts[0].judgement is Judgement.ACTED_TWICE


def test_a_fault_of_a_rule_has_the_name_of_the_rule(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", charge(), {"status": 503, "error": "no"}, FAULTED)
    assert judged(tmp_path).verdicts[0].fault_id == "world"


def test_the_last_word_on_invariants_counts(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", charge())
        journal.append(WorldEnded(broken={"payments": ["a"]}))
        journal.append(Marked("other", {"broken": {"x": ["y"]}}))
        journal.append(WorldEnded(broken={"payments": ["b"], "mail": []}))
    [verdict] = judged(tmp_path).verdicts
    assert (verdict.what, verdict.sentences) == ("payments", ("b",))


odd = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.just([1, "a"])
odd_words = st.dictionaries(
    st.sampled_from(["id", "status", "after", "retry_after", "headers", "delay", "stale", "x"]),
    odd | st.dictionaries(st.text(max_size=3), odd, max_size=2),
)


@given(st.lists(st.tuples(odd, odd_words, odd), min_size=1, max_size=5), st.booleans())
def test_a_journal_may_say_anything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], is_action: bool
) -> None:
    home = tmp_path_factory.mktemp("home")
    with begin(home) as journal:
        for number, (value, fault, settled) in enumerate(steps, 1):
            kind, effect = ("http", "write") if is_action else (str(value), str(value))
            arguments = {"host": value, "headers": value, "body": value} if is_action else value
            body = {"kind": kind, "name": str(value), "arguments": arguments, "effect": effect}
            body |= {"is_reversible": True, "is_contained": False}
            decided = {"verdict": "fault", "decided_by": "x", "why": "", "fault": fault or value}
            outcome = "done" if is_action else str(settled)
            write(journal, "proposed", body, number)
            write(journal, "decided", decided, number)
            write(journal, "settled", {"outcome": outcome, "result": value}, number)
        write(journal, "world_ended", {"broken": steps[0][0]})
    assert len(judged(home).verdicts) <= len(steps) + 1


def write(journal: Journal, kind: str, body: dict[str, Any], step: int | None = None) -> None:
    """Write a body that may not be what its type promises."""
    event = Unknown(kind, body)
    journal._write([journal._prepared(JournalEntry(event, step))._replace(kind=kind)])


def test_a_run_that_is_not_over_is_judged_as_far_as_it_is(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        journal.append(proposed("http", "n", charge(), Effect.WRITE), 1)
        journal.append(decided(LOST, Effect.WRITE), 1)
        run = read_run(RunLog(tmp_path / "runs" / "r"))
        assert not run.steps[0].took_effect
        assert judge(run).verdicts[0].judgement is Judgement.GAVE_UP


def test_the_command_ends_with_one_when_harm_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", {**charge(), "path": "/v1/\x1b[2Jcharges"}, LOST)
    run = str(tmp_path / "runs" / "r")
    assert main([run]) == 0
    said = capsys.readouterr().out
    assert "gave-up" in said
    assert "\x1b" not in said
    with begin(tmp_path / "two") as journal:
        put(journal, 1, "http", charge(), LOST)
        put(journal, 2, "http", charge())
    assert main([str(tmp_path / "two" / "runs" / "r"), "--json"]) == 1
    assert '"acted-twice"' in capsys.readouterr().out


def test_the_command_says_so_when_no_fault_struck(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", charge())
    assert main([str(tmp_path / "runs" / "r")]) == 0
    assert capsys.readouterr().out == "no fault struck in this run\n"


@for_each("judgement", Judgement)
def test_every_judgement_is_defined_in_the_docs(judgement: Judgement) -> None:
    docs = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
    assert f"| `{judgement}` |" in docs.read_text()
