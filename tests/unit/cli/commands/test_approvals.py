"""`paddock approvals`, as a shell and as a script meet it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.main import _run
from paddock.doors.network.sample_request import SampleRequest, actions_of
from paddock.gate.approvals.proposals import asking_terms
from paddock.gate.approvals.questions import Approvals, Question, digest_of
from paddock.gate.approvals.request import login_name
from paddock.gate.ledger import Accounts
from paddock.gate.run_gate import gate_store
from paddock.model.action import Action, Effect, Kind
from paddock.policy.file import load
from paddock.state.home import Home

FILE = """\
version: 1
agent: support-bot
stage: broad
tools: {issue_refund: {effect: write}}
rules:
  - id: big-refunds
    match: {kind: tool, name: issue_refund}
    when: args.amount > 5000
    decide: ask
    why: Refunds over 50.00 need a person.
"""
Said = pytest.CaptureFixture[str]


@pytest.fixture
def approvals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Approvals]:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    store = gate_store(Home.find())
    yield Approvals(store)
    store.close()


def ask(approvals: Approvals, *, with_terms: bool = True, **arguments: Any) -> str:
    policy = load(FILE)
    given = {"amount": 9000, **arguments}
    action = Action(Kind.TOOL, "issue_refund", given, Effect.WRITE, is_reversible=False)
    decision = policy.decide(action)
    terms = asking_terms(policy, action, decision) if with_terms else {}
    digest = digest_of(action, policy.digest, "run-1")
    return approvals.ask(
        Question("run-1", "support-bot", 3, action, decision, {"after": 1}, policy.digest, digest,
                 900.0, terms)
    ).approval_id  # fmt: skip


def paddock(*words: str) -> int:
    return _run("approvals", list(words))


# ---- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["list"]])
def test_list_shows_what_waits(approvals: Approvals, capsys: Said, words: list[str]) -> None:
    first, second = ask(approvals), ask(approvals)
    approvals.deny(second, "ann")
    assert paddock(*words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for part in (first, "support-bot", "tool issue_refund", "big-refunds", "14m"):
        assert part in lines[1]
    assert paddock(*words, "--all") == 0
    assert "denied" in capsys.readouterr().out


def test_nothing_that_waits_prints_nothing(approvals: Approvals, capsys: Said) -> None:
    assert paddock() == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", [["--json"], ["list", "--json"], ["--json", "list"]])
def test_list_as_json(approvals: Approvals, capsys: Said, words: list[str]) -> None:
    approval_id = ask(approvals)
    assert paddock(*words) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["approval_id"] == approval_id
    assert one["content"]["arguments"] == {"amount": 9000}
    assert 800 < one["left_s"] <= 900


def test_show_has_everything_and_takes_the_beginning_of_an_id(
    approvals: Approvals, capsys: Said
) -> None:
    approval_id = ask(approvals, note="\x1b[2Jhello")
    assert paddock("show", approval_id[:5]) == 0
    out = capsys.readouterr().out
    for part in ("amount = 9000", "big-refunds", "step 3", '{"after": 1}', "pending", "CANNOT"):
        assert part in out
    assert "\x1b" not in out
    assert paddock("show", approval_id, "--json") == 0
    assert json.loads(capsys.readouterr().out)["content"]["preview"] == {"after": 1}


def test_names_of_an_agent_do_not_act_on_the_terminal(approvals: Approvals, capsys: Said) -> None:
    action = Action(Kind.TOOL, "evil\x1b[2J\nname", {}, Effect.WRITE)
    decision = load(FILE).decide(Action(Kind.TOOL, "issue_refund", {"amount": 9000}))
    approvals.ask(Question("r\x1b", "a\x1b", 1, action, decision, None, "", "", 900.0))
    assert paddock() == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


# ---- answering -----------------------------------------------------------------------------------


def test_approve_is_by_the_login_name_or_the_one_given(approvals: Approvals, capsys: Said) -> None:
    first, second = ask(approvals), ask(approvals)
    assert paddock("approve", first, "--reason", "fine") == 0
    assert paddock("approve", second, "--by", "ann", "--json") == 0
    plain, as_json = capsys.readouterr().out.splitlines()
    assert plain == f"approved {first}"
    assert json.loads(as_json)["answered_by"] == "ann"
    kept = approvals.get(first)
    assert (kept.state, kept.answered_by, kept.reason) == ("approved", login_name(), "fine")


def test_deny_keeps_the_reason(approvals: Approvals) -> None:
    approval_id = ask(approvals)
    assert paddock("deny", approval_id, "--reason", "too much") == 0
    assert approvals.get(approval_id).reason == "too much"


@pytest.mark.parametrize("answer", ["approve", "deny", "edit"])
def test_who_comes_late_is_told_who_was_first(
    approvals: Approvals, capsys: Said, answer: str
) -> None:
    approval_id = ask(approvals)
    approvals.approve(approval_id, "bob")
    more = ["--set", "amount=1"] if answer == "edit" else []
    assert paddock(answer, approval_id, *more) == 4
    said = capsys.readouterr()
    assert "approved already by bob" in said.err
    assert said.out == ""


@pytest.mark.parametrize("word", ["show", "approve", "deny"])
def test_unknown_id_is_said_so(approvals: Approvals, capsys: Said, word: str) -> None:
    assert paddock(word, "ffffffff") == 1
    assert "no approval 'ffffffff'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "edited"),
    [
        (["--set", "amount=100"], {"amount": 100, "note": "hi"}),
        (["--set", "amount=100", "--set", 'note="b=c"'], {"amount": 100, "note": "b=c"}),
        (["--set", "note=a text = text"], {"amount": 9000, "note": "a text = text"}),
        (["--arguments", '{"amount": 5, "note": "b"}'], {"amount": 5, "note": "b"}),
    ],
)
def test_edit_changes_what_it_says(
    approvals: Approvals, words: list[str], edited: dict[str, Any]
) -> None:
    approval_id = ask(approvals, note="hi")
    assert paddock("edit", approval_id, *words) == 0
    kept = approvals.get(approval_id)
    assert (kept.state, kept.edited) == ("edited", edited)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "amount"], "'amount' is not PATH=VALUE"),
        (["--set", "amount=hello"], "not JSON"),
        (["--set", "amuont=5"], "amuont: there is no such field"),
        (["--set", "amount.cents=5"], "amount.cents: there is no such field"),
        (["--set", 'amount="5"'], 'amount is a number (9000), and "5" is a text'),
        (["--set", "amount=null"], "amount is a number (9000), and null is null"),
        (["--set", "amount=true"], "true is true or false"),
        (["--arguments", '{"amount": 5, "to": "eve"}'], "to: there is no such field"),
        (["--arguments", "{}"], "amount: the field is missing"),
        (["--set", "amount=NaN"], "not a number"),
        (["--arguments", "[1]"], "not a JSON object"),
        (["--arguments", '{"a": 1, "a": 2}'], "twice"),
        (["--arguments", "{"], "hint: write one JSON object"),
        (["--arguments", "[" * 100_000], "not JSON"),
    ],
)
def test_edit_that_cannot_be_read_is_a_mistake_and_answers_nothing(
    approvals: Approvals, capsys: Said, words: list[str], says: str
) -> None:
    approval_id = ask(approvals)
    assert paddock("edit", approval_id, *words) == 2
    assert says in capsys.readouterr().err
    assert approvals.get(approval_id).state == "pending"


HTTP = """\
version: 1
agent: support-bot
stage: broad
network: {allow: ["api.stripe.com:443"]}
rules:
  - {id: people, match: {kind: http, path: /v1/refunds}, when: int(body.amount) > 50, decide: ask,
     why: Look.}
  - {id: above-all, match: {kind: http}, when: int(body.amount) > 5000, decide: block, why: Never.}
  - {id: budget, match: {kind: http}, limit: {sum: int(body.amount), max: 1000, per: 24h},
     decide: block, why: Spent.}
