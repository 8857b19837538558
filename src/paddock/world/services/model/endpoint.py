"""The ASGI application: takes requests, finds who answers them, and sends what comes."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.llm.anthropic_messages import server as anthropic_messages
from paddock.llm.bedrock import server as bedrock
from paddock.llm.conversation import InvalidRequest, ModelRequest
from paddock.llm.formats import ModelApi, is_model_path, recognise
from paddock.llm.gemini import server as gemini
from paddock.llm.openai_chat import server as openai_chat
from paddock.llm.openai_responses import server as openai_responses
from paddock.llm.request_content import compact
from paddock.llm.served_answer import ServedAnswer, ServedError, ServedFormat
from paddock.llm.served_errors import error_body, error_headers
from paddock.world.service import Receive, Scope, Send
from paddock.world.services.model import embeddings, listing
from paddock.world.services.model.memory import RESPONSES
from paddock.world.services.model.player import ScriptPlayer
from paddock.world.services.model.script import MODELS
from paddock.world.store import Store

MAX_BODY = 32 << 20  # as much as the real ones take
MAX_DEPTH = 100  # far from where Python gives up on what is nested
_BY_ENDING: Mapping[str, ServedFormat] = {
    "/chat/completions": openai_chat.FORMAT,
    "/responses": openai_responses.FORMAT,
    "/messages": anthropic_messages.FORMAT,
}
# These have the model in the path.
_BY_API: Mapping[ModelApi, ServedFormat] = {
    ModelApi.GEMINI: gemini.FORMAT,
    ModelApi.CONVERSE: bedrock.FORMAT,
}


class _Request(msgspec.Struct, frozen=True):
    method: str
    path: str  # without a slash at the end
    provider: str
    body: bytes
    id: str
    has_version: bool = False  # Anthropic wants to be told which
    is_sse: bool = False  # Gemini streams a JSON array unless it is asked for events


class Endpoint:
    """The ASGI application of the service."""

    def __init__(self, plot: ScriptPlayer, store: Store, start: float) -> None:
        self._plot = plot
        self._store = store
        self._start = start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
        if scope["type"] != "http":
            return
        body = await _read(receive)
        request = _request(scope, body or b"")
        reply = _Reply(request, send)
        if body is None:
            await reply.failure(ServedError(413, f"The body is larger than {MAX_BODY} bytes."))
            return
        try:
            await self._answer(request, reply)
        except InvalidRequest as error:
            await reply.failure(ServedError(error.status, str(error), param=error.param))

    async def _answer(self, request: _Request, reply: _Reply) -> None:
        path = request.path
        if request.method == "POST":
            if request.provider == "anthropic" and not request.has_version:
                raise InvalidRequest("anthropic-version: header is required.")
            for ending, served in _BY_ENDING.items():
                if path.endswith(ending):
                    await self._speak(served, _parsed(request.body), reply)
                    return
            if is_model_path("POST", path):
                await self._speak_by_path(request, reply)
                return
            if path.endswith("/messages/count_tokens"):
                asked = anthropic_messages.read_question(
                    _parsed(request.body), self._plot.memory.recall
                )
                await reply.json({"input_tokens": asked.tokens()})
                return
            if path.endswith("/embeddings"):
                await reply.json(embeddings.embed(_parsed(request.body)))
                return
        await reply.json(self._found(request))

    async def _speak_by_path(self, request: _Request, reply: _Reply) -> None:
        body = _parsed(request.body)
        wire = recognise("POST", request.path, None, body, "")
        served = None if wire is None else _BY_API.get(wire.api)
        if wire is None or served is None:
            raise InvalidRequest("The body is not a request that this model answers.")
        named = {**body, "model": wire.model, "stream": wire.is_stream}
        await self._speak(served, named, reply)

    async def _speak(self, wire: ServedFormat, body: Mapping[str, Any], reply: _Reply) -> None:
        asked = wire.read(body, self._plot.memory.recall)
        answer = self._plot.play(asked, wire)
        if isinstance(answer, ServedError):
            await _wait(answer.delay_s)
            await reply.failure(answer)
            return
        text = self._written(wire, asked, answer)
        await _wait(answer.delay_s)
        if not asked.is_stream:
            await reply.text(text)
        elif wire is gemini.FORMAT and not reply.request.is_sse:
            await reply.json(list(gemini.chunks(answer, asked)))
        else:
            await reply.stream(wire, answer, asked)

    def _written(self, wire: ServedFormat, asked: ModelRequest, answer: ServedAnswer) -> str:
        """Return the whole answer as text. It is stored before anybody waits, because others share
        the store."""
        body = wire.whole(answer, asked)
        text = compact(body)
        if wire.keeps and asked.body.get("store") is not False:
            self._plot.memory.keep_response(body["id"], asked, answer, text)
        return text

    def _found(self, request: _Request) -> Any:
        """Return what a request asks for by name."""
        parent, _, name = request.path.rpartition("/")
        if parent.endswith("/responses") and request.method in ("GET", "DELETE"):
            return self._response(name, is_deleted=request.method == "DELETE")
        names = self._plot.script.models
        if request.method == "GET" and request.path.endswith("/models"):
            return listing.all_models(request.provider, names or MODELS, self._start)
        if request.method == "GET" and parent.endswith("/models"):
            if names and name not in names:
                raise InvalidRequest(f"The model {name[:80]!r} does not exist.", "model", 404)
            return listing.one_model(request.provider, name, self._start)
        raise InvalidRequest(f"There is no {request.method} {request.path[:80]} here.", None, 404)

    def _response(self, id: str, *, is_deleted: bool) -> Any:
        kept = self._store.get(RESPONSES, id)
        if kept is None:
            raise InvalidRequest(f"There is no response with the id {id[:80]!r}.", None, 404)
        if is_deleted:
            self._store.delete(RESPONSES, id)
            return {"id": id, "object": "response", "deleted": True}
        return json.loads(kept["body"])


class _Reply(msgspec.Struct, frozen=True):
    """Sends one answer."""

    request: _Request
    send: Send

    async def json(
        self, value: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        await self.text(compact(value), status, headers)

    async def text(
        self, body: str, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        data = body.encode()
        length = (b"content-length", str(len(data)).encode())
        await self._start(status, [(b"content-type", b"application/json"), length, *headers])
        await self.send({"type": "http.response.body", "body": data})

    async def failure(self, failure: ServedError) -> None:
        body = error_body(self.request.provider, failure, self.request.id)
        await self.json(body, failure.status, tuple(error_headers(self.request.provider, failure)))

    async def stream(self, wire: ServedFormat, answer: ServedAnswer, asked: ModelRequest) -> None:
        kind = (b"content-type", wire.stream_type)
        await self._start(200, [kind, (b"cache-control", b"no-cache")])
        for event in wire.events(answer, asked):
            await self.send({"type": "http.response.body", "body": event, "more_body": True})
        await self.send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        name = b"request-id" if self.request.provider == "anthropic" else b"x-request-id"
        named = [*headers, (name, self.request.id.encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": named})


async def _wait(delay_s: float) -> None:
    if delay_s:
        await asyncio.sleep(delay_s)


async def _read(receive: Receive) -> bytes | None:
    """Read the body; None when it is too large."""
    data = bytearray()
    while True:
        message = await receive()
        data += message.get("body", b"")
        if len(data) > MAX_BODY:
            return None
        if message["type"] != "http.request" or not message.get("more_body", False):
            return bytes(data)


def _request(scope: Scope, body: bytes) -> _Request:
    path = str(scope["path"]).rstrip("/")
    id = "req_" + hashlib.sha256(body).hexdigest()[:24]
    is_sse = b"alt=sse" in scope["query_string"]
    has_version = any(name == b"anthropic-version" for name, _ in scope["headers"])
    provider = _provider(path, has_version)
    return _Request(str(scope["method"]), path, provider, body, id, has_version, is_sse)


def _provider(path: str, has_version: bool) -> str:
    """Return whose errors the client of a path understands."""
    if "/messages" in path or has_version:
        return "anthropic"
    if ":generateContent" in path or ":streamGenerateContent" in path:
        return gemini.FORMAT.provider
    return bedrock.FORMAT.provider if "/model/" in path else "openai"


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body.decode(), parse_constant=_refuse)
        if _is_deeper(value, MAX_DEPTH):
            raise ValueError("it is nested too deeply")
        if b"\\u" in body:  # may spell half a character, which cannot be written down
            compact(value).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The body is not JSON that can be read: {str(error)[:120]}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body is not a JSON object.")
    return value


def _is_deeper(value: Any, most: int) -> bool:
    """Return whether a value is nested more deeply. It goes level by level, so that no nesting can
    exhaust the stack."""
    level: list[Any] = [[value]]
    while level and most >= 0:
        most -= 1
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) in (dict, list)
        ]
    return bool(level)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number")
