"""`paddock drafts`: looked at, discarded, or sent through the gate by the user's functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cli.main import _run
from paddock.gate.drafts import Drafts
from paddock.gate.run_gate import gate_store
from paddock.journal.integrity.verify import verify
from paddock.model.action import Action, Effect, Kind
from paddock.state.home import Home

FILE = """\
version: 1
agent: support-bot
stage: draft
tools: {issue_refund: {effect: write}, close: {effect: write}}
rules:
  - id: no-fortune
    match: {kind: tool, name: issue_refund}
    when: args.amount > 900
    decide: block
approvals: {timeout: 1s, by: [store]}
"""
TOOLS = """\
import asyncio
from paddock.doors.tools.definition import tool
from pathlib import Path

def issue_refund(amount, customer="ada"):
    with open(Path(__file__).with_suffix(".log"), "a") as file:
        file.write(f"{amount} {customer}\\n")
    return {"refunded": amount}

async def refund_slowly(amount):
    await asyncio.sleep(0)
    return issue_refund(amount)

def fail(amount):
    raise ConnectionError("no route to the bank")

@tool(effect="write", name="issue_refund")
def as_tool(amount: int) -> dict[str, int]:
    '''Refunds.'''
    return issue_refund(amount)

class Bank:
    name = "issue_refund"
    def __call__(self, amount):
        return issue_refund(amount)

