"""Gemini, Bedrock's converse and Cohere: their answers, as the vendors' own clients read them."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from paddock.llm.answer import ModelAnswer, ToolCall
from paddock.llm.bedrock.event_stream import AwsEventSource
from paddock.llm.editor import AnswerEditor
from paddock.llm.formats import ModelApi, Wire, recognise
from paddock.llm.json_text import Unreadable
from paddock.llm.reader import AnswerReader
from paddock.llm.request import describe_request
from paddock.llm.sse import KEEP_ALIVE
from unit.llm.streams import NO_DELETES, REFUSAL, TWO, messages_events, pieces, sse

JSON, SSE = b"application/json", b"text/event-stream"
AWS = b"application/vnd.amazon.eventstream"
GEMINI = Wire(ModelApi.GEMINI, "gcp.gemini")
CONVERSE = Wire(ModelApi.CONVERSE, "aws.bedrock")
COHERE = Wire(ModelApi.COHERE, "cohere")
CLAUDE = Wire(ModelApi.MESSAGES, "aws.bedrock")
NONE_LEFT = {**NO_DELETES, "find_user": "not now"}


def gemini_chunk(parts: list[Any], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "thoughtsTokenCount": 5,
             "cachedContentTokenCount": 40, "totalTokenCount": 125}  # fmt: skip
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash",
            "responseId": "r1"}  # fmt: skip


def gemini_calls() -> list[dict[str, Any]]:
    return [{"functionCall": {"name": name, "args": json.loads(text)}} for name, text in TWO]


def gemini_chunks() -> list[dict[str, Any]]:
    spoken = [gemini_chunk([{"text": piece}]) for piece in pieces("Let me see.")]
    return [*spoken, gemini_chunk(gemini_calls(), "STOP")]


def gemini_body() -> bytes:
    return json.dumps(gemini_chunk([{"text": "Let me see."}, *gemini_calls()], "STOP")).encode()


USAGE = {"inputTokens": 60, "outputTokens": 20, "totalTokens": 120, "cacheReadInputTokens": 40}


def converse_body() -> bytes:
    tools = [{"toolUse": {"toolUseId": f"t{n}", "name": name, "input": json.loads(text)}}
             for n, (name, text) in enumerate(TWO)]  # fmt: skip
    message = {"role": "assistant", "content": [{"text": "Let me see."}, *tools]}
    return json.dumps({"output": {"message": message}, "stopReason": "tool_use", "usage": USAGE,
                       "metrics": {"latencyMs": 1}}).encode()  # fmt: skip


def converse_events() -> Iterator[dict[str, Any]]:
    yield {"messageStart": {"role": "assistant"}}
    for piece in pieces("Let me see."):
        yield {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}}
    yield {"contentBlockStop": {"contentBlockIndex": 0}}
    for index, (name, text) in enumerate(TWO, 1):
        start = {"toolUse": {"toolUseId": f"t{index}", "name": name}}
        yield {"contentBlockStart": {"contentBlockIndex": index, "start": start}}
        for piece in pieces(text):
            delta = {"toolUse": {"input": piece}}
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}
        yield {"contentBlockStop": {"contentBlockIndex": index}}
    yield {"messageStop": {"stopReason": "tool_use"}}
    yield {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 1}}}


def aws_stream(events: Iterator[dict[str, Any]]) -> bytes:
    source = AwsEventSource()
    return b"".join(source.written(event, None) for event in events)


def aws_chunks(events: list[dict[str, Any]]) -> bytes:
    source = AwsEventSource()
    return b"".join(source.written(event, "chunk") for event in events)


def cohere_body() -> bytes:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}}
             for n, (name, text) in enumerate(TWO)]  # fmt: skip
    content = [{"type": "text", "text": "Let me see."}]
    message = {"role": "assistant", "tool_calls": calls, "content": content}
    return json.dumps({"id": "a1", "finish_reason": "TOOL_CALL", "message": message,
                       "usage": COHERE_USAGE}).encode()  # fmt: skip


COHERE_USAGE = {"billed_units": {"input_tokens": 100.0, "output_tokens": 25}}


def cohere_stream() -> bytes:
    def delta(**message: Any) -> dict[str, Any]:
        return {"delta": {"message": message}}

    events: list[dict[str, Any]] = [
        {"type": "message-start", "id": "a1", **delta(role="assistant")}
    ]
    events.append(
        {"type": "content-start", "index": 0, **delta(content={"type": "text", "text": ""})}
    )
    events += [{"type": "content-delta", "index": 0, **delta(content={"text": piece})}
               for piece in pieces("Let me see.")]  # fmt: skip
    events.append({"type": "content-end", "index": 0})
    for index, (name, text) in enumerate(TWO):
        function = {"name": name, "arguments": ""}
        call = {"id": f"c{index}", "type": "function", "function": function}
        events.append({"type": "tool-call-start", "index": index, **delta(tool_calls=call)})
        events += [{"type": "tool-call-delta", "index": index,
                    **delta(tool_calls={"function": {"arguments": piece}})}
                   for piece in pieces(text)]  # fmt: skip
        events.append({"type": "tool-call-end", "index": index})
    end = {"finish_reason": "TOOL_CALL", "usage": COHERE_USAGE}
    return sse(*events, {"type": "message-end", "delta": end}, names=True)


# The format of each answer, its type, and its bytes.
ANSWERS: dict[str, tuple[Wire, bytes, bytes]] = {
    "gemini": (GEMINI, JSON, gemini_body()),
    "gemini stream": (GEMINI, SSE, sse(*gemini_chunks())),
    "gemini array": (GEMINI, JSON, json.dumps(gemini_chunks()).encode()),
    "converse": (CONVERSE, JSON, converse_body()),
    "converse stream": (CONVERSE, AWS, aws_stream(converse_events())),
    "claude on bedrock": (CLAUDE, AWS, aws_chunks(messages_events())),
    "cohere": (COHERE, JSON, cohere_body()),
    "cohere stream": (COHERE, SSE, cohere_stream()),
}
EACH = pytest.mark.parametrize("name", ANSWERS)


def edit(name: str, refused: dict[str, str], size: int = 100) -> tuple[bytes, AnswerEditor]:
    wire, kind, answer = ANSWERS[name]
    editor = AnswerEditor(wire, is_stream=kind != JSON, content_type=kind)
    sent = b""
    chunks = [answer[at : at + size] for at in range(0, len(answer), size)]
    for parts in (*map(editor.feed, chunks), editor.finish()):
        for part in parts:
            if isinstance(part, ToolCall):
                part = editor.resolve(part, refused.get(part.name))
            sent += part
    return sent, editor


def read(name: str, answer: bytes | None = None) -> ModelAnswer:
    wire, kind, original = ANSWERS[name]
    reader = AnswerReader(wire, is_stream=kind != JSON, content_type=kind)
    reader.feed(original if answer is None else answer)
    return reader.finish()


@EACH
def test_answer_is_read_with_text_calls_and_tokens(name: str) -> None:
    answer = read(name)
    assert answer.problem is None
    assert answer.text == "Let me see."
    calls = [(call.name, call.arguments) for call in answer.tool_calls]
    assert calls == [(call, json.loads(text)) for call, text in TWO]
    assert answer.usage is not None
    if name == "claude on bedrock":
        assert (answer.usage.input, answer.usage.output) == (45, 25)
    else:
        assert (answer.usage.input, answer.usage.output) in ((100, 25), (100, 20))


@EACH
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_answer_whose_calls_are_allowed_goes_out_as_it_came(name: str, size: int) -> None:
    sent, editor = edit(name, {}, size)
    assert editor.problem is None
    assert sent == ANSWERS[name][2]


@EACH
def test_refused_call_becomes_a_text_and_the_other_one_stays(name: str) -> None:
    sent, editor = edit(name, NO_DELETES)
    assert editor.problem is None
    answer = read(name, sent)
    assert [call.name for call in answer.tool_calls] == ["find_user"]
    assert REFUSAL in answer.text


@EACH
def test_answer_without_calls_left_ends_like_one_without_calls(name: str) -> None:
    sent, editor = edit(name, NONE_LEFT)
    assert editor.problem is None
    answer = read(name, sent)
    assert answer.tool_calls == ()
    assert answer.stop_reason in ("STOP", "end_turn", "COMPLETE")


@EACH
def test_answer_that_is_cut_anywhere_gives_no_undecided_call(name: str) -> None:
    wire, kind, answer = ANSWERS[name]
    for end in range(0, len(answer), 31):
        editor = AnswerEditor(wire, is_stream=kind != JSON, content_type=kind)
        sent = b""
        for parts in (editor.feed(answer[:end]), editor.finish()):
            for part in parts:
                sent += part if isinstance(part, bytes) else editor.resolve(part, "no")
        assert b'delete_user"' not in sent


@pytest.mark.parametrize(
    "part",
    [
        {"function_call": {"name": "delete_user", "args": {}}},
        {"FunctionCall": {"name": "delete_user", "args": {}}},
        {"functionCall": {"name": "delete_user", "partialArgs": [{"jsonPath": "$.id"}]}},
        {"functionCall": {"args": {}}},
        {"functionCall": {"name": ["delete_user"], "args": {}}},
    ],
)
def test_gemini_call_that_only_some_clients_would_find_does_not_pass(part: dict[str, Any]) -> None:
    for kind, body in (
        (SSE, sse(gemini_chunk([part], "STOP"))),
        (JSON, json.dumps(gemini_chunk([part], "STOP")).encode()),
        (JSON, json.dumps([gemini_chunk([part], "STOP")]).encode()),
    ):
        editor = AnswerEditor(GEMINI, is_stream=kind == SSE, content_type=kind)
        assert (
            b"".join(p for p in [*editor.feed(body), *editor.finish()] if isinstance(p, bytes))
            == b""
        )
        assert editor.problem is not None


@pytest.mark.parametrize("at", [0, 5, 9, 14, 40, -1])
def test_aws_message_with_another_byte_is_refused(at: int) -> None:
    raw = bytearray(aws_stream(iter([{"messageStart": {"role": "assistant"}}])))
    raw[at] ^= 1
    source = AwsEventSource()
    with pytest.raises(Unreadable):
        for message in source.feed(bytes(raw)) or [source.rest()]:
            source.read(message)


@pytest.mark.parametrize(
    ("host", "path", "body", "api", "provider", "model", "is_stream"),
    [
        ("generativelanguage.googleapis.com", "/v1beta/models/gemini-2.5-pro:generateContent",
         {"contents": []}, ModelApi.GEMINI, "gcp.gemini", "gemini-2.5-pro", False),
        ("us-east5-aiplatform.googleapis.com",
         "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse",
         {"contents": []}, ModelApi.GEMINI, "gcp.vertex_ai", "m", True),
        ("us-east5-aiplatform.googleapis.com",
         "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:streamRawPredict",
         {"messages": [], "anthropic_version": "vertex-2023-10-16"},
         ModelApi.MESSAGES, "gcp.vertex_ai", "claude-x@1", True),
        ("bedrock-runtime.us-east-1.amazonaws.com", "/model/amazon.nova-pro-v1%3A0/converse-stream",
         {"messages": []}, ModelApi.CONVERSE, "aws.bedrock", "amazon.nova-pro-v1:0", True),
        ("bedrock-runtime.us-east-1.amazonaws.com", "/model/anthropic.claude-x/invoke",
         {"messages": [], "anthropic_version": "bedrock-2023-05-31"},
         ModelApi.MESSAGES, "aws.bedrock", "anthropic.claude-x", False),
        ("api.cohere.com", "/v2/chat", {"messages": []}, ModelApi.COHERE, "cohere", None, None),
    ],
)  # fmt: skip
def test_request_is_recognised_with_model_and_provider(
    host: str, path: str, body: Any, api: ModelApi, provider: str, model: str | None,
    is_stream: bool | None,
) -> None:  # fmt: skip
    wire = recognise("POST", path, "application/json", body, host)
    assert wire == Wire(api, provider, model=model, is_stream=is_stream)
    # A body that could not be read must not let calls pass.
    assert recognise("POST", path, None, None, host) is not None


def test_request_elsewhere_with_the_same_path_is_no_model_call() -> None:
    assert recognise("POST", "/v2/chat", None, {"room": 1}, "chat.example") is None
    assert recognise("POST", "/model/a/converse", None, None, "chat.example") is None


IMAGE = {"inlineData": {"mimeType": "image/png"}}


def test_request_to_gemini_is_described() -> None:
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Delete Ada."}, IMAGE]},
            {"role": "model", "parts": [{"functionCall": {"name": "find_user"}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "find_user"}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "find_user"}]}, {"googleSearch": {}}],
    }  # fmt: skip
    said = describe_request(Wire(ModelApi.GEMINI, "gcp.gemini", model="g", is_stream=True), body)
    assert (said["model"], said["stream"], said["messages"], said["images"]) == ("g", True, 3, 1)
    assert (said["system"], said["prompt"]) == ("Be brief.", "Delete Ada.")
    assert [tool["name"] for tool in said["tools"]] == ["find_user", "googleSearch"]


# ---- the vendors' clients ------------------------------------------------------------------------


@pytest.fixture
def serve() -> Iterator[Callable[[bytes, bytes], str]]:
    """Answer every request with the same bytes, on a port of its own."""
    servers: list[ThreadingHTTPServer] = []

    def start(kind: bytes, answer: bytes) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", kind.decode())
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("is_stream", [True, False])
def test_google_client_sees_the_refusal_and_the_call_that_is_left(
    serve: Callable[[bytes, bytes], str], is_stream: bool
) -> None:
    genai = pytest.importorskip("google.genai", reason="google-genai is not installed")
    name = "gemini stream" if is_stream else "gemini"
    url = serve(SSE if is_stream else JSON, edit(name, NO_DELETES)[0])
    with genai.Client(api_key="k", http_options={"base_url": url}) as client:
        if is_stream:
            answers = list(client.models.generate_content_stream(model="m", contents="Delete Ada."))
        else:
            answers = [client.models.generate_content(model="m", contents="Delete Ada.")]
    parts = [part for answer in answers for part in answer.candidates[0].content.parts]
    assert "".join(part.text or "" for part in parts) == f"Let me see.{REFUSAL}"
    assert [part.function_call.name for part in parts if part.function_call] == ["find_user"]


def test_google_client_reads_over_a_sign_of_life(serve: Callable[[bytes, bytes], str]) -> None:
    genai = pytest.importorskip("google.genai", reason="google-genai is not installed")
    events = [KEEP_ALIVE + sse(chunk) for chunk in gemini_chunks()]
    url = serve(SSE, b"".join(events) + KEEP_ALIVE)
    with genai.Client(api_key="k", http_options={"base_url": url}) as client:
        answers = list(client.models.generate_content_stream(model="m", contents="Delete Ada."))
    assert len(answers) == len(events)


@pytest.mark.parametrize("is_stream", [True, False])
def test_amazon_client_sees_the_refusal_and_the_call_that_is_left(
    serve: Callable[[bytes, bytes], str], is_stream: bool
) -> None:
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    name = "converse stream" if is_stream else "converse"
    url = serve(AWS if is_stream else JSON, edit(name, NO_DELETES)[0])
    client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url,
                          aws_access_key_id="k", aws_secret_access_key="s")  # fmt: skip
    ask = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "Delete Ada."}]}]}
    if not is_stream:
        content = client.converse(**ask)["output"]["message"]["content"]
        assert [block.get("text") for block in content] == ["Let me see.", REFUSAL, None]
        assert content[2]["toolUse"]["name"] == "find_user"
        return
    events = list(client.converse_stream(**ask)["stream"])
    deltas = [
        event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event
    ]
    assert "".join(delta.get("text", "") for delta in deltas) == f"Let me see.{REFUSAL}"
    starts = [
        event["contentBlockStart"]["start"] for event in events if "contentBlockStart" in event
    ]
    assert [start["toolUse"]["name"] for start in starts] == ["find_user"]


def test_amazon_client_reads_an_edited_stream_of_claude(
    serve: Callable[[bytes, bytes], str],
) -> None:
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    url = serve(AWS, edit("claude on bedrock", NO_DELETES)[0])
    client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url,
                          aws_access_key_id="k", aws_secret_access_key="s")  # fmt: skip
    made = client.invoke_model_with_response_stream(modelId="m", body=b"{}")
    events = [json.loads(event["chunk"]["bytes"]) for event in made["body"]]
    text = "".join(event["delta"].get("text", "") for event in events if "delta" in event)
    assert REFUSAL in text
    assert base64.b64encode(b"delete_user") not in edit("claude on bedrock", NO_DELETES)[0]
