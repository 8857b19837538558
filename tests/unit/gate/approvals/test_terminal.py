"""The prompt of a run, at a real terminal, with stdin and stdout elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from paddock.gate.approvals import Approvals
from paddock.gate.approvals.proposals import Proposals
from paddock.gate.approvals.terminal import TerminalApprover
from paddock.gate.run_gate import approvers_for
from paddock.journal.integrity.keys import SigningKey
from paddock.policy.decide import Policy
from paddock.policy.file import load
from unit.gate.gates import REFUNDS, asked, finished, python
from unit.gate.terminals import Screen, at_terminal

# Refunds that are asked at the terminal; says on stdout what came of each.
RUN = """
import asyncio, json, os, sys
from pathlib import Path
from paddock.journal.integrity.keys import SigningKey
from paddock.gate.approvals import terminal
from paddock.gate.approvals.terminal import TerminalApprover
from unit.gate.gates import Tool, make_gate, refund

home, text = Path(sys.argv[1]), sys.argv[3]
terminal._QUIET_S = float(os.environ.get("QUIET_S", terminal._QUIET_S))
calls = [refund(**one) for one in json.loads(sys.argv[4])]
run = sys.argv[5] if len(sys.argv) > 5 else "run-1"
gate = make_gate(home, SigningKey.open(Path(sys.argv[2])), text, run=run,
                 approvers=[TerminalApprover("ann")])
tool = Tool()

async def preview(action):
    return {"balance_after": 100}

async def cross(action):
    receipt = await gate.cross(action, tool, preview)
    return [receipt.outcome, receipt.answered_by, receipt.error]

async def all_of_them():
    return await asyncio.gather(*map(cross, calls))

