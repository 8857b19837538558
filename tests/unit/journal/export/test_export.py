"""A run in the formats of others: whole, well-formed, and harmless to whoever opens it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.journal.export.formats import Format, export
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.model.action import Effect, Kind
from paddock.model.events import Marked
from unit.journal.conftest import OPENED, Opener, decided, proposed, settled, write_steps


def _text(directory: Path, form: Format) -> str:
    return "".join(export(directory, form))


def _spans(directory: Path) -> list[dict[str, Any]]:
    request = json.loads(_text(directory, Format.OTEL))
    return list(request["resourceSpans"][0]["scopeSpans"][0]["spans"])


def _attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_jsonl_is_one_file_that_verifies_like_the_journal(
    closed_run: Path, key: SigningKey, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(_text(closed_run, Format.JSONL))
    report = verify(path, key.public, expect_closed=True)
    assert report.ok, report
    assert not report.are_blobs_checked
    assert "not checked" in str(report)


def test_csv_has_a_row_for_each_step(closed_run: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(_text(closed_run, Format.CSV))))
    assert [row["step"] for row in rows] == [str(n) for n in range(6)]
    assert rows[2]["name"] == "search"
    assert rows[2]["verdict"] == "allow"
    assert json.loads(rows[2]["arguments"]) == {"limit": 3, "query": "ticket 2"}
    assert rows[2]["at"].endswith("Z")


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@sum", " =cmd()", "\uff1dcmd()", "|x"])
def test_csv_runs_no_formula_of_the_agent(opener: Opener, name: str) -> None:
    journal = opener()
    journal.append(proposed(1, name=name), 1)
    (row,) = csv.DictReader(io.StringIO(_text(journal.directory, Format.CSV), newline=""))
    assert row["name"] == f"'{name}"


def test_otel_has_a_span_for_the_run_and_one_below_it_for_each_step(closed_run: Path) -> None:
    run, *steps = _spans(closed_run)
    assert run["name"] == "invoke_agent support-bot"
    assert len(steps) == 6
    assert {step["parentSpanId"] for step in steps} == {run["spanId"]}
    assert len({step["spanId"] for step in steps}) == 6
    for span in (run, *steps):
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert _attributes(run)["paddock.run.is_closed"] is True


def test_otel_tells_the_verdict_and_the_enforcement_apart(opener: Opener) -> None:
    journal = opener()
    journal.append(proposed(1, name="refund", context={"tool_call_id": "c"}), 1)
    journal.append(decided("ask", decided_by="big", effect=Effect.WRITE), 1)
    journal.append(settled(outcome="refused", error="no answer"), 1)
    _, span = _spans(journal.directory)
    facts = _attributes(span)
    assert span["name"] == "execute_tool refund"
    assert facts["gen_ai.operation.name"] == "execute_tool"
    assert facts["gen_ai.tool.name"] == "refund"
    assert facts["gen_ai.tool.call.id"] == "c"
    assert facts["paddock.policy.verdict"] == "ask"
    assert facts["paddock.action.effect"] == "write"
    assert facts["error.type"] == "refused"
    assert facts["paddock.enforcement.outcome"] == "refused"
    assert span["status"] == {"code": 2, "message": "no answer"}


def test_otel_shows_a_model_call_with_its_tokens_and_a_child_below_its_parent(
    opener: Opener,
) -> None:
    journal = opener()
    model_call = proposed(1, kind=Kind.MODEL, name="opus", context={"provider": "p"})
    journal.append(model_call, 1)
    journal.append(settled(cost={"input_tokens": 7}), 1)
    journal.append(proposed(2, parent=1), 2)
    _, model, child = _spans(journal.directory)
    assert model["name"] == "chat opus"
    assert _attributes(model)["gen_ai.usage.input_tokens"] == "7"
    assert _attributes(model)["gen_ai.request.model"] == "opus"
    assert child["parentSpanId"] == model["spanId"]


def test_har_has_an_entry_for_each_http_action(opener: Opener) -> None:
    journal = opener()
    arguments = {
        "method": "POST",
        "url": "https://api.example.com/v1/x?a=1&b=",
        "headers": {"Content-Type": "application/json"},
        "body": '{"amount":5}',
    }
    result = {"status": 201, "headers": [["Content-Type", "text/plain"]], "body": "z" * 20_000}
    write_steps(journal, 1)
    journal.append(proposed(5, kind=Kind.HTTP, name="POST", arguments=arguments), 5)
    journal.append(decided(), 5)
    journal.append(settled(result), 5)
    (entry,) = json.loads(_text(journal.directory, Format.HAR))["log"]["entries"]
    assert entry["request"]["queryString"] == [
        {"name": "a", "value": "1"},
        {"name": "b", "value": ""},
    ]
    assert entry["request"]["postData"] == {"mimeType": "application/json", "text": '{"amount":5}'}
    assert (entry["response"]["status"], entry["_step"]) == (201, 5)
    assert entry["response"]["content"]["text"] == "z" * 20_000


def test_har_of_a_run_without_requests_is_an_empty_log(closed_run: Path) -> None:
    log = json.loads(_text(closed_run, Format.HAR))["log"]
    assert (log["version"], log["entries"]) == ("1.2", [])


@pytest.mark.parametrize("form", list(Format))
def test_journal_of_somebody_else_breaks_no_format(closed_run: Path, form: Format) -> None:
    """A body that is not what its type promises is an unknown event."""
    path = sorted(closed_run.glob("*.jsonl"))[-1]
    with open(path, "ab") as file:
        for number, kind in enumerate((b"proposed", b"decided", b"settled", b"rumour")):
            line = b'{"after":"%064d","at":1,"body":{"kind":[]},"n":%d,"step":70,"type":"%b"}\n'
            file.write(line % (0, 900 + number, kind))
    exported = _text(closed_run, form)
    if form in (Format.OTEL, Format.HAR):
        json.loads(exported)
    else:
        assert len(exported.splitlines()) >= 7


def test_csv_shows_the_beginning_of_arguments_that_are_stored_elsewhere(opener: Opener) -> None:
    journal = opener()
    journal.append(proposed(1, arguments={"rows": ["row"] * 20_000}), 1)
    (row,) = csv.DictReader(io.StringIO(_text(journal.directory, Format.CSV)))
    assert row["arguments"].startswith('{"rows":["row","row",')
    assert len(row["arguments"]) < 2000
    _, span = _spans(journal.directory)
    assert _attributes(span)["gen_ai.tool.call.arguments"] == row["arguments"]


@pytest.mark.parametrize("form", list(Format))
def test_words_of_the_agent_break_no_format(opener: Opener, form: Format) -> None:
    journal = opener(opened=replace(OPENED, agent='"SPANS","entries":[', stage="]}"))
    odd = ['"]}', "SPANS", "\x00\u2028", "<script>", 'a,"b"\nc', 5, None, [], {"headers": 3}]
    for step, value in enumerate(odd):
        text = value if isinstance(value, str) else "x"
        words = {text: value, "headers": value, "body": value, "provider": value}
        event = proposed(step, kind=Kind.HTTP, name=text, arguments=words, context=words)
        journal.append(event, step)
        journal.append(decided(decided_by=text, why=text), step)
        journal.append(settled(value, error=text, cost=words), step)
    journal.append(proposed(90, kind=Kind.HTTP, arguments={"url": "http://[bad", "body": 1}), 90)
    journal.append(Marked("x"), 91)
    exported = _text(journal.directory, form)
    if form in (Format.OTEL, Format.HAR):
        json.loads(exported)
    else:
        assert len(exported.splitlines()) >= len(odd)


def test_csv_has_nothing_that_a_terminal_or_an_editor_acts_on(opener: Opener) -> None:
    journal = opener()
    odd = "".join(map(chr, (*range(32), *range(127, 161), 0x202E, 0x2028, 0x2066, 0xFEFF)))
    journal.append(proposed(1, name=f"x{odd}y", arguments={odd: odd}), 1)
    text = _text(journal.directory, Format.CSV)
    assert text.count("\n") == text.count("\r") == 2  # the ends of the two rows
    assert all(one.isprintable() for one in text.replace("\r\n", ""))
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["name"].startswith("x\\x00\\x01")


def test_csv_keeps_a_cell_whole_whatever_separates_cells_elsewhere(opener: Opener) -> None:
    journal = opener()
    journal.append(proposed(1, name="a;=cmd();b"), 1)
    assert '"a;=cmd();b"' in _text(journal.directory, Format.CSV)
