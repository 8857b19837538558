"""The openai and anthropic SDKs, streaming, in a loop that calls tools: what a model asks for is
decided before the agent sees it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pytest

from clients.network.conftest import MakeBox, MakeSite
from clients.network.crossings import crossings, requests
from clients.network.inside import python
from clients.network.site import Answer, Asked, Site
from conformance.waiting import eventually
from paddock import Sandbox
from paddock.gate.approvals import Approvals
from paddock.gate.run_gate import gate_store
from paddock.state.home import Home
from unit.llm.streams import (
    TWO,
    chat_stream,
    messages_stream,
    responses_stream,
)

Serve = Callable[..., tuple[Sandbox, Site]]
REFUSAL = "[paddock] The call of delete_user was refused: Users are never deleted."
RULES = """
tools:
  find_user: {effect: read}
  delete_user: {effect: write}
rules:
  - id: no-deletes
    match: {kind: tool, name: delete_user}
    decide: DECIDE
    why: Users are never deleted.
"""
KEYS = {
    "OPENAI_API_KEY": ("api.openai.com", "header:Authorization=Bearer"),
    "ANTHROPIC_API_KEY": ("api.anthropic.com", "header:x-api-key"),
}
CHAT = """
import json
from openai import OpenAI
client = OpenAI(max_retries=0, timeout=30)
messages, called, said = [{"role": "user", "content": "Delete Ada."}], [], []
for turn in range(5):
    with client.chat.completions.stream(model="gpt-4o", messages=messages) as stream:
        for event in stream:
            if event.type == "content.delta" and not said and not turn:
                client.models.list()
        answer = stream.get_final_completion().choices[0].message
    said.append(answer.content)
    if not answer.tool_calls:
        break
    messages.append(answer.model_dump(exclude_none=True, exclude={"parsed"}))
    for call in answer.tool_calls:
        called.append([call.function.name, json.loads(call.function.arguments)])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "Ada is number 7."})
print(json.dumps([called, said]))
"""
RESPONSES = """
import json
from openai import OpenAI
client = OpenAI(max_retries=0, timeout=30)
words, called, said = [{"role": "user", "content": "Delete Ada."}], [], []
for turn in range(5):
    with client.responses.stream(model="gpt-5-mini", input=words) as stream:
        for event in stream:
            if event.type == "response.output_text.delta" and not said and not turn:
                client.models.list()
        answer = stream.get_final_response()
    said.append(answer.output_text)
    calls = [item for item in answer.output if item.type == "function_call"]
    if not calls:
        break
    for call in calls:
        called.append([call.name, json.loads(call.arguments)])
        words.append({"type": "function_call", "call_id": call.call_id, "name": call.name,
                      "arguments": call.arguments})
        words.append({"type": "function_call_output", "call_id": call.call_id, "output": "7"})
print(json.dumps([called, said]))
"""
MESSAGES = """
import json
from anthropic import Anthropic
client = Anthropic(max_retries=0, timeout=30)
messages, called, said = [{"role": "user", "content": "Delete Ada."}], [], []
for turn in range(5):
    words = {"model": "claude-haiku-4-5", "max_tokens": 99, "messages": messages}
    with client.messages.stream(**words) as stream:
        for text in stream.text_stream:
            if not said and not turn:
                client.models.list()
        answer = stream.get_final_message()
    said.append(" ".join(block.text for block in answer.content if block.type == "text"))
    calls = [block for block in answer.content if block.type == "tool_use"]
    if not calls:
        break
    messages.append({"role": "assistant", "content": answer.content})
    results = []
    for call in calls:
        called.append([call.name, call.input])
        results.append({"type": "tool_result", "tool_use_id": call.id, "content": "7"})
    messages.append({"role": "user", "content": results})