BY_NAME = {"issue_refund": issue_refund}
SLOW = {"issue_refund": refund_slowly}
FAILING = {"issue_refund": fail}
LIST = [issue_refund]
BANK = Bank()
NUMBER = 5
"""
Said = pytest.CaptureFixture[str]


@pytest.fixture
def drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drafts]:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    name = f"tools_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(TOOLS)
    (tmp_path / "paddock.yaml").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    store = gate_store(Home.find())
    yield Drafts(store)
    store.close()


@pytest.fixture
def tools(tmp_path: Path) -> str:
    return f"tools_{tmp_path.name}"


def refunds(tmp_path: Path) -> list[str]:
    path = tmp_path / f"tools_{tmp_path.name}.log"
    return path.read_text().splitlines() if path.exists() else []


def draft(drafts: Drafts, amount: int = 300, step: int = 1, **more: object) -> str:
    arguments = {"amount": amount, **more}
    action = Action(Kind.TOOL, "issue_refund", arguments, Effect.WRITE, is_reversible=False)
    return drafts.add("run-1", "support-bot", step, action, {"after": 1})


def paddock(*words: str) -> int:
    return _run("drafts", list(words))


def test_list_and_show(drafts: Drafts, capsys: Said) -> None:
    assert paddock("list") == 0
    assert capsys.readouterr().out == ""
    draft_id = draft(drafts, note="\x1b[2J")
    assert paddock("list") == 0
    _, row = capsys.readouterr().out.splitlines()
    assert row.split()[:4] == [draft_id, "draft", "support-bot", "tool"]
    assert "issue_refund(amount=300, note=" in row
    assert "\x1b" not in row
    assert paddock("list", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["action"]["arguments"]["amount"] == 300
    assert paddock("show", draft_id) == 0
    shown = capsys.readouterr().out
    for part in ("amount = 300", "CANNOT be undone", '{"after": 1}', "run run-1, step 1"):
        assert part in shown
    assert "\x1b" not in shown
    assert paddock("show", draft_id, "--json") == 0
    assert json.loads(capsys.readouterr().out)["preview"] == {"after": 1}


def test_discarded_draft_is_gone_from_the_list_and_not_discarded_twice(
    drafts: Drafts, capsys: Said
) -> None:
    draft_id = draft(drafts)
    assert paddock("discard", draft_id, "--by", "ann") == 0
    assert capsys.readouterr().out == f"discarded {draft_id}\n"
    assert drafts.all() == []
    assert paddock("discard", draft_id) == 4
    assert "is discarded by ann already" in capsys.readouterr().err
    assert paddock("--all") == 0
    assert draft_id in capsys.readouterr().out
    assert paddock("show", "none-1") == 1


@pytest.mark.parametrize("what", ["BY_NAME", "LIST", "BANK", "issue_refund", "SLOW", "as_tool"])
def test_send_calls_the_function_once_and_records_it(
    drafts: Drafts, capsys: Said, tmp_path: Path, tools: str, what: str
) -> None:
    draft_id = draft(drafts)
    where = f"{tools}:{what}" if what else tools
    assert paddock("send", draft_id, "--tools", where, "--stage", "broad", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["outcome"], said["result"]) == ("sent", "done", {"refunded": 300})
    assert refunds(tmp_path) == ["300 ada"]
    run = Home.find().runs / said["sent_run"]
    from paddock.gate.run_gate import signing_key

    assert verify(run, signing_key(Home.find()).public, expect_closed=True).ok
    assert paddock("send", draft_id, "--tools", where, "--stage", "broad") == 4
    assert "sent" in capsys.readouterr().err
    assert refunds(tmp_path) == ["300 ada"]


def test_module_alone_gives_its_functions_by_name(
    drafts: Drafts, tmp_path: Path, tools: str
) -> None:
    (tmp_path / f"{tools}_plain.py").write_text(
        f"from {tools} import issue_refund\ndef other(): ...\n"
    )
    words = ("--tools", f"{tools}_plain", "--stage", "broad")
    assert paddock("send", draft(drafts), *words) == 0
    assert refunds(tmp_path) == ["300 ada"]


def test_file_of_the_stage_draft_needs_another_stage(
    drafts: Drafts, capsys: Said, tmp_path: Path, tools: str
) -> None:
    draft_id = draft(drafts)
    assert paddock("send", draft_id, "--tools", tools) == 2
    assert "--stage approve" in capsys.readouterr().err
    assert (refunds(tmp_path), drafts.get(draft_id).state) == ([], "draft")
    assert list(Home.find().runs.glob("*")) == []


@pytest.mark.parametrize(
    ("stage", "amount", "says"),
    [("broad", 1000, "refused"), ("approve", 300, "Nobody answered"), ("observe", 300, "observe")],
)
def test_what_the_rules_refuse_is_a_draft_again(
    drafts: Drafts, capsys: Said, tmp_path: Path, tools: str, stage: str, amount: int, says: str
) -> None:
    draft_id = draft(drafts, amount)
    assert paddock("send", draft_id, "--tools", tools, "--stage", stage) == 1
    said = capsys.readouterr().err
    assert says in said
    assert "it is a draft again" in said
    assert (refunds(tmp_path), drafts.get(draft_id).state) == ([], "draft")


def test_function_that_fails_leaves_a_draft_and_says_why(
    drafts: Drafts, capsys: Said, tools: str
) -> None:
    draft_id = draft(drafts)
    assert paddock("send", draft_id, "--tools", f"{tools}:FAILING", "--stage", "broad") == 1
    assert "no route to the bank" in capsys.readouterr().err
    assert drafts.get(draft_id).state == "draft"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("no_such_module", "cannot be imported"),
        ("{tools}:NOTHING", "has no 'NOTHING'"),
        ("{tools}:NUMBER", "no tool 'issue_refund'"),
        ("{tools}:fail", "it has fail"),
        ("", "cannot be imported"),
    ],
)
def test_tools_that_are_not_there_are_explained(
    drafts: Drafts, capsys: Said, tools: str, where: str, says: str
) -> None:
    draft_id = draft(drafts)
    assert paddock("send", draft_id, "--tools", where.format(tools=tools), "--stage", "broad") == 2
    assert says in capsys.readouterr().err
    assert drafts.get(draft_id).state == "draft"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--stage", "bold"], "is not a stage"),
        (["--stage", "broad", "--file", "none.yaml"], "--file"),
    ],
)
def test_policy_that_is_not_there_is_explained(
    drafts: Drafts, capsys: Said, tools: str, words: list[str], says: str
) -> None:
    draft_id = draft(drafts)
    assert paddock("send", draft_id, "--tools", tools, *words) == 2
    assert says in capsys.readouterr().err


def test_arguments_that_do_not_fit_the_function_are_told_before_anything_happens(
    drafts: Drafts, capsys: Said, tools: str
) -> None:
    draft_id = draft(drafts, wrong=1)
    assert paddock("send", draft_id, "--tools", tools, "--stage", "broad") == 2
    assert "does not take these arguments" in capsys.readouterr().err
    assert drafts.get(draft_id).state == "draft"


@pytest.mark.parametrize("amount", ["much", 1.5])
def test_arguments_that_do_not_fit_a_tool_are_told_before_anything_happens(
    drafts: Drafts, capsys: Said, tools: str, amount: object
) -> None:
    action = Action(Kind.TOOL, "issue_refund", {"amount": amount}, Effect.WRITE)
    draft_id = drafts.add("run-1", "a", 7, action, None)
    assert paddock("send", draft_id, "--tools", f"{tools}:as_tool", "--stage", "broad") == 2
    assert "does not take these arguments" in capsys.readouterr().err


def test_draft_of_another_kind_is_refused(drafts: Drafts, capsys: Said, tools: str) -> None:
    action = Action(Kind.CONNECT, "example.com", {"host": "example.com"}, Effect.WRITE)
    draft_id = drafts.add("run-1", "a", 9, action, None)
    assert paddock("send", draft_id, "--tools", tools, "--stage", "broad") == 2
    assert "only tools and requests" in capsys.readouterr().err


def test_stuck_draft_is_explained_and_can_be_put_away(drafts: Drafts, capsys: Said) -> None:
    draft_id = draft(drafts)
    drafts.change(draft_id, "sending", "ann")
    assert paddock("show", draft_id) == 0
    assert "interrupted" in capsys.readouterr().out
    assert paddock("discard", draft_id) == 4
    assert paddock("discard", draft_id, "--stuck") == 0
    assert drafts.get(draft_id).state == "discarded"
