"""`paddock show RUN --step K --conversation`: all that a model was asked, as a person reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddock.journal.integrity.keys import SigningKey
from paddock.journal.nodes import FILE_NAME
from paddock.journal.writer import Journal
from paddock.model.events import Opened
from unit.cli.conftest import Call
from unit.cli.past import proposed

ASKED = {
    "model": "claude-opus-4",
    "max_tokens": 7,
    "system": "be short",
    "tools": [{"name": "search"}],
    "messages": [
        {"role": "user", "content": "first line\nsecond line\x1b[31m"},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "search", "input": {}}]},
        {"role": "user", "content": [{"type": "text", "text": "and now?"}]},
    ],
}


def make_asked(home: Path, asked: dict[str, Any] = ASKED) -> Path:
    key = SigningKey.open(home / "keys")
    directory = home / "runs" / "r"
    directory.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal.create(directory, opened=Opened("r", "a"), key=key)
    arguments = journal.conversations.request(asked, "messages")
    journal.append(proposed("model", arguments), 1)
    journal.append(proposed("http", {}), 2)
    journal.close()
    return directory


def test_every_message_is_shown_in_order_and_no_text_passes_for_ours(
    home: Path, call: Call
) -> None:
    make_asked(home)
    text = call("show", "r", "--step", "1", "--conversation").out
    wanted = ["system", "| be short", "1. user", "| first line", "| second line", "2. assistant",
              "tool_use", "3. user", "| and now?", "asked with", "max_tokens"]  # fmt: skip
    places = [text.index(one) for one in wanted]
    assert places == sorted(places)
    assert "\x1b" not in text


def test_json_has_the_request_as_it_was_sent(home: Path, call: Call) -> None:
    make_asked(home)
    assert call("show", "r", "--step", "1", "--conversation", "--json").json["request"] == ASKED
    assert "request" not in call("show", "r", "--step", "1", "--json").json


def test_step_that_asked_no_model_says_so(home: Path, call: Call) -> None:
    make_asked(home)
    said = call("show", "r", "--step", "2", "--conversation")
    assert said.code == 1
    assert said.err.startswith("paddock: step 2 has no conversation")


def test_message_that_is_missing_is_an_error_and_not_left_out(home: Path, call: Call) -> None:
    directory = make_asked(home)
    lines = (directory / FILE_NAME).read_bytes().splitlines(keepends=True)
    (directory / FILE_NAME).write_bytes(b"".join(lines[1:]))
    said = call("show", "r", "--step", "1", "--conversation")
    assert (said.code, "missing" in said.err, said.out) == (1, True, "")


def test_odd_requests_are_shown_too(home: Path, call: Call) -> None:
    odd = {"messages": [1, None, [], "text", {"content": {"a": 1}}, {"role": 7}], "system": [1]}
    make_asked(home, odd)
    assert call("show", "r", "--step", "1", "--conversation").code == 0
