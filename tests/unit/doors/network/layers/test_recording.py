"""What came in through the door is in the journal: whole within bounds, and without credentials."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paddock.doors.network.bodies.capture import MAX_ANSWER, MAX_KEPT
from paddock.doors.network.exchange import BufferedBody, Headers, HttpRequest
from paddock.doors.network.model_actions import as_model_action
from paddock.doors.network.origin import Origin
from paddock.doors.network.request import (
    MAX_LONG,
    MAX_MODEL_BODY,
    MAX_READ_BODY,
    RequestProposal,
    propose,
)
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.journal.conversations import conversation_of, request_of
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.secrets.seal import Sealer
from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.model.action import Action, Kind
from paddock.model.events import Settled
from unit.doors.network.doorway import (
    HOST,
    Asked,
    Doorway,
    doorway,
    listening,
    origin,
    staged,
    written,
)
from unit.gate.gates import make_gate

KEYED = ValueHmac(b"k" * 32)
ORIGIN = Origin("https", "api.openai.com", 443)
JSON: Headers = [(b"content-type", b"application/json")]
POLICY = "version: 1\nagent: tester\nstage: broad\nnetwork: {allow: ['api.openai.com:443']}\n"


async def settled(way: Doorway) -> Mapping[str, Any]:
    (step,) = await way.settled("http")
    return RunLog(way.run).whole_step(step).result


def answering(body: bytes, *fields: str) -> Any:
    head = "\r\n".join(("HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *fields, "", ""))
    return lambda asked: head.encode() + body


@pytest.mark.parametrize("size", [10, MAX_KEPT + 1, MAX_ANSWER, MAX_ANSWER + 1])
def test_an_answer_is_kept_whole_however_long_it_is(tmp_path: Path, size: int) -> None:
    async def play() -> None:
        body = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
        async with (
            origin(answering(body)) as server,
            doorway(tmp_path, staged(server)) as way,
        ):
            assert (await way.ask("GET /a")).body == body
            result = await settled(way)
            assert result["bytes"] == size
            assert "is_cut" not in result
            if size <= MAX_ANSWER:
                assert result["body"].encode() == body
                return
            (step,) = way.steps("http")
            record = step.record(Settled)
            assert record is not None
            blobs = [one for one in record.blobs if one.form == "bytes"]
            pieces = [RunLog(way.run).blob(one.sha256, one.size_bytes) for one in blobs]
            assert (len(pieces), b"".join(pieces)) == (len(result["pieces"]), body)

    asyncio.run(play())


def test_a_run_that_is_full_keeps_digests_and_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with (
            origin(answering(b"x" * (2 * MAX_ANSWER))) as server,
            doorway(tmp_path, staged(server)) as way,
        ):
            way.gate.records.journal.budget.limit = 300 << 10
            assert len((await way.ask("GET /a")).body) == 2 * MAX_ANSWER
            result = await settled(way)
            assert (result["is_cut"], result["cut_by"]) == (True, "budget")
            assert result["bytes"] == 2 * MAX_ANSWER

    asyncio.run(play())


@pytest.mark.parametrize("sealed_for", [None, "the-first-run"])
def test_credentials_of_an_answer_are_sealed_and_not_shown(
    tmp_path: Path, sealed_for: str | None
) -> None:
    async def play() -> None:
        fields = ("Set-Cookie: sid=4242; Path=/", "X-Plain: yes", "set-cookie: b=2")
        async with (
            origin(answering(b"ok", *fields)) as server,
            doorway(tmp_path, staged(server)) as way,
        ):
            sealer = way.door.context.sealer = Sealer(b"k" * 32)
            way.door.context.sealed_for = sealed_for
            assert "sid=4242" in (await way.ask("GET /a")).head
            result = await settled(way)
            assert result["headers"]["set-cookie"] == "***, ***"
            told = [(b"set-cookie", b"sid=4242; Path=/"), (b"set-cookie", b"b=2")]
            assert sealer.unseal(result["sealed"], sealed_for or way.gate.run) == told
            for path in way.run.rglob("*"):
                assert not path.is_file() or b"sid=4242" not in path.read_bytes()

    asyncio.run(play())


def test_an_answer_without_credentials_has_no_seal(tmp_path: Path) -> None:
    async def play() -> None:
        async with (
            origin(answering(b"ok")) as server,
            doorway(tmp_path, staged(server)) as way,
        ):
            way.door.context.sealer = Sealer(b"k" * 32)
            await way.ask("GET /a")
            assert "sealed" not in await settled(way)

    asyncio.run(play())


def test_an_answer_that_was_cut_is_kept_with_its_head(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 203 Fine\r\nX-Part: 1\r\nContent-Length: 100\r\n\r\nonly this")
        await writer.drain()
        writer.close()

    async def play() -> None:
        async with listening(serve) as port:
            network = {"allow": [f"{HOST}:80"], "hosts": {HOST: f"127.0.0.1:{port}"}}
            async with doorway(tmp_path, network) as way:
                client = await way.dial()
                await client.send(written("GET /a"))
                await client.ends()
                result = await settled(way)
                assert (result["status"], result["headers"]["x-part"]) == (203, "1")
                assert (result["body"], result["bytes"]) == ("only this", 9)

    asyncio.run(play())


def test_trailers_of_an_answer_are_kept(tmp_path: Path) -> None:
    def answer(asked: Asked) -> bytes:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: grpc-status\r\n\r\n"
        return head + b"2\r\nok\r\n0\r\ngrpc-status: 7\r\n\r\n"

    async def play() -> None:
        async with origin(answer) as server, doorway(tmp_path, staged(server)) as way:
            client = await way.dial()
            await client.send(written("GET /a\nTE: trailers"))
            assert (await settled(way))["trailers"] == {"grpc-status": "7"}

    asyncio.run(play())


def test_a_body_that_is_streamed_is_kept_in_part_with_its_digest(tmp_path: Path) -> None:
    async def play() -> None:
        body = b"not json " * 40_000
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            await way.ask("POST /a\nContent-Type: text/plain", body)
            sent = (await settled(way))["sent"]
            assert (sent["bytes"], sent["is_cut"]) == (len(body), True)
            assert sent["body"].encode() == body[:MAX_KEPT]

    asyncio.run(play())


# ---- requests to models --------------------------------------------------------------------------


def request(path: str, body: Any, headers: Headers | None = None) -> HttpRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = [*JSON, *(headers or [])]
    return HttpRequest("POST", "https", "api.openai.com", path, fields, "1.1", BufferedBody([raw]))


async def asked(gate: Gate, path: str, body: Any, headers: Headers | None = None) -> Action:
    proposal = await propose(request(path, body, headers), ORIGIN, KEYED)
    action = as_model_action(proposal, ORIGIN, gate, KEYED)
    assert action is not None
    assert proposal.model_arguments is action.arguments  # else it would be taken for edited

    async def live(action: Action) -> Done:
        return Done(value=200)

    await gate.cross(action, live)
    return action


CHAT = {
    "model": "gpt-5",
    "temperature": 0.5,
    "response_format": {"type": "json_schema", "schema": {"a": ["x" * 2000]}},
    "tools": [{"type": "function", "function": {"name": "search", "parameters": {"a": 1}}}],
    "messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": "hi"}],
}
RESPONSES = {
    "model": "gpt-5",
    "instructions": "be short",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    "metadata": {"ticket": "7"},
}
MESSAGES = {
    "model": "claude-opus-4",
    "max_tokens": 10,
    "system": [{"type": "text", "text": "be short", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "search", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": [{"type": "tool_result", "content": "7"}]}],
}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/responses", RESPONSES),
        ("/v1/responses", {**RESPONSES, "input": "one text"}),
        ("/v1/messages", MESSAGES),
    ],
)
def test_a_request_to_a_model_can_be_had_back_whole(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    key = SigningKey.open(tmp_path / "keys")
    gate = make_gate(tmp_path, key, POLICY)
    asyncio.run(asked(gate, path, body))
    gate.close()
    log = RunLog(tmp_path / "run-1")
    (step,) = log.steps()
    assert request_of(log, log.whole_step(step).arguments) == body
    assert verify(tmp_path / "run-1", key.public).ok


def test_a_long_conversation_grows_the_journal_by_what_is_new(tmp_path: Path) -> None:
    async def play() -> None:
        key = SigningKey.open(tmp_path / "keys")
        gate = make_gate(tmp_path, key, POLICY)
        messages: list[dict[str, str]] = []
        sizes: dict[int, int] = {}
        for number in range(1, 201):
            role = "user" if number % 2 else "assistant"
            messages.append({"role": role, "content": f"{number} " + "x" * 1000})
            await asked(gate, "/v1/chat/completions", {**CHAT, "messages": messages})
            sizes[number] = sum(p.stat().st_size for p in (tmp_path / "run-1").rglob("*"))
        assert sizes[200] <= 2.2 * sizes[100]
        gate.close()
        log = RunLog(tmp_path / "run-1")
        for step in log.steps():
            arguments = log.whole_step(step).arguments
            assert conversation_of(log, arguments) == messages[: step.number]
        assert verify(tmp_path / "run-1", key.public).ok

    asyncio.run(play())


def test_definitions_of_tools_are_kept_once_and_named_by_every_request(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, SigningKey.open(tmp_path / "keys"), POLICY)
    action = asyncio.run(asked(gate, "/v1/chat/completions", CHAT))
    (tool,) = action.arguments["tools"]
    assert (tool["name"], set(tool)) == ("search", {"name", "digest"})
    assert "tools" in action.arguments["refs"]
    gate.close()


def test_credentials_of_a_request_are_known_by_their_hashes(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, SigningKey.open(tmp_path / "keys"), POLICY)
    headers = [
        (b"Authorization", b"Bearer fake-key"),
        (b"cookie", b"a=1"),
        (b"Cookie", b"b=2"),
        (b"x-plain", b"shown"),
    ]
    action = asyncio.run(asked(gate, "/v1/chat/completions", CHAT, headers))
    assert action.context["keyed"] == {
        "headers.authorization": KEYED.of("Bearer fake-key"),
        "headers.cookie": KEYED.of("a=1; b=2"),
    }
    assert action.arguments["headers"]["authorization"] == "Bearer ***"
    assert action.arguments["headers"]["x-plain"] == "shown"
    gate.close()
    for path in (tmp_path / "run-1").rglob("*"):
        assert not path.is_file() or b"fake-key" not in path.read_bytes()


def test_a_request_without_credentials_has_no_hashes() -> None:
    proposal = asyncio.run(propose(request("/a", {}), ORIGIN, KEYED))
    assert proposal.action.context == {}


def test_a_conversation_with_images_is_read_though_it_is_long(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, SigningKey.open(tmp_path / "keys"), POLICY)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 10**6}}
    body = {**CHAT, "messages": [{"role": "user", "content": [image]}]}
    asyncio.run(asked(gate, "/v1/chat/completions", body))
    gate.close()
    log = RunLog(tmp_path / "run-1")
    (step,) = log.steps()
    assert request_of(log, log.whole_step(step).arguments) == body


def long_proposal(path: str, size: int) -> RequestProposal:
    raw = b'{"messages":["' + b"x" * (size - 17) + b'"]}'
    return asyncio.run(propose(request(path, raw), ORIGIN))


def test_long_bodies_are_read_where_a_model_is_asked_and_nowhere_else() -> None:
    chat = "/v1/chat/completions"
    assert long_proposal(chat, MAX_MODEL_BODY).action.kind is Kind.HTTP
    assert long_proposal(chat, MAX_MODEL_BODY).parsed is not None
    assert long_proposal(chat, MAX_MODEL_BODY + 1).read is None
    assert long_proposal("/v1/files", MAX_READ_BODY + 1).read is None


def test_few_long_bodies_are_in_memory_at_once() -> None:
    chat = "/v1/chat/completions"
    held = [long_proposal(chat, MAX_READ_BODY + 1) for _ in range(MAX_LONG + 1)]
    assert [one.read is not None for one in held] == [True] * MAX_LONG + [False]
    held.clear()
    assert long_proposal(chat, MAX_READ_BODY + 1).read is not None


def test_a_body_of_countless_numbers_is_not_looked_at() -> None:
    raw = b'{"messages":[' + b"1," * (MAX_READ_BODY // 2 + 1) + b"1]}"
    proposal = asyncio.run(propose(request("/v1/chat/completions", raw), ORIGIN))
    assert (proposal.parsed, proposal.read) == (None, raw)
