"""Answers of models on their way to the agent."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from paddock.llm import editor, reader
from unit.doors.network.doorway import Asked, Told, doorway, origin, staged

NO_TOOLS = {"id": "no-tools", "match": {"kind": "tool"}, "decide": "block"}
QUESTION = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()


def _told(directory: Path, content_type: str, body: bytes) -> Told:
    """What an agent is told when a model answers so."""

    def answer(asked: Asked) -> bytes:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}"
        return head.encode() + b"\r\n\r\n" + body

    async def play() -> Told:
        async with origin(answer) as server, doorway(directory, staged(server), NO_TOOLS) as way:
            client = await way.dial()
            await client.send(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(QUESTION), QUESTION)
            )
            async with asyncio.timeout(20):
                whole = await client.reader.read()
            first, _, rest = whole.partition(b"\r\n\r\n")
            return Told(int(first[9:12]), first.decode("latin-1"), rest)

    return asyncio.run(play())


def test_a_charset_in_the_words_of_rfc_2231_is_not_overlooked(tmp_path: Path) -> None:
    """A client that reads UTF-16 finds an event in what is a comment in UTF-8."""
    call = {"index": 0, "id": "c", "function": {"name": "pay", "arguments": "{}"}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    hidden = f"\u2028data: {json.dumps(chunk)}\u2028\u2028".encode("utf-16-le")
    assert b"\n" not in hidden
    body = b":x" + hidden + b"\n\ndata: [DONE]\n\n"
    for spelled in ("charset*=utf-8''utf-16-le", 'charset*0="utf-"; charset*1="16-le"'):
        told = _told(tmp_path / spelled[-4:], f"text/event-stream; {spelled}", body)
        assert told.status == 502
        assert hidden not in told.body


@pytest.mark.parametrize("is_long", [False, True])
def test_a_long_event_is_parsed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_long: bool
) -> None:
    threads: set[int] = set()

    def load(data: bytes) -> object:
        threads.add(threading.get_ident())
        return json.loads(data)

    monkeypatch.setattr(reader, "load", load)
    monkeypatch.setattr(editor, "load", load)
    text = "word " * (100_000 if is_long else 1)
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    told = _told(tmp_path, "text/event-stream", b"data: " + json.dumps(chunk).encode() + b"\n\n")
    assert told.status == 200
    assert b"word" in told.body
    assert (threading.get_ident() in threads) == (not is_long)