came = asyncio.run(all_of_them())
print(json.dumps([came, tool.calls]))
"""


def run(tmp_path: Path, key: SigningKey, *calls: dict[str, Any], text: str = REFUNDS) -> Any:
    wanted = calls or ({"amount": 9000},)
    return (RUN, tmp_path, key.directory, text, json.dumps(wanted))


def outcome(screen: Screen) -> tuple[list[Any], list[Any]]:
    screen.rest()
    assert screen.process.stdout is not None
    assert screen.process.stderr is not None
    said = screen.process.stdout.read()
    assert said, screen.process.stderr.read()
    came, calls = json.loads(said)
    return came, calls


def test_question_shows_all_that_an_answer_needs(tmp_path: Path, key: SigningKey) -> None:
    with at_terminal(*run(tmp_path, key, {"amount": 9000, "note": "for Ada"})) as screen:
        shown = screen.wait_for(" left) > ")
        for part in (
            "tool issue_refund",
            "write, CANNOT be undone",
            "support-bot, run run-1, step 1",
            "big-refunds",
            "Refunds over 50.00 need a person.",
            "amount = 9000",
            'note = "for Ada"',
            '{"balance_after": 100}',
            "[a]pprove  [d]eny  [e]dit  [s]kip  [A]lways",
        ):
            assert part in shown, part
        screen.press("a\n")
        came, calls = outcome(screen)
        assert came == [["done", "ann", None]]
        assert calls == [{"amount": 9000, "customer": "ada", "note": "for Ada"}]


@pytest.mark.parametrize("keys", ["y\n", "yes\n"])
def test_yes_approves(tmp_path: Path, key: SigningKey, keys: str) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        screen.press(keys)
        came, calls = outcome(screen)
        assert (came[0][0], len(calls)) == ("done", 1)


@pytest.mark.parametrize("keys", ["d too much\n", "d\n", "n too much\n", "no too much\n"])
def test_deny_with_a_reason(tmp_path: Path, key: SigningKey, keys: str) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        screen.press(keys)
        if keys == "d\n":
            screen.wait_for("reason (may be empty) > ")
            screen.press("too much\n")
        came, calls = outcome(screen)
        assert came == [["refused", None, "ann said no: too much"]]
        assert calls == []


def test_keys_that_are_no_answer_approve_nothing(tmp_path: Path, key: SigningKey) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        for keys in ("", "ye", "yy", "\x1b[A", "\x1b[A\x1b[A", "aa", "AA", " ", "approv"):
            screen.press(f"{keys}\n")
            screen.wait_for("left) > ")
        screen.press("d no\n")
        came, calls = outcome(screen)
        assert (came[0][0], calls) == ("refused", [])


def test_what_was_typed_before_the_question_is_no_answer(tmp_path: Path, key: SigningKey) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.press("a\na\nA\n")
        screen.wait_for("left) > ")
        screen.press("d no\n")
        came, calls = outcome(screen)
        assert (came[0][0], calls) == ("refused", [])


def test_edit_of_one_argument_inline(tmp_path: Path, key: SigningKey) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        screen.press("e\n")
        screen.wait_for("  > ")
        screen.press("amount=oops\n")
        assert "not JSON" in screen.wait_for("left) > ")
        screen.press("e\n")
        screen.wait_for("  > ")
        screen.press("amount=90001\n")
        assert "no-fraud would block the edited call" in screen.wait_for("left) > ")
        screen.press("e\n")
        screen.wait_for("  > ")
        screen.press("amount=100\n")
        screen.wait_for("amount  9000 -> 100")
        came, calls = outcome(screen)
        assert came[0][0] == "done"
        assert calls == [{"amount": 100, "customer": "ada"}]


def test_edit_of_all_arguments_inline(tmp_path: Path, key: SigningKey) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        screen.press("e\n")
        screen.wait_for("  > ")
        screen.press('{"amount": 1, "customer": "bob"}\n')
        _, calls = outcome(screen)
        assert calls == [{"amount": 1, "customer": "bob"}]


def editor(tmp_path: Path, body: str) -> str:
    path = tmp_path / "editor"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_edit_in_an_editor_that_has_the_terminal(tmp_path: Path, key: SigningKey) -> None:
    ed = editor(tmp_path, 'test -t 0 && test -t 1 && echo edit: && read x && echo "$x" >"$2"')
    with at_terminal(*run(tmp_path, key), EDITOR=f"{ed} --wait") as screen:
        screen.wait_for("left) > ")
        screen.press("e\n")
        screen.wait_for("edit:")
        screen.press('{"amount": 3}\n')
        assert "customer: the field is missing" in screen.wait_for("left) > ")
        screen.press("e\n")
        screen.wait_for("edit:")
        screen.press('{"amount": 3, "customer": "ada"}\n')
        assert "decide on it again" in screen.wait_for("again")
        came, calls = outcome(screen)
        assert (came[0][0], calls) == ("done", [{"amount": 3, "customer": "ada"}])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("exit 3", "ended with 3"),
        ("true", "nothing was changed"),
        ('echo "{" >"$1"', "not JSON"),
        ('rm "$1"', "left no file"),
    ],
)
def test_editor_that_gives_nothing_answers_nothing(
    tmp_path: Path, key: SigningKey, body: str, says: str
) -> None:
    with at_terminal(*run(tmp_path, key), EDITOR=editor(tmp_path, body)) as screen:
        screen.wait_for("left) > ")
        screen.press("e\n")
        assert says in screen.wait_for("left) > ")
        screen.press("d no\n")
        _, calls = outcome(screen)
        assert calls == []


def test_always_approves_once_and_proposes_a_rule(
    tmp_path: Path, key: SigningKey, approvals: Approvals
) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        screen.press("A\n")
        assert "!(args == {'amount': 9000, 'customer': 'ada'})" in screen.wait_for("[y/N] > ")
        assert Proposals(approvals.store).all() == []
        screen.press("n\n")
        screen.wait_for("left) > ")
        screen.press("A\n")
        screen.wait_for("[y/N] > ")
        screen.press("y\n")
        screen.wait_for("waits for review")
        came, calls = outcome(screen)
        assert (came[0][0], len(calls)) == ("done", 1)
    (proposal,) = Proposals(approvals.store).all()
    assert proposal.made_by == "ann"
    assert proposal.rules[0]["id"] == "big-refunds"


def test_skip_leaves_it_to_others(tmp_path: Path, key: SigningKey, approvals: Approvals) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        screen.press("s\n")
        screen.wait_for("left to others")
        (one,) = asyncio.run(asked(approvals))
        approvals.approve(one.approval_id, "bob")
        came, _ = outcome(screen)
        assert came == [["done", "bob", None]]


@pytest.mark.parametrize("during", ["menu", "reason", "editor"])
def test_answer_of_somebody_else_ends_the_prompt_and_says_who(
    tmp_path: Path, key: SigningKey, approvals: Approvals, during: str
) -> None:
    ed = editor(tmp_path, "echo editing; sleep 300")
    with at_terminal(*run(tmp_path, key), EDITOR=ed) as screen:
        screen.wait_for("left) > ")
        if during == "reason":
            screen.press("d\n")
            screen.wait_for("reason")
        elif during == "editor":
            screen.press("e\n")
            screen.wait_for("editing")
        (one,) = approvals.all()
        approvals.approve(one.approval_id, "bob")
        screen.wait_for("approved by bob, elsewhere")
        came, calls = outcome(screen)
        assert (came, len(calls)) == ([["done", "bob", None]], 1)


def test_answer_to_a_question_that_is_gone_is_none_to_the_next(
    tmp_path: Path, key: SigningKey, approvals: Approvals
) -> None:
    calls = ({"amount": 6001}, {"amount": 6002})
    with at_terminal(*run(tmp_path, key, *calls), QUIET_S="5") as screen:
        shown = screen.wait_for("left) > ")
        amount = int(shown.partition("amount = ")[2].split()[0])
        first = next(one for one in approvals.all() if one.content["arguments"]["amount"] == amount)
        approvals.deny(first.approval_id, "bob")
        screen.wait_for("denied by bob, elsewhere")
        time.sleep(0.7)  # long after the second could have been shown
        screen.press("a\n")
        screen.wait_for("left) > ")
        screen.press("d no\n")
        _, done = outcome(screen)
        assert done == []


def test_time_that_runs_out_ends_the_prompt_and_means_no(tmp_path: Path, key: SigningKey) -> None:
    text = REFUNDS.replace("30s", "1s")
    with at_terminal(*run(tmp_path, key, text=text)) as screen:
        screen.wait_for("left) > ")
        assert "means no" in screen.rest()
        came, calls = outcome(screen)
        assert (came[0][0], calls) == ("refused", [])


def test_questions_of_one_run_come_one_after_the_other(tmp_path: Path, key: SigningKey) -> None:
    calls = [{"amount": 9000 + number} for number in range(4)]
    with at_terminal(*run(tmp_path, key, *calls)) as screen:
        answers = {}
        for number in range(4):
            shown = screen.wait_for("left) > ")
            assert shown.count("amount = ") == 1
            amount = int(shown.partition("amount = ")[2].split()[0])
            answers[amount] = number % 2
            screen.press("a\n" if number % 2 else "d no\n")
        _, done = outcome(screen)
        assert {one["amount"] for one in done} == {one for one, yes in answers.items() if yes}


def test_questions_of_two_processes_at_one_terminal_do_not_mix(
    tmp_path: Path, key: SigningKey
) -> None:
    both = """
