"""Answers that try to bring a refused call past the editor, or show it other arguments than the
client gets, and requests that try not to look like ones to a model."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import pytest

from paddock.llm.answer import ToolCall
from paddock.llm.bedrock.event_stream import AwsEventSource
from paddock.llm.editor import AnswerEditor
from paddock.llm.event_source import is_event_stream
from paddock.llm.formats import ModelApi, Wire, recognise
from unit.llm.streams import (
    CHAT,
    MESSAGES,
    RESPONSES,
    chat_body,
    chat_calls,
    chat_chunk,
    messages_body,
    messages_events,
    responses_body,
    responses_events,
    sse,
)
from unit.llm.test_vendor_formats import (
    AWS,
    CLAUDE,
    COHERE,
    CONVERSE,
    GEMINI,
    JSON,
    SSE,
    cohere_body,
    converse_body,
    gemini_body,
)

SECRET = "s3cret"
ONE = [("delete_user", f'{{"id": "{SECRET}"}}')]


def refuse_all(wire: Wire, kind: bytes, answer: bytes) -> tuple[bytes, list[ToolCall], str | None]:
    """Return what goes out when every call is refused, the calls, and the problem."""
    editor = AnswerEditor(wire, is_stream=is_event_stream(kind), content_type=kind)
    sent, calls = b"", []
    for parts in (editor.feed(answer), editor.finish()):
        for part in parts:
            if isinstance(part, ToolCall):
                calls.append(part)
                part = editor.resolve(part, "no")
            sent += part
    return sent, calls, editor.problem


def assert_unreadable(wire: Wire, kind: bytes, answer: bytes) -> None:
    sent, _, problem = refuse_all(wire, kind, answer)
    assert problem is not None
    assert SECRET.encode() not in sent


def aws_message(headers: Iterable[tuple[str, str]], payload: bytes) -> bytes:
    packed = b"".join(
        bytes([len(name)]) + name.encode() + b"\7" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers
    )
    lengths = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + packed + payload
    return message + struct.pack(">I", zlib.crc32(message))


def aws_event(name: str, payload: Any, **more: str) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return aws_message({**headers, **more}.items(), json.dumps(payload).encode())


def aws_stream(*events: dict[str, Any]) -> bytes:
    source = AwsEventSource()
    return b"".join(source.written(event, None) for event in events)


def converse_start(index: int = 1, **tool: Any) -> dict[str, Any]:
    use = {"toolUseId": "t", "name": "delete_user", **tool}
    return {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": use}}}


def converse_delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def converse_stop(index: int) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


# ---- OpenAI's responses --------------------------------------------------------------------------


def test_responses_event_of_a_call_with_a_response_beside_it_does_not_pass() -> None:
    for kind in ("response.output_item.added", "response.output_item.done"):
        events = [
            {**event, "response": {}} if event["type"] == kind else event
            for event in responses_events(ONE)
        ]
        assert_unreadable(RESPONSES, SSE, sse(*events, names=True))


# ---- names of server-sent events -----------------------------------------------------------------


@pytest.mark.parametrize("name", [None, "ping", "message"])
def test_piece_of_a_call_in_an_event_that_the_client_skips_is_refused(name: str | None) -> None:
    """Anthropic's client skips events without a name and those called `ping`: with the piece in the
    middle the arguments are harmless, without it they are not."""
    visible, hidden = ['{"id":', "7}"], '1,"note":'
    events = messages_events([("delete_user", "")], text="")
    at = next(
        i for i, event in enumerate(events) if event.get("delta", {}).get("partial_json") == ""
    )
    delta = {"type": "input_json_delta", "partial_json": ""}
    made = [
        sse({**events[at], "delta": {**delta, "partial_json": piece}}, names=True)
        for piece in visible
    ]
    lead = b"" if name is None else f"event: {name}\n".encode()
    extra = lead + sse({**events[at], "delta": {**delta, "partial_json": hidden}})
    stream = sse(*events[:at], names=True) + made[0] + extra + made[1]
    stream += sse(*events[at + 1 :], names=True)
    _, calls, problem = refuse_all(MESSAGES, SSE, stream)
    assert calls == []
    assert problem is not None


def test_event_behind_a_byte_order_mark_is_refused() -> None:
    """OpenAI's client skips it, the standard does not: the call loses its arguments there."""
    first = chat_calls(ONE)[0]
    whole = chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": ONE[0][1]}}]})
    stream = b"\xef\xbb\xbf" + sse(whole, first, chat_chunk({}, "tool_calls"))
    assert_unreadable(CHAT, SSE, stream)


