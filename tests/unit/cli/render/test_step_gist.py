"""What a person reads first of a step: what was asked and what came back."""

from __future__ import annotations

from pathlib import Path

from paddock.cli.commands.step import open_view
from paddock.cli.render.step_gist import gist_of, in_order
from paddock.cli.render.step_panes import step_pane, without_mark
from paddock.model.events import Record
from paddock.model.steps import Step
from unit.cli.conftest import Call
from unit.cli.past import proposed, settled
from unit.run.recorded import Crossed, agent, ask_model, post, record

HEADERS = {f"x-{n}": "0" * 32 for n in range(18)}
ANSWER = {
    "text": "I look it up.\nWait.",
    "tool_calls": [{"id": "c1", "name": "lookup", "arguments": {"order": 7, "deep": {"a": 1}}}],
    "usage": {"input": 1},
}
USUAL = (
    Crossed(agent("python", "agent.py"), record={"exit_code": 0}),
    Crossed(post(charge="ch_1"), record={"status": 201, "headers": HEADERS,
                                         "body": '{"id":"re_1","amount":100}'}),
    Crossed(ask_model("where is it?"), record={"status": 200, "headers": HEADERS, "answer": ANSWER,
                                               "body": "{}", "sha256": "f" * 64}),
)  # fmt: skip


def test_prompt_answer_and_calls_come_before_everything_else(home: Path, call: Call) -> None:
    record(home, "r", USUAL)
    lines = call("show", "r", "--step", "3").out.splitlines()
    assert lines[:4] == ["prompt", "    | where is it?", "answer", "    | I look it up."]
    assert lines[4:8] == ["    | Wait.", "calls lookup", "    | {", '    |   "deep": {']
    first = next(n for n, line in enumerate(lines) if line.startswith("record "))
    assert any("--conversation" in line for line in lines[:first])
    headers = next(n for n, line in enumerate(lines) if line.startswith("    headers"))
    assert lines[headers - 1].strip().startswith("status")
    assert lines[headers + 1].strip().startswith("sha256")


def test_the_bodies_of_a_request_come_before_everything_else(home: Path, call: Call) -> None:
    record(home, "r", USUAL)
    lines = call("show", "r", "--step", "2").out.splitlines()
    assert lines[0] == "sent" and '    |   "charge": "ch_1"' in lines
    assert lines.index("got 201") < lines.index('    |   "amount": 100') < lines.index("")
    assert not any("--conversation" in line for line in lines)


def test_a_step_that_sent_nothing_begins_with_its_records(home: Path, call: Call) -> None:
    record(home, "r", USUAL)
    assert call("show", "r", "--step", "1").out.startswith("record ")


def test_the_walk_shows_the_same_first_and_headers_last(home: Path) -> None:
    view = open_view(record(home, "r", USUAL))
    asked = [without_mark(line) for line in step_pane(view.recorded(3))]
    assert asked[:2] == ["prompt", "where is it?"]
    assert asked.index("calls lookup") < asked.index("proposed") < asked.index("headers")
    sent = [without_mark(line) for line in step_pane(view.recorded(2))]
    assert sent[0] == "sent" and sent.index("got 201") < sent.index("proposed")
    assert sum("re_1" in line for line in sent) == 1


def test_what_a_journal_from_elsewhere_says_is_taken_as_it_is() -> None:
    calls = {"answer": {"tool_calls": [7, {}]}}
    odd_values = (None, 7, "x", [1], {"answer": 7, "body": [1]}, calls)
    for odd in odd_values:
        for kind in ("model", "http", "exec"):
            arguments = odd if isinstance(odd, dict) else {"prompt": odd, "body": odd}
            events = (proposed(kind, arguments), settled("done", odd))
            gist_of(Step(1, [Record(n=0, at=0, step=1, event=event) for event in events]))
    assert list(in_order({"sha256": 1, "headers": 2, "b": 3, "a": 4})) == [
        "b", "a", "headers", "sha256"]  # fmt: skip
