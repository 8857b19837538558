"""Reading what the code interpreter says: honest messages, lies, and floods."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.code import (
    Execution,
    ExecutionBuilder,
    ExecutionError,
    Logs,
    MessageReader,
    OutputMessage,
    Result,
)
from paddock.model.errors import SandboxError

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KINDS = ("stdout", "stderr", "display", "result", "error", "done", "pong", "news")
KEYS = ("text", "data", "metadata", "is_main_result", "name", "value", "traceback", "status")


def frame(message: Any) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def display(data: Any, *, main: Any = False) -> dict[str, Any]:
    return {"id": 1, "type": "result" if main else "display", "data": data, "is_main_result": main}


def done(count: Any = 1) -> dict[str, Any]:
    return {"id": 1, "type": "done", "execution_count": count, "status": "ok"}


def built(*messages: dict[str, Any]) -> Execution:
    builder = ExecutionBuilder(1)
    for message in messages:
        builder.feed(message)
    return builder.build()


# ---- what users read -----------------------------------------------------------------------------


def test_execution_has_the_shape_that_users_know() -> None:
    execution = built(
        {"id": 1, "type": "stdout", "text": "hi\n"},
        {"id": 1, "type": "stderr", "text": "oh\n"},
        display({"image/png": "iVBO", "text/plain": "<Figure>"}),
        display({"text/plain": "42"}, main=True),
        {"id": 1, "type": "error", "name": "E", "value": "v", "traceback": "t"},
        done(7),
    )
    assert execution.text == "42"
    assert execution.logs == Logs(("hi\n",), ("oh\n",))
    assert execution.results[0].png == "iVBO"
    assert execution.error == ExecutionError("E", "v", "t")
    assert execution.execution_count == 7


def test_text_is_none_without_a_main_result() -> None:
    assert built(display({"text/plain": "shown"}), done()).text is None


def test_result_lists_its_formats_and_gives_them_by_name_and_by_mime_type() -> None:
    data = {"text/plain": "t", "application/json": {"a": 1}, "application/vnd.x": [1]}
    result = built(display(data)).results[0]
    assert result.formats() == ["text", "json", "application/vnd.x"]
    assert result["text"] == result["text/plain"] == "t"
    assert result["application/vnd.x"] == [1]
    assert result["png"] is None
    with pytest.raises(KeyError):
        result["application/other"]


def test_execution_turns_into_json() -> None:
    execution = built(display({"text/plain": "42"}, main=True), done())
    said = json.loads(execution.to_json())
    assert said["results"][0]["text"] == "42"
    assert said["logs"] == {"stdout": [], "stderr": []}
    assert said["error"] is None


# ---- what callbacks are told ---------------------------------------------------------------------


def test_feed_gives_what_a_callback_is_told() -> None:
    builder = ExecutionBuilder(1)
    output = builder.feed({"id": 1, "type": "stderr", "text": "x"})
    assert output == OutputMessage("x", error=True)
    assert str(output) == "x"
    assert builder.feed(display({"text/plain": "1"})) == Result(text="1")
    error = {"id": 1, "type": "error", "name": "E", "value": "", "traceback": ""}
    assert builder.feed(error) == ExecutionError("E", "", "")
    assert not builder.is_done
    assert builder.feed(done()) is None
    assert builder.is_done


@pytest.mark.parametrize("other", [None, 2, "1", True, 1.0])
def test_messages_of_other_cells_are_ignored(other: Any) -> None:
    builder = ExecutionBuilder(1)
    assert builder.feed({"id": other, "type": "stdout", "text": "x"}) is None
    assert builder.feed({**done(), "id": other}) is None
    assert builder.build() == Execution()
    assert not builder.is_done


def test_error_without_id_is_the_end_of_the_interpreter_and_is_told() -> None:
    fatal = {"id": None, "type": "error", "name": "KernelStartError", "value": "", "traceback": ""}
    error = built(fatal).error
    assert error is not None
    assert error.name == "KernelStartError"


def test_nothing_is_taken_after_done() -> None:
    assert built(done(), {"id": 1, "type": "stdout", "text": "late"}).logs == Logs()


def test_unknown_kinds_are_ignored() -> None:
    assert built({"id": 1, "type": "news"}, {"id": 1}, {"id": 1, "type": [1]}) == Execution()


# ---- lies ----------------------------------------------------------------------------------------


@for_each(
    "message",
    [
        {"id": 1, "type": "stdout", "text": 5},
        {"id": 1, "type": "stdout"},
        display([]),
        display({"text/html": 5}),
        display({"text/plain": ["a"]}),
        display({"image/png": None}),
        display({5: "x"}),
        {**display({}), "is_main_result": 1},
        {"id": 1, "type": "error", "name": "E", "value": None, "traceback": ""},
        done("1"),
        done(-1),
        done(True),
        done(None),
    ],
)
def test_wrong_types_are_a_sandbox_error(message: dict[str, Any]) -> None:
    with pytest.raises(SandboxError, match="malformed"):
        ExecutionBuilder(1).feed(message)


def test_deep_json_is_refused_before_it_can_hurt() -> None:
    value: Any = []
    for _ in range(500):
        value = [value]
    with pytest.raises(SandboxError, match="deep"):
        ExecutionBuilder(1).feed(display({"application/json": value}))


def test_text_is_always_encodable_and_numbers_are_finite() -> None:
    data = {"text/plain": "\ud800x", "application/json": {"\ud800": [float("inf"), "\udfff"]}}
    execution = built({"id": 1, "type": "stdout", "text": "\ud800"}, display(data))
    assert execution.logs.stdout == ("?",)
    assert execution.results[0] == Result(text="?x", json={"?": [None, "?"]})
    execution.to_json().encode()


@given(kind=st.sampled_from(KINDS), fields=st.dictionaries(st.sampled_from(KEYS), anything))
def test_any_message_is_taken_or_is_a_sandbox_error(kind: str, fields: dict[str, Any]) -> None:
    builder = ExecutionBuilder(1, max_bytes=1000)
    with contextlib.suppress(SandboxError):
        builder.feed({"id": 1, "type": kind, **fields})
    json.loads(builder.build().to_json(), parse_constant=pytest.fail)


# ---- floods --------------------------------------------------------------------------------------


def test_output_past_the_bound_is_cut_and_noted() -> None:
    builder = ExecutionBuilder(1, max_bytes=1000)
    for _ in range(100):
        builder.feed({"id": 1, "type": "stdout", "text": "é" * 100})
    text = "".join(builder.build().logs.stdout)
    assert builder.overflowed
    assert 400 < len(text.encode()) <= 1000
    assert set(text) == {"é"}


def test_many_tiny_pieces_are_bounded_too() -> None:
    builder = ExecutionBuilder(1, max_bytes=10_000)
    for _ in range(10_000):
        builder.feed({"id": 1, "type": "stdout", "text": "x"})
    assert builder.overflowed
    assert len(builder.build().logs.stdout) < 200


def test_result_past_the_bound_is_dropped_but_the_end_is_still_seen() -> None:
    builder = ExecutionBuilder(1, max_bytes=1000)
    assert builder.feed(display({"image/png": "x" * 2000})) is None
    builder.feed({"id": 1, "type": "error", "name": "E", "value": "v", "traceback": "t"})
    builder.feed(done(3))
    execution = builder.build()
    assert builder.overflowed
    assert (execution.results, execution.execution_count) == ((), 3)
    assert execution.error is not None


# ---- bytes ---------------------------------------------------------------------------------------


@given(messages=st.lists(st.dictionaries(st.text(), st.text()), max_size=5), data=st.data())
def test_reader_gives_the_same_messages_however_the_bytes_are_cut(
    messages: list[dict[str, str]], data: st.DataObject
) -> None:
    stream, reader, got = b"".join(map(frame, messages)), MessageReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += reader.feed(stream[:size])
        stream = stream[size:]
    assert got == messages
    assert not reader.is_mid_message


@given(stream=st.binary(max_size=200))
def test_reader_takes_any_bytes_or_says_sandbox_error(stream: bytes) -> None:
    reader = MessageReader(max_message_bytes=100)
    try:
        reader.feed(stream)
    except SandboxError:
        with pytest.raises(SandboxError):
            reader.feed(frame({}))


def test_reader_knows_when_it_is_in_the_middle() -> None:
    reader = MessageReader()
    assert reader.feed(frame({"a": 1})[:-1]) == []
    assert reader.is_mid_message


def test_length_over_the_bound_is_refused_before_the_body_arrives() -> None:
    with pytest.raises(SandboxError, match="101 bytes"):
        MessageReader(max_message_bytes=100).feed(struct.pack(">I", 101))


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"nonsense", b'"text"', b"\xff", b"[" * 100_000, b'{"a":' + b"9" * 10_000 + b"}"],
    ids=["empty", "list", "nonsense", "string", "not utf-8", "deep", "huge number"],
)
def test_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(SandboxError, match="malformed"):
        MessageReader().feed(struct.pack(">I", len(body)) + body)


def test_structure_that_would_explode_in_memory_is_refused_unparsed() -> None:
    body = b'{"a":[' + b"[]," * (2 << 20) + b"0]}"
    with pytest.raises(SandboxError, match="structure"):
        MessageReader().feed(struct.pack(">I", len(body)) + body)


@pytest.mark.parametrize("tail", [b'"', b"", b"\\"], ids=["closed", "open", "open at a backslash"])
def test_long_string_of_escapes_is_measured_in_linear_time(tail: bytes) -> None:
    body = b'{"a":"' + b'\\"' * (4 << 20) + tail + b"}"
    reader = MessageReader()
    if tail == b'"':
        assert len(reader.feed(struct.pack(">I", len(body)) + body)[0]["a"]) == 4 << 20
    else:
        with pytest.raises(SandboxError, match="not JSON"):
            reader.feed(struct.pack(">I", len(body)) + body)


def test_numbers_that_are_no_json_become_null() -> None:
    body = b'{"a":[NaN,Infinity,-Infinity]}'
    assert MessageReader().feed(struct.pack(">I", len(body)) + body) == [{"a": [None] * 3}]
