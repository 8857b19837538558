"""Requests that no client sends. The stand-in answers them as its provider would and goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases import for_each
from paddock.world.services.model.endpoint import MAX_BODY
from unit.world.services.model.asking import USER, Say, Talk, user

ANY = {"otherwise": "hi"}
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
         "/v1/embeddings")  # fmt: skip


@for_each("path", PATHS)
@for_each(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"5",
        b"\xff\xfe",
        b"{}",
        b'{"model": 5}',
        b'{"model": "", "messages": []}',
        b'{"model": "x", "max_tokens": 1, "messages": [], "input": []}',
        b'{"model": "x", "max_tokens": 1, "messages": [5], "input": [null]}',
        b'{"model": "x", "max_tokens": 1, "messages": [{}], "input": [{}]}',
        b'{"model": "x", "max_tokens": NaN, "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "x", "max_tokens": 1' + b"0" * 5000 + b"}",
        b'{"model": "\\ud800", "max_tokens": 1, "input": "\\udc00", "messages": []}',
        b"[" * 100_000,
        b'{"a": ' * 2000 + b"1" + b"}" * 2000,
    ],
)
def test_body_that_makes_no_sense_is_a_bad_request(say: Say, path: str, body: bytes) -> None:
    got = say(ANY).post(path, body)
    assert got.status == 400, got.body
    assert got.error["message"] and got.error["type"] == "invalid_request_error"


@for_each(
    "messages",
    [
        [{"role": "robot", "content": "x"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [5]}],
        [{"role": "user", "content": [{"text": "x"}]}],
        [{"role": "user", "content": [{"type": "text", "text": 5}]}],
        [{"role": "assistant", "content": "x"}],
        [{"role": "tool", "content": "x"}],
        [user("x"), {"role": "assistant", "tool_calls": 5}],
        [user("x"), {"role": "assistant", "tool_calls": [{"id": "a"}]}],
        [user("x"), {"role": "assistant", "function_call": 5}],
    ],
)
def test_messages_of_a_wrong_shape_are_a_bad_request(say: Say, messages: Any) -> None:
    assert say(ANY).chat(messages).status == 400


CALLS = {"role": "assistant", "tool_calls": [
    {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in "ab"
]}  # fmt: skip


def result(id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "x"}


@pytest.mark.parametrize(
    ("after", "status"),
    [
        ([result("a"), result("b")], 200),
        ([result("b"), result("a"), user("and?")], 200),
        ([], 400),
        ([result("a")], 400),
        ([user("and?")], 400),
        ([result("a"), result("b"), result("c")], 400),
        ([result("a"), {"role": "assistant", "content": "x"}, result("b")], 400),
    ],
)
def test_calls_need_their_results_and_results_their_calls(
    say: Say, after: list[Any], status: int
) -> None:
    assert say(ANY).chat([user(USER), CALLS, *after]).status == status


def test_result_without_a_call_is_a_bad_request_in_all_formats(say: Say) -> None:
    model = say(ANY)
    assert model.chat([user(USER), result("a")]).status == 400
    block = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    assert model.messages([{"role": "user", "content": [block]}]).status == 400
    output = {"type": "function_call_output", "call_id": "a", "output": "x"}
    assert model.responses([output]).status == 400


def test_calls_of_responses_may_be_answered_one_by_one(say: Say) -> None:
    items: list[Any] = [{"role": "user", "content": "x"}]
    for id in "ab":
        items.append({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
    items.append({"type": "function_call_output", "call_id": "b", "output": {"n": 1}})
    items.append({"role": "assistant", "content": "wait"})
    model = say(ANY)
    assert model.responses(items).status == 400
    items.append({"type": "function_call_output", "call_id": "a", "output": []})
    assert model.responses(items).status == 200


def test_what_the_model_began_to_say_is_no_turn_yet(say: Say) -> None:
    model = say({"turns": [{"match": {"turn": 1}, "answer": "go on"}]})
    got = model.messages([user(USER), {"role": "assistant", "content": "{"}])
    assert got.json["content"][0]["text"] == "go on"


@pytest.mark.parametrize("word", ["conversation", "background", "prompt"])
def test_what_is_not_known_of_responses_is_refused_by_its_name(say: Say, word: str) -> None:
    got = say(ANY).responses(USER, **{word: True})
    assert (got.status, got.error["param"]) == (400, word)


def test_more_than_one_choice_is_refused(say: Say) -> None:
    assert say(ANY).chat(USER, n=2).error["param"] == "n"


def test_anthropic_wants_max_tokens_and_counting_does_not(say: Say) -> None:
    model = say(ANY)
    body = {"model": "claude-x", "messages": [user(USER)]}
    assert "max_tokens" in model.post("/v1/messages", body).error["message"]
    counted = model.post("/v1/messages/count_tokens", body).json
    assert counted == {"input_tokens": model.messages(USER).json["usage"]["input_tokens"]}


def test_body_that_is_too_large_is_refused(say: Say) -> None:
    got = say(ANY).post("/v1/messages", b" " * (MAX_BODY + 1))
    assert (got.status, got.error["type"]) == (413, "request_too_large")


def test_response_that_is_too_long_to_keep_says_so(say: Say) -> None:
    model, long = say(ANY), "x" * (5 << 20)
    got = model.responses(long)
    assert (got.status, got.error["param"]) == (413, "store")
    assert model.responses(long, store=False).status == 200
    assert model.chat(long).text == "hi"


def test_websocket_is_closed(say: Say) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(say(ANY).app({"type": "websocket"}, None, send))  # type: ignore[arg-type]
    assert sent == ["websocket.close"]


def test_pattern_that_runs_away_is_stopped(say: Say) -> None:
    model = say({"rules": [{"match": {"user": {"regex": "(a+)+$"}}, "answer": "x"}]})
    got = model.chat("a" * 5000 + "b")
    assert got.status == 400 and "takes longer than 0.25 s" in got.error["message"]
    assert model.chat("aaa").text == "x"


def test_templates_cannot_make_an_answer_without_end(say: Say) -> None:
    model = say({"otherwise": "{{user}}" * 1000})
    got = model.chat("x" * 10_000)
    assert got.status == 400 and "longer than" in got.error["message"]
    assert model.chat("x" * 10).text == "x" * 10_000


def test_structures_count_as_often_as_they_are_used(say: Say) -> None:
    call = {"name": "f", "arguments": {str(n): "{{tool_result.a}}" for n in range(500)}}
    model = say({"otherwise": {"tool_calls": [call]}})
    big = json.dumps({"a": list(range(20_000))})
    got = model.chat([user(USER), CALLS, result("b"), {**result("a"), "content": big}])
    assert got.status == 400 and "longer than" in got.error["message"]


@pytest.mark.parametrize("path", ["/", "", "/v1", "/v1/files", "/v1/responses/x"])
def test_unknown_paths_are_not_found(say: Say, path: str) -> None:
    model = say(ANY)
    assert model.send("GET", path).status == 404
    got = model.send("GET", path, anthropic_version="2023-06-01")
    assert got.json["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "GET"])
def test_other_methods_are_not_found(say: Say, method: str) -> None:
    assert say(ANY).send(method, "/v1/chat/completions").status == 404


def test_paths_may_have_something_in_front(say: Say) -> None:
    model = say(ANY)
    body = {"model": "x", "messages": [user(USER)]}
    assert model.post("/openai/v1/chat/completions/", body).text == "hi"


def test_previous_response_is_gone_on_from(say: Say) -> None:
    model = say(
        {"turns": [{"answer": {"tool_calls": ["find"]}}, {"answer": "two"}, {"answer": "3"}]}
    )
    first = model.responses(USER).json
    call = first["output"][0]["call_id"]
    output = [{"type": "function_call_output", "call_id": call, "output": "x"}]
    second = model.responses(output, previous_response_id=first["id"]).json
    assert second["output"][0]["content"][0]["text"] == "two"
    third = model.responses("and?", previous_response_id=second["id"], store=False).json
    assert third["output"][0]["content"][0]["text"] == "3"
    assert model.send("GET", f"/v1/responses/{second['id']}").json == second
    assert model.send("GET", f"/v1/responses/{third['id']}").status == 404
    assert model.responses("x", previous_response_id=third["id"]).error["param"] == (
        "previous_response_id"
    )
    assert model.send("DELETE", f"/v1/responses/{second['id']}").json["deleted"] is True
    assert model.send("GET", f"/v1/responses/{second['id']}").status == 404


def test_text_beyond_ascii_comes_back_as_it_was(say: Say) -> None:
    text = "Füße 🐎 \u2028 \x00 \x7f"
    assert say({"otherwise": "{{user}}"}).chat(text).text == text
    streamed = say({"otherwise": "{{user}}", "chunk": 1}).messages(text, stream=True)
    deltas = [
        d["delta"]["text"] for _, d in streamed.events() if d["type"] == "content_block_delta"
    ]
    assert "".join(deltas) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "developer", "function"])
KINDS = st.sampled_from(["text", "input_text", "tool_use", "tool_result", "function_call",
                         "function_call_output", "message", "reasoning", "refusal"])  # fmt: skip
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS | JSON,
        "text": st.text() | JSON,
        "id": st.sampled_from("ab") | JSON,
        "call_id": st.sampled_from("ab") | JSON,
        "tool_use_id": st.sampled_from("ab") | JSON,
        "name": st.sampled_from("ab") | JSON,
        "arguments": JSON,
        "input": JSON,
        "output": JSON,
        "content": JSON,
        "role": ROLES | JSON,
    },
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": ROLES},
        optional={
            "content": st.text() | st.lists(PARTS, max_size=3) | JSON,
            "tool_calls": st.lists(PARTS, max_size=2) | JSON,
            "tool_call_id": st.sampled_from("ab") | JSON,
        },
    )
    | PARTS,
    max_size=5,
)


@pytest.fixture
def model(say: Say) -> Talk:
    return say({"otherwise": {"text": "{{user}}", "tool_calls": ["find"]}})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(PATHS), messages=MESSAGES, tools=st.lists(PARTS, max_size=2) | JSON,
    more=JSON, stream=st.booleans(),
)  # fmt: skip
def test_whatever_is_sent_there_is_an_answer_in_the_right_shape(
    model: Talk, path: str, messages: Any, tools: Any, more: Any, stream: bool
) -> None:
    body = {
        "model": "x", "max_tokens": 1, "messages": messages, "input": messages, "tools": tools,
        "system": more, "instructions": more, "metadata": more, "stream_options": more,
        "stream": stream, "encoding_format": "base64",
    }  # fmt: skip
    got = model.post(path, body)
    assert got.status in (200, 400)
    if got.status == 400:
        assert isinstance(got.error["message"], str)
    else:
        assert got.events() if "event-stream" in got.headers["content-type"] else got.json