import subprocess, sys
runs = [subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:5],
                          '[{"amount": %d}]' % amount, f"run-{amount}"],
                         stdout=subprocess.PIPE, text=True) for amount in (6001, 6002)]
print("\\n".join(one.communicate()[0].strip() for one in runs))
"""
    with at_terminal(both, RUN, tmp_path, key.directory, REFUNDS) as screen:
        denied = 0
        for number in range(2):
            shown = screen.wait_for("left) > ")
            assert shown.count("amount = ") == 1
            amount = int(shown.partition("amount = ")[2].split()[0])
            denied = denied or amount
            screen.press("a\n" if number else "d no\n")
        screen.rest()
        assert screen.process.stdout is not None
        lines = [json.loads(line) for line in screen.process.stdout.read().splitlines()]
        done = [one["amount"] for _, calls in lines for one in calls]
        assert done == [6001 + 6002 - denied]


HOSTILE = {
    "amount": 9000,
    "clear": "\x1b[2J\x1b[H\x1b]0;title\x07",
    "csi": "\x9b2J",
    "fake": "x" * 20 + " " * 300 + "  rule       harmless",
    "lines": "a\n  rule       harmless\n[a]pprove  > \r  why  fine",
    "bidi": "\u202e0005\u202c \u2066x\u2069 \u200b",
    "wide": "漢" * 100,
    "long": "y" * 5000,
    "\x1b[31mkey\nname": 1,
}


def test_strings_of_an_agent_do_not_act_on_the_terminal(tmp_path: Path, key: SigningKey) -> None:
    with at_terminal(*run(tmp_path, key, HOSTILE), columns=60) as screen:
        shown = screen.wait_for("left) > ").replace("\r\n", "\n")
        screen.press("d no\n")
        outcome(screen)
    assert not [one for one in shown if not one.isprintable() and one != "\n"]
    assert "\\u001b[2J" in shown
    assert "\\u202e" in shown
    assert "(... 3002 more characters)" in shown  # with the quotes
    lines = shown.split("\n")
    assert max(map(len, lines[:-1])) <= 60
    # Whatever looks like ours and is the agent's stands behind a bar.
    assert [line for line in lines if "harmless" in line and not line.startswith("    | ")] == []
    assert [line for line in lines if line.startswith("  rule")] == ["  rule       big-refunds"]


def test_terminal_in_raw_mode_takes_lines_and_is_raw_again(tmp_path: Path, key: SigningKey) -> None:
    with at_terminal(*run(tmp_path, key), raw=True) as screen:
        screen.wait_for("left) > ")
        assert screen.local_flags() & termios.ICANON
        screen.press("a\r")
        came, _ = outcome(screen)
        assert came[0][0] == "done"
        assert not screen.local_flags() & termios.ICANON


def test_end_of_input_leaves_it_to_others(
    tmp_path: Path, key: SigningKey, approvals: Approvals
) -> None:
    with at_terminal(*run(tmp_path, key)) as screen:
        screen.wait_for("left) > ")
        screen.press("\x04")
        screen.wait_for("\n")
        (one,) = approvals.all()
        approvals.deny(one.approval_id, "bob")
        came, _ = outcome(screen)
        assert came[0][2] == "bob said no."


WITHOUT = """
import asyncio, sys
from pathlib import Path
from paddock.gate.approvals import Approvals
from paddock.gate.store import GateStore
from paddock.gate.approvals.terminal import TerminalApprover
from unit.gate.approvals.test_questions import question
approvals = Approvals(GateStore(Path(sys.argv[1])))
asyncio.run(TerminalApprover().consider(approvals.ask(question()), approvals))
print(approvals.all()[0].state)
"""


def test_without_a_terminal_it_returns_at_once_and_answers_nothing(tmp_path: Path) -> None:
    process = python(
        WITHOUT, tmp_path / "gate.sqlite", start_new_session=True, stdin=subprocess.DEVNULL
    )
    assert finished(process).strip() == "pending"


def test_process_in_the_background_is_not_stopped_and_asks_when_it_comes_to_the_front(
    tmp_path: Path, key: SigningKey, approvals: Approvals
) -> None:
    behind = """
