"""What goes out of an answer with tool calls: byte for byte, replaced, or not at all."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.llm import editor as editor_module
from paddock.llm.answer import ToolCall
from paddock.llm.editor import AnswerEditor
from paddock.llm.formats import ModelApi, Wire
from paddock.llm.json_text import MAX_ARGUMENTS, MAX_BODY
from paddock.llm.reader import AnswerReader
from unit.llm.streams import (
    BODIES,
    CHAT,
    MESSAGES,
    NO_DELETES,
    REFUSAL,
    RESPONSES,
    STREAMS,
    TWO,
    WIRES,
    chat_calls,
    chat_chunk,
    chat_stream,
    edit,
    messages_events,
    messages_stream,
    responses_events,
    responses_stream,
    sse,
    tool_block,
)

ALL = pytest.mark.parametrize("api", ["chat", "responses", "messages"])
ENDINGS = pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])


class Nothing(dict[str, str]):
    """Verdicts by which no call is allowed, whatever its name."""

    def get(self, name: str, default: Any = None) -> str:
        return "no"


def cuts(data: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(borders)]


def data_of(sent: bytes) -> list[Any]:
    lines = [line for line in sent.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line[6:]) for line in lines]


@ALL
@ENDINGS
@given(places=st.lists(st.integers(0, 1 << 16), max_size=12))
def test_allowed_stream_goes_out_byte_for_byte_however_it_is_cut(
    api: str, ending: bytes, places: list[int]
) -> None:
    stream = b": hello\n\n" + STREAMS[api]() + b"\n: bye\n\n"
    stream = stream.replace(b"\n", ending)
    result = edit(WIRES[api], cuts(stream, places), {})
    assert result.sent == stream
    assert [call.name for call in result.calls] == ["delete_user", "find_user"]
    assert not result.editor.is_broken


@ALL
@given(places=st.lists(st.integers(0, 1 << 16), max_size=12))
def test_refused_stream_is_the_same_however_it_is_cut(api: str, places: list[int]) -> None:
    stream = STREAMS[api]()
    whole = edit(WIRES[api], [stream], NO_DELETES)
    assert edit(WIRES[api], cuts(stream, places), NO_DELETES).sent == whole.sent
    assert b"delete_user" in whole.sent and REFUSAL.encode() in whole.sent


@ALL
def test_stream_of_single_bytes_is_understood(api: str) -> None:
    stream = STREAMS[api]()
    result = edit(WIRES[api], [stream[i : i + 1] for i in range(len(stream))], NO_DELETES)
    assert result.sent == edit(WIRES[api], [stream], NO_DELETES).sent


@ALL
def test_allowed_body_goes_out_byte_for_byte(api: str) -> None:
    body = BODIES[api]()
    result = edit(WIRES[api], cuts(body, [1, 50, 90]), {}, is_stream=False)
    assert result.sent == body
    assert [call.arguments for call in result.calls] == [{"id": 7}, {"name": "Ada"}]


@ALL
def test_refused_call_leaves_no_trace_of_its_arguments(api: str) -> None:
    calls = [("delete_user", '{"id": "s3cret"}'), ("find_user", '{"name": "Ada"}')]
    for source, is_stream in ((STREAMS, True), (BODIES, False)):
        result = edit(WIRES[api], [source[api](calls)], NO_DELETES, is_stream=is_stream)
        assert b"s3cr" not in result.sent and REFUSAL.encode() in result.sent


@ALL
def test_text_goes_on_before_the_call_is_complete_and_the_call_does_not(api: str) -> None:
    stream = STREAMS[api]()
    start = stream.index(b"delete_user")
    editor = AnswerEditor(WIRES[api], is_stream=True)
    parts = list(editor.feed(stream[: start + 200]))
    sent = b"".join(part for part in parts if isinstance(part, bytes))
    assert b"ee." in sent and b"delete_user" not in sent
    assert stream.startswith(sent)


@ALL
def test_nothing_behind_a_call_goes_out_before_the_verdict(api: str) -> None:
    editor = AnswerEditor(WIRES[api], is_stream=True)
    parts = editor.feed(STREAMS[api]())
    sent = b""
    for part in parts:
        if isinstance(part, ToolCall):
            break
        sent += part
    assert b"delete_user" not in sent and b"find_user" not in sent


@ALL
def test_call_without_a_verdict_is_refused(api: str) -> None:
    editor = AnswerEditor(WIRES[api], is_stream=True)
    sent = b"".join(part for part in editor.feed(STREAMS[api]()) if isinstance(part, bytes))
    assert sent.count(b"was refused: nobody decided on it") >= 2
    assert b'"tool_use"' not in sent and b'"function_call"' not in sent
    assert b'"tool_calls"' not in sent


@ALL
def test_verdict_on_another_call_than_the_one_that_waits_is_an_error(api: str) -> None:
    editor = AnswerEditor(WIRES[api], is_stream=True)
    with pytest.raises(ValueError, match="not the one that waits"):
        editor.resolve(ToolCall("x", "x", "x", {}), None)


@ALL
def test_stream_that_ends_in_a_call_gives_nothing_of_it(api: str) -> None:
    stream = STREAMS[api]()
    end = stream.index(b"find_user") + 300
    result = edit(WIRES[api], [stream[: stream.index(b"delete_user") + 300]], {})
    assert b"delete_user" not in result.sent
    assert result.editor.is_broken
    later = edit(WIRES[api], [stream[:end]], {})
    assert b"find_user" not in later.sent and later.editor.is_broken


@ALL
@pytest.mark.parametrize(
    "junk", [b"data: {oops\n\n", b"what is this\n\n", b'data: {"a":1,"a":2}\n\n']
)
def test_event_that_cannot_be_read_stops_everything_after_it(api: str, junk: bytes) -> None:
    stream = STREAMS[api]()
    middle = stream.index(b"\n\n", stream.index(b"delete_user")) + 2
    result = edit(WIRES[api], [stream[:middle] + junk + stream[middle:]], {})
    assert result.editor.is_broken and result.calls == []
    assert b"delete_user" not in result.sent
    early = edit(WIRES[api], [junk + stream], {})
    assert early.sent == b"" and early.editor.is_broken


@ALL
@given(noise=st.binary(max_size=300), place=st.integers(0, 1 << 16))
def test_noise_never_raises_and_never_lets_a_refused_call_through(
    api: str, noise: bytes, place: int
) -> None:
    stream = STREAMS[api]([("delete_user", '{"id": 7}')])
    place %= len(stream)
    result = edit(WIRES[api], [stream[:place] + noise + stream[place:]], Nothing())
    reader = AnswerReader(WIRES[api], is_stream=True)
    reader.feed(result.sent)
    assert reader.finish().tool_calls == ()
    edit(WIRES[api], [noise], Nothing())
    edit(WIRES[api], [noise], Nothing(), is_stream=False)


@ALL
@given(drop=st.sets(st.integers(0, 60), max_size=6), twice=st.sets(st.integers(0, 60), max_size=6))
def test_lost_and_repeated_events_never_let_an_undecided_call_through(
    api: str, drop: set[int], twice: set[int]
) -> None:
    events = STREAMS[api]([("delete_user", '{"id": "s3cret"}')]).split(b"\n\n")
    kept = [e for n, e in enumerate(events) if n not in drop for _ in range(1 + (n in twice))]
    result = edit(WIRES[api], [b"\n\n".join(kept)], NO_DELETES)
    for event in data_of(result.sent):
        assert "s3c" not in json.dumps(event)


@ALL
def test_deep_json_is_a_problem_and_no_crash(api: str) -> None:
    deep = b"[" * 200_000
    assert edit(WIRES[api], [b"data: " + deep + b"\n\n"], {}).editor.is_broken
    assert edit(WIRES[api], [deep], {}, is_stream=False).editor.is_broken


@ALL
def test_body_beyond_the_bound_is_too_large(api: str) -> None:
    result = edit(WIRES[api], [b" " * (1 << 20)] * 9, {}, is_stream=False)
    assert result.sent == b"" and result.editor.is_too_large and result.editor.is_broken


@ALL
def test_event_beyond_the_bound_is_too_large(api: str) -> None:
    result = edit(WIRES[api], [b"data: "] + [b"x" * (1 << 20)] * 9, {})
    assert result.sent == b"" and result.editor.is_too_large


def test_more_behind_a_call_than_the_bound_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor_module, "MAX_BODY", 4096)
    assert MAX_BODY > 4096
    speech = [chat_chunk({"content": "x" * 100})] * 100
    result = edit(CHAT, [sse(*chat_calls(TWO), *speech)], {})
    assert result.sent == b"" and result.editor.is_too_large


def test_arguments_beyond_the_bound_are_a_problem() -> None:
    long = tool_block(1, "delete_user", "x")
    long[1:1] = [
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": "x" * (1 << 16)},
        }
    ] * (MAX_ARGUMENTS // (1 << 16) + 1)
    events = messages_events([])[:-2]
    result = edit(MESSAGES, [sse(*events, *long, names=True)], {})
    assert result.calls == [] and b"delete_user" not in result.sent and result.editor.is_broken


@pytest.mark.parametrize(
    "text", ['{"id": 1, "id": 2}', '{"id": NaN}', '{"id":', "[1]", '{"n": 1e999}']
)
def test_arguments_that_read_in_two_ways_are_not_readable(text: str) -> None:
    result = edit(CHAT, [chat_stream([("delete_user", text)])], {})
    assert result.calls[0].arguments == text
    assert not result.calls[0].is_readable


def test_call_without_arguments_has_none() -> None:
    assert edit(CHAT, [chat_stream([("ping", "")])], {}).calls[0].arguments == {}


def test_error_in_the_middle_of_a_call_goes_out_alone() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    before = messages_events([])[:-2]
    started = tool_block(1, "delete_user", "{}")[:2]
    result = edit(MESSAGES, [sse(*before, *started, error, names=True)], {})
    assert result.sent == sse(*before, error, names=True)
    assert result.editor.is_broken


def test_error_that_carries_a_call_is_held_like_a_call() -> None:
    sneaky = {**chat_calls(TWO)[0], "error": {"message": "x"}}
    result = edit(CHAT, [sse(chat_calls(TWO)[0], sneaky)], {})
    assert result.sent == b""


def test_chat_pieces_of_two_calls_may_alternate() -> None:
    calls = chat_calls(TWO)
    first, second = calls[: len(calls) // 2], calls[len(calls) // 2 :]
    mixed = [event for pair in zip(first, second, strict=False) for event in pair]
    mixed += first[len(second) :] + second[len(first) :]
    stream = sse(*mixed, chat_chunk({}, "tool_calls"), "[DONE]")
    result = edit(CHAT, [stream], {})
    assert [call.arguments for call in result.calls] == [{"id": 7}, {"name": "Ada"}]
    assert result.sent == stream
    kept = edit(CHAT, [stream], NO_DELETES)
    indexes = {
        piece["index"]
        for event in data_of(kept.sent)
        for piece in event["choices"][0]["delta"].get("tool_calls", [])
    }
    assert indexes == {0}


def test_chat_choices_are_decided_apart() -> None:
    stream = sse(
        *chat_calls(TWO, 0),
        *chat_calls(TWO[:1], 1),
        chat_chunk({"content": "No."}, None, 2),
        chat_chunk({}, "tool_calls", 1),
        chat_chunk({}, "tool_calls", 0),
        chat_chunk({}, "stop", 2),
        "[DONE]",
    )
    result = edit(CHAT, [stream], NO_DELETES)
    assert len(result.calls) == 3
    finished = {
        choice["index"]: choice["finish_reason"]
        for event in data_of(result.sent)
        for choice in event["choices"]
        if choice["finish_reason"]
    }
    assert finished == {0: "tool_calls", 1: "stop", 2: "stop"}


def test_chat_call_that_goes_on_after_the_end_is_a_problem() -> None:
    events = [*chat_calls(TWO[:1]), chat_chunk({}, "tool_calls")]
    late = chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": ', "all": 1}'}}]})
    new = chat_chunk({"tool_calls": [{"index": 1, "id": "x", "function": {"name": "sneak"}}]})
    for more in (late, new):
        result = edit(CHAT, [sse(*events, more, "[DONE]")], {})
        assert result.editor.is_broken
        assert result.sent == sse(*events)


def test_chat_call_with_two_names_is_a_problem() -> None:
    again = chat_chunk({"tool_calls": [{"index": 0, "function": {"name": "find_user"}}]})
    result = edit(CHAT, [sse(*chat_calls(TWO[:1]), again, chat_chunk({}, "stop"))], {})
    assert result.sent == b"" and result.editor.is_broken


def test_chat_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    whole = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": args}}
        for n, (name, args) in enumerate(TWO)
    ]
    events = [chat_chunk({"tool_calls": [one]}) for one in whole]
    stream = sse(*events, chat_chunk({}, "tool_calls"), "[DONE]")
    result = edit(CHAT, [stream], {})
    assert [call.name for call in result.calls] == ["delete_user", "find_user"]
    assert result.sent == stream


def test_chat_calls_that_a_client_would_mix_up_are_a_problem() -> None:
    first, second = chat_calls(TWO[:1]), chat_calls(TWO)[len(chat_calls(TWO[:1])) :]
    unnumbered = chat_chunk({"tool_calls": [{"function": {"arguments": "}"}}]})
    foreign = {**first[1], "object": "other"}
    for events in ([*second, *first], [*first, unnumbered], [first[0], foreign, *first[2:]]):
        result = edit(CHAT, [sse(*events, chat_chunk({}, "tool_calls"))], {})
        assert result.calls == [] and result.sent == b"" and result.editor.is_broken


def test_chat_custom_tool_is_a_call_with_its_input() -> None:
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sql", "input": "DROP "}}
    more = {"index": 0, "custom": {"input": "TABLE x"}}
    events = [chat_chunk({"tool_calls": [custom]}), chat_chunk({"tool_calls": [more]})]
    result = edit(CHAT, [sse(*events, chat_chunk({}, "tool_calls"))], {"sql": "no"})
    assert result.calls[0].arguments == {"input": "DROP TABLE x"}
    assert b"TABLE" not in result.sent


def test_chat_legacy_function_call_is_a_call() -> None:
    events = [
        chat_chunk({"function_call": {"name": "delete_user", "arguments": '{"id"'}}),
        chat_chunk({"function_call": {"arguments": ": 7}"}}),
        chat_chunk({}, "function_call"),
    ]
    result = edit(CHAT, [sse(*events)], NO_DELETES)
    assert result.calls[0].arguments == {"id": 7}
    assert b"function_call" not in result.sent and REFUSAL.encode() in result.sent
    assert data_of(result.sent)[-1]["choices"][0]["finish_reason"] == "stop"
    assert edit(CHAT, [sse(*events)], {}).sent == sse(*events)


def test_messages_blocks_out_of_order_are_a_problem() -> None:
    start = {"type": "message_start", "message": {"content": []}}
    call = tool_block(7, "delete_user", '{"id": 7}')
    result = edit(MESSAGES, [sse(start, *call, names=True)], {})
    assert b"delete_user" not in result.sent and result.editor.is_broken


def test_messages_block_in_the_middle_of_a_call_is_a_problem() -> None:
    events = messages_events([])[:-2]
    outer, inner = tool_block(1, "delete_user", '{"id": 7}'), tool_block(2, "find_user", "{}")
    result = edit(MESSAGES, [sse(*events, *outer[:3], *inner, *outer[3:], names=True)], {})
    assert result.sent == sse(*events, names=True) and result.editor.is_broken


def test_messages_piece_after_the_end_of_its_call_is_a_problem() -> None:
    events = messages_events(TWO[:1])
    late = [e for e in events if e.get("index") == 1 and "partial_json" in str(e)][-1]
    result = edit(MESSAGES, [sse(*events[:-2], late, *events[-2:], names=True)], {})
    assert result.sent == sse(*events[:-2], names=True) and result.editor.is_broken


def test_messages_server_tools_and_thinking_pass() -> None:
    events = messages_events([])[:-2]
    blocks = [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    ]
    for index, block in enumerate(blocks, 1):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    stream = sse(*events, names=True)
    result = edit(MESSAGES, [stream], {})
    assert result.calls == [] and result.sent == stream


def test_messages_message_that_starts_with_a_call_is_a_problem() -> None:
    content = [{"type": "tool_use", "id": "t", "name": "delete_user", "input": {"id": 7}}]
    start = {"type": "message_start", "message": {"content": content}}
    result = edit(MESSAGES, [sse(start, names=True)], {})
    assert result.sent == b"" and result.editor.is_broken


def test_messages_usage_is_untouched_by_a_refusal() -> None:
    result = edit(MESSAGES, [messages_stream(TWO[:1])], NO_DELETES)
    delta = next(e for e in data_of(result.sent) if e["type"] == "message_delta")
    assert delta["delta"]["stop_reason"] == "end_turn"
    assert delta["usage"] == {"output_tokens": 25}


def test_responses_numbers_stay_in_order_after_a_refusal() -> None:
    for refused in (NO_DELETES, {"find_user": "no"}, {**NO_DELETES, "find_user": "no"}):
        result = edit(RESPONSES, [responses_stream()], refused)
        numbers = [event["sequence_number"] for event in data_of(result.sent)]
        assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("field", ["arguments", "name"])
def test_responses_call_repeated_otherwise_at_the_end_is_a_problem(field: str) -> None:
    events = responses_events(TWO[:1])
    events[-1]["response"]["output"][1][field] = "other"
    result = edit(RESPONSES, [sse(*events, names=True)], {})
    assert b"response.completed" not in result.sent and result.editor.is_broken


def test_responses_call_that_only_the_end_mentions_is_decided() -> None:
    events = [responses_events()[0], responses_events()[-1]]
    result = edit(RESPONSES, [sse(*events, names=True)], NO_DELETES)
    assert [call.name for call in result.calls] == ["delete_user", "find_user"]
    output = data_of(result.sent)[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "message", "function_call"]


def test_responses_pieces_that_differ_from_the_arguments_are_a_problem() -> None:
    for kind in ("response.function_call_arguments.done", "response.output_item.done"):
        events = responses_events(TWO[:1])
        target = next(e for e in events if e["type"] == kind and e["output_index"] == 1)
        target.get("item", target)["arguments"] = "{}"
        result = edit(RESPONSES, [sse(*events, names=True)], {})
        assert b"delete_user" not in result.sent and result.editor.is_broken


def test_responses_piece_of_a_call_that_was_not_announced_is_a_problem() -> None:
    events = [e for e in responses_events(TWO[:1]) if "in_progress" not in str(e)]
    result = edit(RESPONSES, [sse(*events, names=True)], {})
    assert b"arguments" not in result.sent and result.editor.is_broken


@pytest.mark.parametrize(
    ("item", "name", "arguments"),
    [
        (
            {"type": "shell_call", "action": {"commands": ["rm -rf /"]}},
            "shell",
            {"action": {"commands": ["rm -rf /"]}},
        ),
        ({"type": "custom_tool_call", "name": "sql", "input": "DROP"}, "sql", {"input": "DROP"}),
        (
            {"type": "mcp_approval_request", "name": "pay", "arguments": '{"eur": 9}'},
            "pay",
            {"eur": 9},
        ),
        ({"type": "brand_new_call", "target": "x"}, "brand_new", {"target": "x"}),
    ],
)
def test_responses_calls_of_every_kind_are_decided(
    item: dict[str, Any], name: str, arguments: dict[str, Any]
) -> None:
    item = {"id": "i_1", "call_id": "call_1", "status": "completed", **item}
    events = responses_events([])
    events[-1]["response"]["output"].append(item)
    place = {"output_index": 1}
    events[-1:-1] = [
        {"type": "response.output_item.added", **place, "item": item},
        {"type": "response.output_item.done", **place, "item": item},
    ]
    stream = sse(*events, names=True)
    allowed = edit(RESPONSES, [stream], {})
    assert [(call.name, call.arguments) for call in allowed.calls] == [(name, arguments)]
    assert allowed.sent == stream
    refused = edit(RESPONSES, [stream], {name: "no"})
    assert item["type"].encode() not in refused.sent


def test_responses_failure_in_the_middle_of_a_call_goes_out_alone() -> None:
    events = responses_events(TWO[:1])
    cut = next(n for n, e in enumerate(events) if "arguments.delta" in e["type"])
    failed = {"type": "response.failed", "response": {"id": "resp_1", "output": []}}
    result = edit(RESPONSES, [sse(*events[:cut], failed, names=True)], {})
    assert b"response.failed" in result.sent and b"delete_user" not in result.sent
    assert result.editor.is_broken


def test_body_that_is_no_json_object_does_not_go_out() -> None:
    for body in (b"<html>", b"[]", b'"x"', b'{"choices": 5}', b'{"choices": [5]}'):
        result = edit(CHAT, [body], {}, is_stream=False)
        assert result.sent == b"" and result.editor.is_broken


def test_error_body_goes_out_as_it_is() -> None:
    body = b'{"error": {"message": "no such model", "type": "invalid_request_error"}}'
    for wire in WIRES.values():
        assert edit(wire, [body], {}, is_stream=False).sent == body


EMPTY_CALLS = [
    {"function_call": {"name": "", "arguments": ""}},
    {"function_call": {"name": None, "arguments": None}},
    {"function_call": {}, "tool_calls": []},
    {"function_call": "", "tool_calls": ""},
    {"tool_calls": [{"id": "", "type": "function", "function": {"name": "", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {}}, None]},
    {"tool_calls": {}},
]
# Some servers write the arguments of a call that is not there.
NAMELESS_CALLS = [
    {"function_call": {"name": "", "arguments": "{}"}},
    {"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": "{}"}}]},
]


@pytest.mark.parametrize("empty", [*EMPTY_CALLS, *NAMELESS_CALLS])
def test_calls_with_nothing_in_them_pass(empty: dict[str, Any]) -> None:
    spoken = sse(chat_chunk({"content": "hi", **empty}), chat_chunk(empty, "stop"), "[DONE]")
    body = {"choices": [{"message": {"content": "hi", **empty}, "finish_reason": "stop"}]}
    for data, is_stream in ((spoken, True), (json.dumps(body).encode(), False)):
        result = edit(CHAT, [data], {}, is_stream=is_stream)
        assert (result.sent, result.calls, result.editor.problem) == (data, [], None)


@pytest.mark.parametrize("empty", EMPTY_CALLS)
def test_a_call_beside_one_with_nothing_in_it_is_decided(empty: dict[str, Any]) -> None:
    stream = sse(
        chat_chunk({"content": None, **empty}),
        *chat_calls(TWO),
        chat_chunk({}, "tool_calls"),
        "[DONE]",
    )
    result = edit(CHAT, [stream], NO_DELETES)
    assert [call.name for call in result.calls] == ["delete_user", "find_user"]
    assert result.editor.problem is None
    assert "delete_user" not in json.dumps(
        [one for one in data_of(result.sent) if "tool_calls" in one["choices"][0]["delta"]]
    )


@pytest.mark.parametrize("empty", EMPTY_CALLS)
def test_calls_with_nothing_in_them_pass_out_of_place_and_after_the_end(
    empty: dict[str, Any],
) -> None:
    misplaced = chat_chunk({"content": "hi"})
    misplaced["choices"][0]["message"] = empty
    calls = [misplaced, *chat_calls(TWO), misplaced, chat_chunk({}, "tool_calls")]
    stream = sse(*calls, chat_chunk({"content": "", **empty}), misplaced, "[DONE]")
    result = edit(CHAT, [stream], {})
    assert (result.sent, result.editor.problem) == (stream, None)
    assert [call.name for call in result.calls] == ["delete_user", "find_user"]
    body = {"choices": [{"delta": empty, "message": {"content": "hi"}, "finish_reason": "stop"}]}
    raw = json.dumps(body).encode()
    assert edit(CHAT, [raw], {}, is_stream=False).sent == raw


def test_an_empty_piece_after_the_end_leaves_with_the_call_that_was_refused() -> None:
    late = {"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": ""}}]}
    stream = sse(*chat_calls(TWO[:1]), chat_chunk({}, "tool_calls"), chat_chunk(late), "[DONE]")
    result = edit(CHAT, [stream], NO_DELETES)
    assert result.editor.problem is None
    assert b"tool_calls" not in result.sent


def test_reason_to_stop_beside_a_refused_call_is_another_one() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "delete_user", "arguments": "{}"}}
    stream = sse(chat_chunk({"tool_calls": [call]}, "tool_calls"), "[DONE]")
    [event] = data_of(edit(CHAT, [stream], NO_DELETES).sent)
    assert event["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("finish", ["", False])
def test_an_empty_reason_to_stop_is_none(finish: Any) -> None:
    events = [chat_chunk({"role": "assistant"}), *chat_calls(TWO)]
    for event in events:
        event["choices"][0]["finish_reason"] = finish
    stream = sse(*events, chat_chunk({}, "tool_calls"), "[DONE]")
    result = edit(CHAT, [stream], {})
    assert (result.sent, result.editor.problem) == (stream, None)
    assert [call.arguments for call in result.calls] == [{"id": 7}, {"name": "Ada"}]
    assert REFUSAL.encode() in edit(CHAT, [stream], NO_DELETES).sent


@pytest.mark.parametrize("nameless", NAMELESS_CALLS)
def test_no_call_follows_arguments_that_a_client_would_add_its_own_to(
    nameless: dict[str, Any],
) -> None:
    [place] = nameless
    inner = {"name": "delete_user", "arguments": '{"id": 7}'}
    named = {place: inner if place == "function_call" else [{"index": 0, "function": inner}]}
    stream = sse(chat_chunk(nameless), chat_chunk(named), chat_chunk({}, "tool_calls"), "[DONE]")
    result = edit(CHAT, [stream], {})
    assert result.editor.is_broken and b"delete_user" not in result.sent
    # To a call that was decided on, nothing is added afterwards.
    stream = sse(chat_chunk(named, "tool_calls"), chat_chunk(nameless), "[DONE]")
    assert edit(CHAT, [stream], {}).sent == sse(chat_chunk(named, "tool_calls"))


@pytest.mark.parametrize(
    "piece",
    [
        {"type": "function", "name": "delete_user", "arguments": "{}"},
        {"id": "", "function": {"name": "{}"}},
        {"id": "", "custom": {"name": "", "input": "{}"}},
        {"id": "", "function": {"name": "", "arguments": '{"id": 7}'}},
    ],
)
def test_a_piece_that_says_anything_else_is_not_empty(piece: dict[str, Any]) -> None:
    stream = sse(chat_chunk({"tool_calls": [{"index": 0, **piece}]}), "[DONE]")
    body = json.dumps({"choices": [{"message": {"tool_calls": [piece]}}]}).encode()
    for data, is_stream in ((stream, True), (body, False)):
        result = edit(CHAT, [data], Nothing(), is_stream=is_stream)
        assert result.editor.is_broken or result.calls
        assert b'"tool_calls"' not in result.sent


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        (ModelApi.MESSAGES, {"content": [{"type": ["tool_use"], "id": "t", "name": "pay"}]}),
        (ModelApi.MESSAGES, {"type": ["message"], "content": []}),
        (ModelApi.RESPONSES, {"output": [{"type": ["function_call"], "name": "pay"}]}),
    ],
)
def test_a_type_that_is_no_text_is_not_let_through(api: ModelApi, answer: dict[str, Any]) -> None:
    """In JavaScript `calls[item.type]` finds the same for a list of one text as for the text."""
    editor = AnswerEditor(Wire(api, "x"), is_stream=False)
    list(editor.feed(json.dumps(answer).encode()))
    assert list(editor.finish()) == []
    assert editor.problem is not None