def test_piece_of_a_chat_call_in_an_event_with_a_name_is_refused() -> None:
    """OpenAI's client wraps what is called `thread.…`, and finds no piece in it."""
    stream = b"event: thread.x\n" + sse(*chat_calls(ONE), chat_chunk({}, "tool_calls"))
    assert_unreadable(CHAT, SSE, stream)


def test_piece_of_a_chat_call_in_a_choice_without_a_number_is_refused() -> None:
    """A client that finds choices by their index does not add it to the first one."""
    hidden = chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '1,"note":'}}]})
    del hidden["choices"][0]["index"]
    first, *rest = chat_calls([("delete_user", '{"id":7}')])
    stream = sse(first, rest[0], hidden, *rest[1:], chat_chunk({}, "tool_calls"))
    _, calls, problem = refuse_all(CHAT, SSE, stream)
    assert calls == [] and problem is not None


def test_piece_in_a_field_that_is_not_of_its_type_is_refused() -> None:
    events = messages_events(ONE)
    for event in events:
        if "partial_json" in event.get("delta", {}):
            event["delta"]["type"] = "text_delta"
    assert_unreadable(MESSAGES, SSE, sse(*events, names=True))


def test_messages_piece_of_another_block_in_the_middle_of_a_call_is_refused() -> None:
    """Clients that keep only the current call would add it there."""
    events = messages_events(ONE)
    at = next(i for i, event in enumerate(events) if "partial_json" in event.get("delta", {}))
    other = {"type": "input_json_delta", "partial_json": '"x":1,'}
    events.insert(at + 2, {"type": "content_block_delta", "index": 0, "delta": other})
    assert_unreadable(MESSAGES, SSE, sse(*events, names=True))


# ---- AWS's event stream --------------------------------------------------------------------------


def test_events_for_another_framing_in_a_header_do_not_pass() -> None:
    """A client that asked for server-sent events reads them whatever the type of the answer is."""
    hidden = sse(*chat_calls(ONE), chat_chunk({}, "tool_calls")).decode()
    stream = aws_event("metadata", {}, **{"x": f"\n\n{hidden}"})
    for wire in (CHAT, MESSAGES, GEMINI, COHERE, CONVERSE):
        assert_unreadable(wire, AWS, stream)
    stream = aws_message([(":event-type", "a"), (":message-type", f"event\n\n{hidden}")], b"{}")
    assert_unreadable(CHAT, AWS, stream)


@pytest.mark.parametrize(
    "headers",
    [
        {":event-type": "contentBlockStop"},  # no type of message
        {":event-type": "contentBlockStop", ":message-type": "error"},
        {":event-type": "contentBlockStop", ":message-type": "exception"},
        {":exception-type": "contentBlockStop", ":message-type": "event"},
        {":exception-type": "a", ":event-type": "contentBlockStop", ":message-type": "event"},
        {":event-type": "", ":exception-type": "contentBlockStop", ":message-type": "event"},
        {":message-type": "event"},
    ],
)
def test_aws_message_whose_headers_do_not_name_one_event_is_refused(
    headers: dict[str, str],
) -> None:
    message = aws_message(headers.items(), json.dumps({"contentBlockIndex": 0}).encode())
    assert refuse_all(CONVERSE, AWS, message)[2] is not None


def test_aws_exception_passes() -> None:
    headers = {":exception-type": "throttlingException", ":message-type": "exception"}
    message = aws_message(headers.items(), b'{"message":"slow down"}')
    assert refuse_all(CONVERSE, AWS, message) == (message, [], None)