import os, subprocess, sys, time
run = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], process_group=0)
from pathlib import Path
while not (Path(sys.argv[2]) / "front").exists():
    time.sleep(0.05)
tty = os.open("/dev/tty", os.O_RDWR)
os.tcsetpgrp(tty, run.pid)
sys.exit(run.wait())
"""
    with at_terminal(behind, *run(tmp_path, key)) as screen:
        asyncio.run(asked(approvals))
        assert "[a]pprove" not in screen.text
        (tmp_path / "front").touch()
        screen.wait_for("left) > ")
        screen.press("a\n")
        came, _ = outcome(screen)
        assert came[0][0] == "done"


def test_file_names_who_is_asked_here() -> None:
    (one,) = approvers_for(_policy("terminal, store"))
    assert isinstance(one, TerminalApprover)
    assert approvers_for(_policy("store")) == []


def test_no_descriptor_is_left_open(tmp_path: Path, approvals: Approvals) -> None:
    from unit.gate.approvals.test_questions import question

    one = approvals.ask(question())
    approvals.deny(one.approval_id, "bob")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        asyncio.run(asyncio.wait_for(TerminalApprover().consider(one, approvals), 10))
    assert len(os.listdir("/proc/self/fd")) == before


def _policy(by: str) -> Policy:
    return load(
        "version: 1\nagent: a\nstage: observe\n"
        "rules: [{id: r, match: {kind: exec, program: x}, decide: block, why: w}]\n"
        f"approvals: {{by: [{by}]}}\n"
    )
