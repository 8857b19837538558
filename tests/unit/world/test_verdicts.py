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
from paddock.cli.verdicts import main
from paddock.gate.opening import signing_key
from paddock.journal.reader import Reader
from paddock.journal.records import Type
from paddock.journal.writer import Journal
from paddock.state.home import Home
from paddock.world.verdict_deeds import Deed, Past, broken_note, read_past
from paddock.world.verdicts import Judgement, Options, Report, Verdict, judge, judge_run

DONE = {"outcome": "done", "result": {"status": 200}}
FAULTED = {"outcome": "faulted", "result": None, "error": "HTTP 503"}
DOWN = {"id": "down", "status": 503}
LOST = {"id": "lost", "after": "reset"}


class Run:
    """A run, told as a story: what was done, after how many seconds, and how it went."""

    def __init__(self) -> None:
        self.past = Past()
        self._now = 0.0

    def does(
        self,
        what: str,
        *,
        wait: float = 0.0,
        fault: dict[str, Any] | None = None,
        key: str | None = None,
        **more: Any,
    ) -> Run:
        self._now += wait
        at = int(self._now * 1e6)
        method, _, place = what.partition(" ")
        words = {name: one for name, one in (fault or {}).items() if name != "id"}
        is_instead = "status" in words or "reset" in words or "timeout" in words
        deed = Deed(
            step=len(self.past.deeds) + 1,
            at=at,
            kind="http",
            what=what,
            place=place.partition("/")[0],
            thing=what,
            is_write=method != "GET",
            key=key,
            words=words,
            fault_id=str((fault or {}).get("id", "")),
            outcome="faulted" if is_instead else "done",
            status=None if is_instead else 200,
            ended_at=at,
        )
        for name, value in more.items():
            setattr(deed, name, value)
        self.past.deeds.append(deed)
        return self

    def report(self, *people: str) -> Report:
        return judge(self.past, Options(people))

    def verdict(self, *people: str) -> Verdict:
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
    run.does("POST a/charges", wait=1.0, thing="another amount")
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
    run.past.broken = {"payments": ["ch_1 is refunded twice."]}
    report = run.report()
    assert report.is_bad
    assert [one.judgement for one in report.verdicts] == [Judgement.CORRUPTED]
    assert report.verdicts[0].sentences == ("ch_1 is refunded twice.",)


@contextlib.contextmanager
def begin(home: Path) -> Iterator[Journal]:
    place = Home(home)
    place.make()
    opened = {"run": "r", "agent": "a", "stage": "broad"}
    journal = Journal.create(place.runs / "r", opened=opened, key=signing_key(place))
    try:
        yield journal
    finally:
        journal.close({})


def put(
    journal: Journal,
    step: int,
    kind: str,
    arguments: Any,
    fault: Any = None,
    settled: Any = DONE,
    effect: str = "write",
) -> None:
    name = arguments.get("name", "n") if isinstance(arguments, dict) else "n"
    body = {"kind": kind, "name": name, "arguments": arguments, "effect": effect}
    decided = {"verdict": "simulate", "decided_by": "world", "why": "", "effect": effect}
    journal.append(Type.PROPOSED, body, step)
    journal.append(Type.DECIDED, decided | ({} if fault is None else {"fault": fault}), step)
    journal.append(Type.SETTLED, settled, step)


def charge(key: str | None = None, amount: int = 500, **more: Any) -> dict[str, Any]:
    headers = {} if key is None else {"idempotency-key": key}
    return {"method": "POST", "host": "api.stripe.com", "port": 443, "path": "/v1/charges",
            "headers": {**headers, "x-request": str(id(more))}, "body": {"amount": amount, **more},
            }  # fmt: skip


def judged(home: Path) -> Report:
    return judge_run(Reader(home / "runs" / "r"))


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
        put(journal, 2, "tool", {"name": "refund", "amount": 5}, None, {"outcome": "done"})
    assert judged(tmp_path).verdicts[0].judgement is Judgement.ACTED_TWICE


def test_a_fault_of_a_rule_has_the_name_of_the_rule(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", charge(), {"status": 503, "error": "no"}, FAULTED)
    assert judged(tmp_path).verdicts[0].fault_id == "world"


def test_the_last_word_on_invariants_counts(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        put(journal, 1, "http", charge())
        journal.append(Type.NOTED, broken_note({"payments": ["a"]}))
        journal.append(Type.NOTED, {"what": "other", "broken": {"x": ["y"]}})
        journal.append(Type.NOTED, broken_note({"payments": ["b"], "mail": []}))
    [verdict] = judged(tmp_path).verdicts
    assert (verdict.what, verdict.sentences) == ("payments", ("b",))


odd = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.just([1, "a"])
odd_words = st.dictionaries(
    st.sampled_from(["id", "status", "after", "retry_after", "headers", "delay", "stale", "x"]),
    odd | st.dictionaries(st.text(max_size=3), odd, max_size=2),
)


@given(st.lists(st.tuples(odd, odd_words, odd), min_size=1, max_size=5))
def test_a_journal_may_say_anything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    home = tmp_path_factory.mktemp("home")
    with begin(home) as journal:
        for number, (value, words, settled) in enumerate(steps, 1):
            text = str(value)  # What is no text there is no record of a journal.
            body = {"kind": text, "name": text, "arguments": value, "effect": text}
            journal.append(Type.PROPOSED, body, number)
            journal.append(Type.DECIDED, {"fault": words or value, "effect": text}, number)
            journal.append(Type.SETTLED, {"outcome": str(settled), "result": value}, number)
        journal.append(Type.NOTED, {"what": "world", "broken": steps[0][0]})
    assert len(judged(home).verdicts) <= len(steps) + 1


def test_a_run_that_is_not_over_is_judged_as_far_as_it_is(tmp_path: Path) -> None:
    with begin(tmp_path) as journal:
        body = {"kind": "http", "name": "n", "arguments": charge(), "effect": "write"}
        journal.append(Type.PROPOSED, body, 1)
        journal.append(Type.DECIDED, {"verdict": "allow", "fault": LOST}, 1)
        past = read_past(Reader(tmp_path / "runs" / "r"))
        assert not past.deeds[0].took_effect
        assert judge(past).verdicts[0].judgement is Judgement.GAVE_UP


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
