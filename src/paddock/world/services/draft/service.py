"""Reads come from the real host, writes stay here. The network door asks a draft what a request is
and lays the real answer into its hands; a draft itself reaches nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qsl

from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.world.asgi import Headers, HttpAnswer, WorldRequest
from paddock.world.context import Context
from paddock.world.overlay import bodies, rules
from paddock.world.overlay.paths import ancestors, canonical, parts_of
from paddock.world.service import ASGIApp, Service
from paddock.world.services.draft.answers import Refused, refusal
from paddock.world.services.draft.document import Guess, WriteGuesser, load_document
from paddock.world.services.draft.memory import Memory
from paddock.world.services.draft.reading import Reader
from paddock.world.services.draft.writing import Write, Writer

_ASK_ANEW = frozenset({b"if-none-match", b"if-modified-since", b"if-range", b"range",
                       b"if-match", b"if-unmodified-since"})  # fmt: skip


class Draft(Service):
    """Read real, write fake."""

    name = "draft"
    options = {  # noqa: RUF012
        "upstream": "live: reads go to the real host",
        "spec": "an OpenAPI document that writes are answered by",
        "writes": "METHOD /path of requests that write although they look like reads",
        "reads": "METHOD /path of requests that only read although they look like writes",
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.memory = Memory(context.store)
        self._document: WriteGuesser | None = None
        self._reader = Reader(self.memory)
        self._writer = Writer(context, self.memory)
        self._writes = rules.routes(context.options.get("writes", []), "writes")
        self._reads = rules.routes(context.options.get("reads", []), "reads")

    def check(self) -> None:
        if self.context.options.get("upstream", "live") != "live":
            raise InvalidInput("upstream: a draft reads from the real host: live")
        self._load()

    # What the door asks

    def is_write(self, request: WorldRequest) -> bool:
        """Whether it must not be sent. A method override counts as the method that it names."""
        return rules.is_write(
            request.method,
            request.path,
            request.query,
            request.headers,
            self._writes,
            self._reads,
            _parsed(request, None),
        )

    def needs_upstream(self, request: WorldRequest) -> bool:
        """Whether a read has to be sent. The real host knows nothing of shadows."""
        path = canonical(request.path)
        for one in (path, *ancestors(path)):
            shadow = self.memory.shadow(one)
            if shadow is not None and shadow.state in ("created", "deleted"):
                return False
        values = [value for _, text in _pairs(request.query) for value in text.split(",")]
        return not any(self.memory.is_issued(value) for value in (*parts_of(path), *values))

    def upstream(self, request: WorldRequest) -> WorldRequest:
        """The read as it is to be sent: without conditions where the real host's tags are not
        those that the agent was shown."""
        if not self._reader.touches(canonical(request.path)):
            return request
        kept = [one for one in request.headers if one[0].lower() not in _ASK_ANEW]
        return replace(request, headers=kept)

    def read(
        self, request: WorldRequest, status: int, headers: Headers, body: bytes
    ) -> tuple[int, Headers, bytes]:
        """The real answer with the captured writes laid over it."""
        try:
            return self._reader.read(request, status, headers, body)
        except RecursionError:  # nested deeper than anything that a shadow is in
            return status, headers, body

    def answered(self, request: WorldRequest) -> HttpAnswer:
        """The answer to a read that does not need the real host."""
        return self._reader.alone(request)

    def written(self, request: WorldRequest, body: Any = None) -> HttpAnswer:
        """Keeps a write and answers it. `body` is the parsed one, if the request has no bytes."""
        if any(name.lower() == b"upgrade" for name, _ in request.headers):
            return refusal(501, None, "a draft speaks plain HTTP only")
        body = _parsed(request, body)
        try:
            with self.context.store.transaction():
                again = self._again(request, body)
                return again if again is not None else self._written(request, body)
        except Refused as refused:
            return refused.answer
        except (InvalidInput, RecursionError):
            return refusal(400, None, "too long, or nested too deep")

    def requests(self) -> list[dict[str, Any]]:
        """What would have been written, in order, as requests that can be sent later."""
        return [self._request(one) for one in self.memory.writes()]

    def app(self) -> ASGIApp:
        """For a world without a door: writes and shadows; a real read needs the door."""
        from paddock.world.services.draft.application import application

        return application(self)

    def show(self) -> dict[str, Any]:
        return {"writes": self.requests()[-20:], "count": self.context.store.count("write")}

    # Within

    def _written(self, request: WorldRequest, body: Any) -> HttpAnswer:
        said = self._guess(request, body)
        write = _read_write(request, body, said)
        aim = self._writer.aim(write)
        refused = self._writer.refusal(write, aim)
        if refused is not None:
            return refused
        seconds = self.context.tick()
        order = self.memory.capture(self._captured(request, body))
        given = self._writer.do(write, aim, order, seconds)
        self.memory.settle(order, {"status": given.status, "shadow": _mark(given)})
        self._remember(request, body, given)
        return given

    def _captured(self, request: WorldRequest, body: Any) -> dict[str, Any]:
        kept: dict[str, Any] = {
            "method": request.method,
            "scheme": request.scheme,
            "host": request.host,
            "port": request.port,
            "path": request.path,
            "query": bodies.masked_query(request.query),
            "headers": bodies.without_secrets(request.headers),
            "body": body,
        }
        is_plain = bodies.is_json(bodies.media_of(request.headers)) or body is None
        if isinstance(request.body, bytes) and request.body and not is_plain:
            kept["raw"] = self.context.store.put_blob(request.body)
        return kept

    def _request(self, write: dict[str, Any]) -> dict[str, Any]:
        usual = {"http": 80, "https": 443}.get(write["scheme"])
        port = "" if write["port"] == usual else f":{write['port']}"
        query = f"?{write['query']}" if write["query"] else ""
        raw = self.context.store.blob(write["raw"]) if "raw" in write else None
        return {
            "order": write["order"],
            "step": write["step"],
            "method": write["method"],
            "url": f"{write['scheme']}://{write['host']}{port}{write['path']}{query}",
            "headers": write["headers"],
            "body": write["body"] if raw is None else _spelled(raw),
            "answer": write.get("answer"),
        }

    def _again(self, request: WorldRequest, body: Any) -> HttpAnswer | None:
        """The same answer for a key that was used before; 409 when the request is another."""
        key = bodies.header(request.headers, "idempotency-key")
        found = self.context.store.get("answer", _digest(key)) if key else None
        if found is None:
            return None
        if found["asked"] != _asked(request, body):
            return refusal(409, None, "the idempotency key was used for another request")
        headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in found["headers"]]
        return HttpAnswer(found["status"], headers, found["body"].encode())

    def _remember(self, request: WorldRequest, body: Any, said: HttpAnswer) -> None:
        key = bodies.header(request.headers, "idempotency-key")
        if key and isinstance(said.body, bytes):
            headers = [[n.decode("latin-1"), v.decode("latin-1")] for n, v in said.headers]
            document = {"id": _digest(key), "asked": _asked(request, body), "status": said.status}
            document |= {"headers": headers, "body": said.body.decode()}
            self.context.store.put("answer", _digest(key), document)

    def _guess(self, request: WorldRequest, body: Any) -> Guess | None:
        document = self._load()
        if document is None:
            return None
        return document.guess(request.method, request.path, body, self.context.now())

    def _load(self) -> WriteGuesser | None:
        spec = self.context.options.get("spec")
        if self._document is None and spec is not None:
            self._document = load_document(self.context.path(str(spec)))
        return self._document


def _parsed(request: WorldRequest, body: Any) -> Any:
    if isinstance(request.body, bytes) and request.body:
        return bodies.parsed(request.headers, request.body)
    return body


def _read_write(request: WorldRequest, body: Any, said: Guess | None) -> Write:
    headers = request.headers
    return Write(
        method=rules.method_of(request.method, request.query, headers),
        path=canonical(request.path),
        raw_path=request.path,
        body=body,
        is_form=bodies.is_form(headers),
        is_strict=bodies.media_of(headers) == "application/merge-patch+json",
        if_match=bodies.header(headers, "if-match"),
        if_none_match=bodies.header(headers, "if-none-match"),
        guess=said,
    )


def _mark(said: HttpAnswer) -> str:
    return bodies.header(said.headers, "x-paddock-shadow")


def _spelled(raw: bytes) -> Any:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def _asked(request: WorldRequest, body: Any) -> str:
    return _digest(json.dumps([request.method, request.path, request.query, body], sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, max_num_fields=1000)
    except ValueError:
        return []
