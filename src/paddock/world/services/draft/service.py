"""The draft service, as the network door uses it, and as an ASGI application without a door."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl

from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.world.asgi import Headers, HttpAnswer, WorldRequest
from paddock.world.context import Context
from paddock.world.overlay import bodies, rules
from paddock.world.overlay.paths import ancestors, canonical, split_path
from paddock.world.service import ASGIApp, Receive, Scope, Send, Service
from paddock.world.services.draft.answers import DraftAnswer, WriteRefused, refusal
from paddock.world.services.draft.memory import DraftMemory
from paddock.world.services.draft.reader import DraftReader
from paddock.world.services.draft.writer import CapturedWrite, DraftWriter, ExpectedAnswer

_CONDITIONS = frozenset({b"if-none-match", b"if-modified-since", b"if-range", b"range",
                         b"if-match", b"if-unmodified-since"})  # fmt: skip
_MAX_BODY = 4 << 20


class WriteGuesser(Protocol):
    """A source of plausible answers to writes.

    The service `openapi` has one. The core does not import it, because it is a plugin, so it is
    loaded by name.
    """

    def guess(self, method: str, path: str, body: Any, timestamp: float) -> ExpectedAnswer | None:
        """Return the answer to a write, or None for a request that is not described."""
        ...


class DraftService(Service):
    """Reads come from the real host, writes are captured."""

    name = "draft"
    options = {  # noqa: RUF012
        "upstream": "live: reads go to the real host",
        "spec": "an OpenAPI document that writes are answered by",
        "writes": "METHOD /path of requests that write although they look like reads",
        "reads": "METHOD /path of requests that only read although they look like writes",
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = DraftMemory(context.store)
        self._guesser: WriteGuesser | None = None
        self._reader = DraftReader(self.memory)
        self._writer = DraftWriter(context, self.memory)
        self._writes = rules.parse_patterns(context.options.get("writes", []), "writes")
        self._reads = rules.parse_patterns(context.options.get("reads", []), "reads")

    def check(self) -> None:
        if self.context.options.get("upstream", "live") != "live":
            raise InvalidInput("upstream: a draft reads from the real host: live")
        self._load_guesser()

    # The network door calls these.

    def is_write(self, request: WorldRequest) -> bool:
        """Return whether a request must not be sent to the real host."""
        return rules.is_write(
            request.method,
            request.path,
            request.query,
            request.headers,
            self._writes,
            self._reads,
            _parse_body(request, None),
        )

    def needs_upstream(self, request: WorldRequest) -> bool:
        """Return whether a read must be sent. The real host knows nothing of shadows."""
        path = canonical(request.path)
        for each in (path, *ancestors(path)):
            shadow = self.memory.shadow(each)
            if shadow is not None and shadow.state in ("created", "deleted"):
                return False
        try:
            pairs = parse_qsl(request.query, max_num_fields=1000)
        except ValueError:
            pairs = []
        values = [value for _, text in pairs for value in text.split(",")]
        return not any(self.memory.is_issued(value) for value in (*split_path(path), *values))

    def upstream(self, request: WorldRequest) -> WorldRequest:
        """Return the read as it is to be sent: without conditions if shadows affect it, because the
        agent was shown other ETags than the real host's."""
        if not self._reader.is_affected(canonical(request.path)):
            return request
        headers = [(name, v) for name, v in request.headers if name.lower() not in _CONDITIONS]
        return replace(request, headers=headers)

    def read(
        self, request: WorldRequest, status: int, headers: Headers, body: bytes
    ) -> tuple[int, Headers, bytes]:
        """Return the real answer with the captured writes laid over it."""
        real = DraftAnswer(status, headers, body)
        try:
            return self._reader.overlay(request, real)
        except RecursionError:  # nested deeper than any record with a shadow
            return real

    def answered(self, request: WorldRequest) -> HttpAnswer:
        """Answer a read that does not need the real host."""
        return HttpAnswer(*self._reader.answer(request))

    def written(self, request: WorldRequest, body: Any = None) -> HttpAnswer:
        """Capture a write and answer it. `body` is the parsed body of a request without bytes."""
        return HttpAnswer(*self._write(request, _parse_body(request, body)))

    def requests(self) -> list[dict[str, Any]]:
        """Return the captured writes in order, as requests that can be sent later."""
        return [self._as_request(write) for write in self.memory.writes()]

    def app(self) -> ASGIApp:
        """Return an application for a world without a network door; it cannot do real reads."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                raise ValueError(f"a draft speaks no {scope['type']}")
            body = await _receive_body(receive)
            if body is None:
                answer = HttpAnswer(*refusal(413, None, "too long"))
            else:
                answer = self._answer_without_door(scope, body)
            start = {"type": "http.response.start", "status": answer.status}
            await send({**start, "headers": answer.headers})
            await send({"type": "http.response.body", "body": answer.body})

        return app

    def show(self) -> dict[str, Any]:
        return {"writes": self.requests()[-20:], "count": self.context.store.count("write")}

    def _answer_without_door(self, scope: Scope, body: bytes) -> HttpAnswer:
        host, port = scope.get("server") or (self.context.host, self.context.port)
        request = WorldRequest(
            method=scope["method"],
            path=scope.get("raw_path", scope["path"].encode()).decode("latin-1"),
            query=scope["query_string"].decode("latin-1"),
            headers=list(scope["headers"]),
            body=body,
            scheme=scope.get("scheme", "https"),
            host=host,
            port=port,
        )
        if self.is_write(request):
            return self.written(request)
        if not self.needs_upstream(request):
            return self.answered(request)
        return HttpAnswer(*refusal(502, None, "a draft reads through the network door only"))

    def _write(self, request: WorldRequest, body: Any) -> DraftAnswer:
        if any(name.lower() == b"upgrade" for name, _ in request.headers):
            return refusal(501, None, "a draft speaks plain HTTP only")
        try:
            with self.context.store.transaction():
                return self._repeat(request, body) or self._capture(request, body)
        except WriteRefused as refused:
            return refused.answer
        except (InvalidInput, RecursionError):
            return refusal(400, None, "too long, or nested too deep")

    def _repeat(self, request: WorldRequest, body: Any) -> DraftAnswer | None:
        """Return the first answer for a repeated idempotency key, or 409 for another request."""
        key = bodies.header_value(request.headers, "idempotency-key")
        earlier = self.context.store.get("answer", _digest(key)) if key else None
        if earlier is None:
            return None
        if earlier["asked"] != _request_digest(request, body):
            return refusal(409, None, "the idempotency key was used for another request")
        headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in earlier["headers"]]
        return DraftAnswer(earlier["status"], headers, earlier["body"].encode())

    def _remember(self, request: WorldRequest, body: Any, answer: DraftAnswer) -> None:
        key = bodies.header_value(request.headers, "idempotency-key")
        if not key:
            return
        headers = [[n.decode("latin-1"), v.decode("latin-1")] for n, v in answer.headers]
        document = {
            "id": _digest(key),
            "asked": _request_digest(request, body),
            "status": answer.status,
            "headers": headers,
            "body": answer.body.decode(),
        }
        self.context.store.put("answer", _digest(key), document)

    def _capture(self, request: WorldRequest, body: Any) -> DraftAnswer:
        write = self._parse_write(request, body)
        target = self._writer.target(write)
        refused = self._writer.refusal(write, target)
        if refused is not None:
            return refused
        seconds = self.context.tick()
        order = self.memory.capture(self._describe(request, body))
        answer = self._writer.apply(write, target, order, seconds)
        mark = bodies.header_value(answer.headers, "x-paddock-shadow")
        self.memory.settle(order, {"status": answer.status, "shadow": mark})
        self._remember(request, body, answer)
        return answer

    def _parse_write(self, request: WorldRequest, body: Any) -> CapturedWrite:
        headers = request.headers
        return CapturedWrite(
            method=rules.effective_method(request.method, request.query, headers),
            path=canonical(request.path),
            raw_path=request.path,
            body=body,
            is_form=bodies.is_form(headers),
            is_strict=bodies.media_type(headers) == "application/merge-patch+json",
            if_match=bodies.header_value(headers, "if-match"),
            if_none_match=bodies.header_value(headers, "if-none-match"),
            expected=self._expected_answer(request, body),
        )

    def _describe(self, request: WorldRequest, body: Any) -> dict[str, Any]:
        """Return what is stored of a captured write: no credentials."""
        document: dict[str, Any] = {
            "method": request.method,
            "scheme": request.scheme,
            "host": request.host,
            "port": request.port,
            "path": request.path,
            "query": bodies.masked_query(request.query),
            "headers": bodies.without_secrets(request.headers),
            "body": body,
        }
        is_json = body is None or bodies.is_json(bodies.media_type(request.headers))
        if isinstance(request.body, bytes) and request.body and not is_json:
            document["raw"] = self.context.store.put_blob(request.body)
        return document

    def _as_request(self, write: dict[str, Any]) -> dict[str, Any]:
        default_port = {"http": 80, "https": 443}.get(write["scheme"])
        port = "" if write["port"] == default_port else f":{write['port']}"
        query = f"?{write['query']}" if write["query"] else ""
        raw = self.context.store.blob(write["raw"]) if "raw" in write else None
        return {
            "order": write["order"],
            "step": write["step"],
            "method": write["method"],
            "url": f"{write['scheme']}://{write['host']}{port}{write['path']}{query}",
            "headers": write["headers"],
            "body": write["body"] if raw is None else _text_or_base64(raw),
            "answer": write.get("answer"),
        }

    def _expected_answer(self, request: WorldRequest, body: Any) -> ExpectedAnswer | None:
        """Return the answer by the OpenAPI document, or None without one."""
        guesser = self._load_guesser()
        if guesser is None:
            return None
        return guesser.guess(request.method, request.path, body, self.context.now())

    def _load_guesser(self) -> WriteGuesser | None:
        spec = self.context.options.get("spec")
        if self._guesser is None and spec is not None:
            self._guesser = _guesser_of(self.context.path(str(spec)))
        return self._guesser


def _guesser_of(document: Path) -> WriteGuesser:
    from paddock.world.registry import load_service

    openapi = cast("Any", load_service("openapi"))
    return cast("WriteGuesser", openapi.write_guesser(document))


def _parse_body(request: WorldRequest, body: Any) -> Any:
    if isinstance(request.body, bytes) and request.body:
        return bodies.parse_body(request.headers, request.body)
    return body


async def _receive_body(receive: Receive) -> bytes | None:
    """Return the whole body, or None if it is too long."""
    data = bytearray()
    while True:
        message = await receive()
        data += message.get("body", b"")
        if len(data) > _MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(data)


def _text_or_base64(raw: bytes) -> Any:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _request_digest(request: WorldRequest, body: Any) -> str:
    return _digest(json.dumps([request.method, request.path, request.query, body], sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