def test_piece_of_a_converse_call_in_a_chunk_is_refused() -> None:
    """Amazon's client knows no `chunk` there, and would not see the piece."""
    hidden = json.dumps(converse_delta(1, toolUse={"input": '1,"note":'})).encode()
    stream = (
        aws_stream(converse_start(), converse_delta(1, toolUse={"input": '{"id":'}))
        + aws_event("chunk", {"bytes": base64.b64encode(hidden).decode()})
        + aws_stream(converse_delta(1, toolUse={"input": "7}"}), converse_stop(1))
    )
    _, calls, problem = refuse_all(CONVERSE, AWS, stream)
    assert calls == [] and problem is not None


@pytest.mark.parametrize("payload", [{}, {"bytes": None}, {"bytes": ["e30="]}, {"bytes": ""}, []])
def test_chunk_without_a_text_is_refused(payload: Any) -> None:
    assert_unreadable(CLAUDE, AWS, aws_event("chunk", payload))


# ---- Bedrock's converse --------------------------------------------------------------------------


def test_converse_call_that_claims_to_be_the_servers_is_decided() -> None:
    """Clients that are older than the `type` of a `toolUse` drop it, and see an ordinary call."""
    use: dict[str, Any] = {"toolUseId": "t", "name": "delete_user", "type": "server_tool_use"}
    block = {"toolUse": {**use, "input": {"id": SECRET}}}
    body = {"output": {"message": {"role": "assistant", "content": [block]}}}
    stream = aws_stream(
        converse_start(**use),
        converse_delta(1, toolUse={"input": ONE[0][1]}),
        converse_stop(1),
        {"messageStop": {"stopReason": "tool_use"}},
    )
    for kind, answer in ((JSON, json.dumps(body).encode()), (AWS, stream)):
        sent, calls, problem = refuse_all(CONVERSE, kind, answer)
        assert [call.arguments for call in calls] == [{"id": SECRET}]
        assert SECRET.encode() not in sent and problem is None


@pytest.mark.parametrize(
    "extra",
    [
        converse_delta(0, toolUse={"input": '1,"note":'}),
        converse_delta(0, text="x"),
        converse_stop(0),
    ],
)
def test_converse_event_of_another_block_in_the_middle_of_a_call_is_refused(extra: Any) -> None:
    """Clients that keep only the current call (Strands) add pieces to it whatever their index."""
    stream = aws_stream(
        converse_delta(0, text="Hm."),
        converse_stop(0),
        converse_start(),
        converse_delta(1, toolUse={"input": '{"id":'}),
        extra,
        converse_delta(1, toolUse={"input": "7}"}),
        converse_stop(1),
    )
    _, calls, problem = refuse_all(CONVERSE, AWS, stream)
    assert calls == [] and problem is not None


def test_converse_piece_in_a_block_of_text_is_refused() -> None:
    stream = aws_stream(
        converse_delta(0, text="Hm."),
        converse_delta(0, toolUse={"input": SECRET}),
        converse_stop(0),
    )
    assert_unreadable(CONVERSE, AWS, stream)


@pytest.mark.parametrize("use", [{}, [], ""])
def test_converse_call_with_nothing_in_it_is_refused(use: Any) -> None:
    body = {"output": {"message": {"content": [{"toolUse": use}]}}, "stopReason": "tool_use"}
    assert_unreadable(CONVERSE, JSON, json.dumps(body).encode())


# ---- Cohere --------------------------------------------------------------------------------------


def cohere(kind: str, index: int | None, **call: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"type": kind, "delta": {"message": {"tool_calls": call}}}
    return event if index is None else {**event, "index": index}


def cohere_start(index: int | None, name: str) -> dict[str, Any]:
    return cohere("tool-call-start", index, id=name, function={"name": name, "arguments": ""})


def cohere_piece(index: int | None, text: str) -> dict[str, Any]:
    return cohere("tool-call-delta", index, function={"arguments": text})