print(json.dumps([called, said]))
"""
VENDORS = {
    "chat": ("api.openai.com", "/v1/chat/completions", CHAT),
    "responses": ("api.openai.com", "/v1/responses", RESPONSES),
    "messages": ("api.anthropic.com", "/v1/messages", MESSAGES),
}
DELETE, FIND = ["delete_user", {"id": 7}], ["find_user", {"name": "Ada"}]


class Model:
    """Answers as the vendors do: first with two calls, then, having a result, with a word."""

    def __init__(self) -> None:
        self.is_heard = threading.Event()
        self.was_streamed = False
        self.keys: set[str] = set()

    def __call__(self, asked: Asked) -> Answer:
        key = asked.headers.get("x-api-key") or asked.headers.get("authorization", "")
        self.keys.add(key.removeprefix("Bearer "))
        if asked.path == "/v1/models":
            self.is_heard.set()
            return Answer.of({"object": "list", "data": [], "has_more": False})
        is_first = b"Ada is number 7." not in asked.body and b'"7"' not in asked.body
        stream = self._stream(asked.path, is_first)
        parts = self._slowly(stream) if is_first else [stream]
        return Answer(200, parts, {"Content-Type": "text/event-stream"})

    def _stream(self, path: str, is_first: bool) -> bytes:
        calls = TWO if is_first else []
        if path == "/v1/responses":
            return responses_stream(calls)
        make = messages_stream if path == "/v1/messages" else chat_stream
        return make(calls) if is_first else make(calls, "Done.")

    def _slowly(self, stream: bytes) -> Iterator[bytes]:
        """Holds the rest back until the client says that it has the first word."""
        at = stream.index(b"\n\n", stream.index(b"Let ")) + 2
        yield stream[:at]
        self.was_streamed = self.is_heard.wait(15)
        yield stream[at:]


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def serve(
    model: Model, make_box: MakeBox, make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> Serve:
    def make(host: str, rules: str = "") -> tuple[Sandbox, Site]:
        site = make_site(model, host)
        monkeypatch.setenv("KEY_OF_THE_TESTS", "sk-of-the-tests")
        secrets = {
            name: {"from": "env:KEY_OF_THE_TESTS", "to": [to], "as": placed}
            for name, (to, placed) in KEYS.items()
            if to == host
        }
        return make_box({f"{host}:443": site.place}, rules, secrets=secrets), site

    return make


@pytest.mark.parametrize("wire", VENDORS)
def test_calls_are_the_agents_own_where_no_rule_is_about_tools(
    wire: str, serve: Serve, model: Model
) -> None:
    host, path, program = VENDORS[wire]
    box, _ = serve(host)
    called, said = python(box, program)
    assert called == [DELETE, FIND]
    assert said[0] == "Let me see."
    assert model.was_streamed, "the first word came only with the last"
    assert model.keys == {"sk-of-the-tests"}
    journal = crossings(box, "model")
    assert [(one.host, one.request, one.status, one.verdict) for one in journal] == [
        (host, ("POST", path), 200, "allow")
    ] * 2
    first = journal[0]
    assert "Delete Ada." in json.dumps(first.arguments)
    asked = [call["name"] for call in first.result["answer"]["tool_calls"]]
    assert asked == ["delete_user", "find_user"]
    assert {one.request for one in requests(box)} == {("GET", "/v1/models")}
    assert crossings(box, "tool") == []


@pytest.mark.parametrize("wire", VENDORS)
def test_blocked_call_is_a_refusal_that_the_loop_goes_on_with(
    wire: str, serve: Serve, model: Model
) -> None:
    host, _, program = VENDORS[wire]
    box, site = serve(host, RULES.replace("DECIDE", "block"))
    called, said = python(box, program)
    assert called == [FIND]
    assert REFUSAL in said[0]
    assert model.was_streamed
    decided = {one.name: (one.verdict, one.rule) for one in crossings(box, "tool")}
    assert decided["delete_user"] == ("block", "no-deletes")
    assert decided["find_user"][0] == "allow"
    first, second = crossings(box, "model")
    assert first.result["edited"] and not second.result.get("edited")
    assert b"delete_user" not in site.asked[-1].body.replace(REFUSAL.encode(), b"")


@pytest.mark.parametrize("wire", VENDORS)
def test_asked_call_is_held_until_somebody_answers(wire: str, serve: Serve) -> None:
    host, _, program = VENDORS[wire]
    box, _ = serve(host, RULES.replace("DECIDE", "ask"))
    found: list[object] = []
    agent = threading.Thread(target=lambda: found.append(python(box, program)[0]))
    agent.start()
    approvals = Approvals(gate_store(Home.find()))
    pending = eventually(lambda: approvals.all(run=box.sandbox_id), 30, "somebody is asked")
    assert found == []
    approvals.approve(pending[0].approval_id, "ann")
    agent.join(30)
    assert found == [[DELETE, FIND]]
    asked = {one.name: (one.verdict, one.outcome) for one in crossings(box, "tool")}
    assert asked["delete_user"] == ("ask", "done")