"""


def ask_about_request(approvals: Approvals, body: str, run: str = "run-1") -> str:
    """A question as a run puts it, with what the run has reserved."""
    policy = load(HTTP)
    sample = SampleRequest("POST", "https://api.stripe.com/v1/refunds", body=body.encode())
    action = actions_of(sample).request
    reserved = Accounts(approvals.store, policy.agent, run).reserve(policy, action)
    decision = policy.decide(action, reserved.spent)
    assert decision.verdict == "ask"
    approvals.keep_policy(policy)
    digest = digest_of(action, policy.digest, run)
    question = Question(run, policy.agent, 3, action, decision, None, policy.digest, digest, 900.0)
    return approvals.ask(question).approval_id


@pytest.mark.parametrize(
    ("body", "amount", "line"),
    [
        ('{"amount": 900, "items": [{"id": "a.b"}]}', 100, "  body.amount  900 -> 100\n"),
        ("amount=900&reason=duplicate", "100", '  body.amount  "900" -> "100"\n'),
    ],
    ids=["json", "form"],
)
def test_field_of_a_body_is_edited_by_its_path_and_shown_before_and_after(
    approvals: Approvals, capsys: Said, body: str, amount: Any, line: str
) -> None:
    approval_id = ask_about_request(approvals, body)
    assert paddock("edit", approval_id, "--set", "body.amount=100") == 0
    assert capsys.readouterr().out == f"edited {approval_id}\n{line}"
    edited = approvals.get(approval_id).edited
    assert edited is not None
    assert edited["body"] == {**approvals.get(approval_id).content["arguments"]["body"],
                              "amount": amount}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "body.amount=6000"], "above-all would block the edited call: Never."),
        (["--set", "body.amount=1001"], "budget would block the edited call: Spent."),
        (["--set", "host=evil.example"], "network would block the edited call"),
        (["--set", "body.amount=lots"], "not JSON"),
        (["--set", 'body="amount=5"'], "body is an object"),
        (["--set", "body.amuont=5"], "hint: fields of body: amount, items"),
        (["--set", "body.items.1.id=x"], "body.items.1.id: there is no such field"),
        (["--set", "headers.host=evil.example"], "headers of a request cannot be edited"),
    ],
)
def test_edit_that_could_not_be_carried_out_is_refused_when_it_is_entered(
    approvals: Approvals, capsys: Said, words: list[str], says: str
) -> None:
    approval_id = ask_about_request(approvals, '{"amount": 900, "items": [{"id": "a"}]}')
    assert paddock("edit", approval_id, *words) == 2
    assert says in capsys.readouterr().err
    assert approvals.get(approval_id).state == "pending"


def test_edited_call_may_spend_what_the_first_had_reserved(approvals: Approvals) -> None:
    approval_id = ask_about_request(approvals, '{"amount": 900}')
    assert paddock("edit", approval_id, "--set", "body.amount=1000") == 0


def test_program_cannot_be_edited_and_that_is_said_at_once(
    approvals: Approvals, capsys: Said
) -> None:
    action = Action(Kind.EXEC, "git", {"argv": ["git"]}, Effect.WRITE, is_contained=True)
    question = Question("run-1", "a", 1, action, load(FILE).decide(action), None, "p", "d", 900.0)
    approval_id = approvals.ask(question).approval_id
    assert paddock("edit", approval_id, "--arguments", '{"argv": ["ls"]}') == 2
    assert "'git' runs inside and cannot be edited" in capsys.readouterr().err


def test_edit_needs_one_way_of_editing(approvals: Approvals, capsys: Said) -> None:
    for words in ([], ["--set", "a=1", "--arguments", "{}"]):
        with pytest.raises(SystemExit) as end:
            paddock("edit", ask(approvals), *words)
        assert end.value.code == 2
    assert "--set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "code"),
    [('echo \'{"amount": 7}\' >"$1"', 0), ("true", 2), ("exit 1", 2), ('echo "{" >"$1"', 2)],
)
def test_edit_in_an_editor(
    approvals: Approvals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: int
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{body}\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(editor))
    approval_id = ask(approvals)
    assert paddock("edit", approval_id, "--editor") == code
    kept = approvals.get(approval_id)
    assert (kept.state, kept.edited) == (("pending", None) if code else ("edited", {"amount": 7}))


def test_editor_that_is_not_set_is_said_so(
    approvals: Approvals, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    assert paddock("edit", ask(approvals), "--editor") == 2
    assert "$EDITOR" in capsys.readouterr().err


# ---- always, proposals, statistics ---------------------------------------------------------------


def test_always_shows_the_rule_and_keeps_it_for_review(approvals: Approvals, capsys: Said) -> None:
    approval_id = ask(approvals)
    assert paddock("approve", approval_id, "--always", "--by", "ann") == 0
    shown = capsys.readouterr().out
    assert "!(" in shown
    assert paddock("proposals") == 0
    listed = capsys.readouterr().out
    assert listed in shown
    assert f"Proposed by ann on 20{listed.partition(' on 20')[2].partition(',')[0]}" in listed
    assert paddock("proposals", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["approval_id"], one["rules"][0]["id"]) == (approval_id, "big-refunds")
    assert paddock("proposals", "--discard", approval_id) == 0
    assert paddock("proposals") == 0
    assert capsys.readouterr().out == ""
    assert paddock("proposals", "--discard", approval_id) == 1


def test_always_that_cannot_be_is_still_a_yes_and_fails(approvals: Approvals, capsys: Said) -> None:
    approval_id = ask(approvals, note="x" * 4000)
    assert paddock("approve", approval_id, "--always") == 1
    said = capsys.readouterr()
    assert "approved this once; no rule is proposed" in said.err
    assert approvals.get(approval_id).state == "approved"


def test_file_can_say_what_the_question_does_not(
    approvals: Approvals, capsys: Said, tmp_path: Path
) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    approval_id = ask(approvals, with_terms=False)
    assert paddock("approve", approval_id, "--always", "--file", str(tmp_path / "none")) == 2
    assert approvals.get(approval_id).state == "pending"
    assert paddock("approve", approval_id, "--always", "--file", str(path)) == 0
    assert "big-refunds" in capsys.readouterr().out


def test_statistics_as_table_and_json(approvals: Approvals, capsys: Said) -> None:
    for answer in (approvals.approve, approvals.approve, approvals.approve, approvals.deny):
        answer(ask(approvals), "ann")
    assert paddock("stats", "--since", "7d", "--agent", "support-bot") == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["RULE", "ASKED", "APPROVED"]
    assert row.split() == ["big-refunds", "4", "3", "0", "1", "0", "0s", "75%"]
    assert paddock("stats", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["asked"], one["false_alarms"], one["answered"]) == (4, 0.75, 4)
    assert paddock("stats", "--agent", "nobody") == 0
    assert capsys.readouterr().out == ""
    assert paddock("stats", "--since", "soon") == 2
    assert "--since" in capsys.readouterr().err


# ---- as a process --------------------------------------------------------------------------------


def test_watch_goes_on_as_questions_come_and_are_answered(
    approvals: Approvals, tmp_path: Path
) -> None:
    first = ask(approvals)
    program = "import sys; from paddock.cli.main import _run; _run('approvals', sys.argv[1:])"
    watcher = subprocess.Popen(
        [sys.executable, "-c", program, "--watch", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PADDOCK_HOME": str(tmp_path / "home")},
    )
    assert watcher.stdout is not None
    seen = [json.loads(watcher.stdout.readline())]
    second = ask(approvals)
    seen.append(json.loads(watcher.stdout.readline()))
    approvals.deny(first, "ann")
    seen.append(json.loads(watcher.stdout.readline()))
    watcher.terminate()
    watcher.communicate(timeout=30)
    told = [(one["approval_id"], one["state"]) for one in seen]
    assert told == [(first, "pending"), (second, "pending"), (first, "denied")]


def test_terminal_without_the_letters_still_shows_the_question(
    approvals: Approvals, tmp_path: Path
) -> None:
    approval_id = ask(approvals, note="Grüße 漢字")
    program = (
        "import sys; from paddock.cli.main import _run; sys.exit(_run('approvals', sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "show", approval_id],
        capture_output=True,
        text=True,
        env={**os.environ, "PADDOCK_HOME": str(tmp_path / "home"), "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Gr\\xfc\\xdfe" in done.stdout


def test_help_loads_no_machinery_and_makes_no_home(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom paddock.cli.main import _run\n"
        "try: _run(sys.argv[1], ['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('asyncio', 'sqlite3', 'yaml', 'pydantic') if m in sys.modules])\n"
    )
    for command in ("approvals", "drafts"):
        done = subprocess.run(
            [sys.executable, "-c", program, command],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PADDOCK_HOME": str(tmp_path / "home")},
        )
        assert f"usage: paddock {command}" in done.stdout
        assert done.stdout.splitlines()[-1] == "[]"
    assert not (tmp_path / "home").exists()