@pytest.mark.parametrize(
    "events",
    [
        # Clients that keep only the current call add every piece to it.
        [cohere_start(0, "find"), cohere_start(1, "delete_user"), cohere_piece(0, ONE[0][1])],
        [cohere_start(0, "find"), {"type": "tool-call-end", "index": 0},
         cohere_start(1, "delete_user"), cohere_piece(0, ONE[0][1])],
        # A name that only the piece has.
        [cohere_start(0, "find"),
         cohere("tool-call-delta", 0, function={"name": "delete_user", "arguments": ONE[0][1]})],
        [cohere_start(0, "find"),
         cohere("tool-call-end", 0, function={"name": "delete_user", "arguments": ONE[0][1]})],
        [cohere("message-end", None, id="c", function={"name": "f", "arguments": ONE[0][1]})],
    ],
)  # fmt: skip
def test_cohere_calls_that_clients_put_together_differently_are_refused(events: list[Any]) -> None:
    end = {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}}
    assert_unreadable(COHERE, SSE, sse(*events, end, names=True))


@pytest.mark.parametrize(
    "event",
    [
        {"event_type": "tool-calls-generation", "tool_calls": [{"name": SECRET}]},
        {"event_type": "stream-end", "response": {"tool_calls": [{"name": SECRET}]}},
        {"text": "", "tool_calls": [{"name": SECRET, "parameters": {}}]},
    ],
)
def test_cohere_answer_of_version_1_with_calls_is_refused(event: dict[str, Any]) -> None:
    stream = json.dumps(event).encode() + b"\n"
    assert_unreadable(COHERE, b"application/stream+json", stream)
    assert_unreadable(COHERE, JSON, stream)
    assert_unreadable(COHERE, SSE, sse(event))


# ---- other spellings -----------------------------------------------------------------------------


WHOLE = {
    ModelApi.CHAT: chat_body, ModelApi.RESPONSES: responses_body, ModelApi.MESSAGES: messages_body,
    ModelApi.CONVERSE: converse_body, ModelApi.COHERE: cohere_body, ModelApi.GEMINI: gemini_body,
}  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "key"),
    [
        (CHAT, "choices"),
        (CHAT, "message"),
        (CHAT, "tool_calls"),
        (RESPONSES, "output"),
        (RESPONSES, "type"),
        (MESSAGES, "content"),
        (MESSAGES, "type"),
        (CONVERSE, "output"),
        (CONVERSE, "toolUse"),
        (COHERE, "message"),
        (COHERE, "tool_calls"),
        (GEMINI, "candidates"),
        (GEMINI, "functionCall"),
    ],
)
def test_key_that_some_clients_match_without_its_case_is_refused(wire: Wire, key: str) -> None:
    """Go's `encoding/json` finds a key in any case."""
    for other in {key.upper(), key.title(), key.upper().replace("S", "\u017f")}:
        answer = WHOLE[wire.api]()
        changed = answer.replace(f'"{key}"'.encode(), f'"{other}"'.encode())
        assert changed != answer
        sent, _, problem = refuse_all(wire, JSON, changed)
        assert problem is not None and sent == b""


def test_arguments_may_have_keys_of_any_spelling() -> None:
    calls = [("delete_user", '{"Type": "a", "Content": [1], "Tool_Calls": []}')]
    for wire, answer in ((CHAT, chat_body(calls)), (MESSAGES, messages_body(calls))):
        _, asked, problem = refuse_all(wire, JSON, answer)
        assert problem is None and asked[0].is_readable


# ---- requests ------------------------------------------------------------------------------------

BEDROCK = "bedrock-runtime.us-east-1.amazonaws.com"
GOOGLE = "generativelanguage.googleapis.com"
VERTEX = "us-east5-aiplatform.googleapis.com"
ARN = "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.anthropic.claude-x"
ASKED = {"messages": [{"role": "user", "content": []}]}


COHERE_ASKED = {"message": "hi", "tools": []}


@pytest.mark.parametrize(
    ("host", "path", "body", "api"),
    [
        (BEDROCK, f"/model/{ARN}/converse", ASKED, ModelApi.CONVERSE),
        (BEDROCK, f"/model/{ARN}/converse-stream", ASKED, ModelApi.CONVERSE),
        (BEDROCK, f"/model/{ARN}/invoke", {**ASKED, "anthropic_version": "b"}, ModelApi.MESSAGES),
        (BEDROCK, "/model/amazon.nova-pro-v1%3A0/invoke", ASKED, ModelApi.MESSAGES),
        (BEDROCK, "/model/cohere.command-r/invoke", COHERE_ASKED, ModelApi.MESSAGES),
        (GOOGLE, "/v1beta/tunedModels/t:generateContent", {"contents": []}, ModelApi.GEMINI),
        (GOOGLE, "/v1beta/dynamic/d:streamGenerateContent", {"contents": []}, ModelApi.GEMINI),
        (GOOGLE, "/v1beta/models/g%3AgenerateContent", {"contents": []}, ModelApi.GEMINI),
        (VERTEX, "/v1/projects/p/locations/l/endpoints/1:generateContent", {"contents": []},
         ModelApi.GEMINI),
        (VERTEX, "/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict",
         {"model": "m", **ASKED}, ModelApi.CHAT),
        (VERTEX, "/google.cloud.aiplatform.v1.PredictionService/StreamGenerateContent", None,
         ModelApi.GEMINI),
        (GOOGLE, "/google.ai.generativelanguage.v1beta.GenerativeService/GenerateContent", None,
         ModelApi.GEMINI),
        ("api.cohere.com", "/v1/chat", {"message": "hi", "tools": []}, ModelApi.COHERE),
        ("llm.example", "/v1/chat//completions", ASKED, ModelApi.CHAT),
        ("llm.example", "/v1/./chat/x/../completions", ASKED, ModelApi.CHAT),
        ("llm.example", "/v1/chat/completions/.", ASKED, ModelApi.CHAT),
        ("llm.example", "/v1/chat/completions;a=b", ASKED, ModelApi.CHAT),
        ("llm.example", "/V1/Chat/Completions", ASKED, ModelApi.CHAT),
        ("llm.example", "/a%0Ab/v1/chat/completions", ASKED, ModelApi.CHAT),
        ("vpce-1-a.bedrock-runtime.us-east-1.vpce.amazonaws.com", "/model/m/converse", None,
         ModelApi.CONVERSE),
    ],
)  # fmt: skip
def test_request_to_a_model_is_recognised_however_it_is_written(
    host: str, path: str, body: Any, api: ModelApi
) -> None:
    wire = recognise("POST", path, "application/json", body, host)
    assert wire is not None
    assert wire.api is api


@pytest.mark.parametrize(
    ("host", "path", "body"),
    [
        ("chat.example", "/v1/chat", {"message": "hi"}),
        (BEDROCK, "/model/amazon.titan-embed-text-v2%3A0/invoke", {"inputText": "hi"}),
        (GOOGLE, "/v1beta/models/g:countTokens", {"contents": []}),
        (GOOGLE, "/v1beta/models/g:embedContent", {"content": {}}),
        (
            VERTEX,
            "/v1/projects/p/locations/l/publishers/google/models/m:predict",
            {"instances": []},
        ),
    ],
)
def test_request_that_gives_no_calls_is_not_taken_for_one(host: str, path: str, body: Any) -> None:
    assert recognise("POST", path, "application/json", body, host) is None


@pytest.mark.parametrize(
    "answer",
    [
        {"output": {"message": {"content": [{"toolUse": {"name": SECRET}}]}}, "stopReason": "x"},
        {"choices": [{"message": {"tool_calls": [{"function": {"name": SECRET}}]}}]},
        {"text": "", "tool_calls": [{"name": SECRET, "parameters": {}}]},
    ],
)
@pytest.mark.parametrize("more", [{}, {"type": "message", "content": []}])
def test_answer_of_another_model_on_bedrock_does_not_pass_as_a_message(
    answer: dict[str, Any], more: dict[str, Any]
) -> None:
    """`invoke` gives what the model gives, and a request does not say for certain what that is."""
    wire = Wire(ModelApi.MESSAGES, "aws.bedrock")
    assert_unreadable(wire, JSON, json.dumps({**answer, **more}).encode())
    inner = base64.b64encode(json.dumps({**answer, **more}).encode()).decode()
    assert_unreadable(wire, AWS, aws_event("chunk", {"bytes": inner}))
