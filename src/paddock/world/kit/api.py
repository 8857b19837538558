"""The application around a service's handlers. See the package for the way of a request.

Paths are matched as they were sent, and parameters decoded afterwards, so that an encoded slash
stays inside its parameter. Routes are looked up by method and number of path segments first, then
by Starlette's pattern: a large API has some hundred routes, and trying all of them would take
longer than most answers.

Starlette is imported inside functions. It takes as long to load as a whole stand-in, and so a run
pays for it with the first request, not at its start.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from re import Pattern
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

import msgspec

from paddock.world.kit.input import (
    Form,
    MalformedRequest,
    RequestError,
    TooLarge,
    UnknownPath,
    parse_form,
    parse_json,
    parse_query,
    read_body,
    read_multipart,
)
from paddock.world.service import Receive, Scope, Send
from paddock.world.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MAX_BODY = 1 << 20
_READS = ("GET", "HEAD")  # a transaction would take as long as all the rest
_WITHOUT_BODY = (204, 304)


class Reply(msgspec.Struct, frozen=True):
    """An answer. A body of bytes is sent as it is, `msgspec.Raw` is JSON already, None is no body,
    and any other value becomes JSON."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}

    @classmethod
    def text(cls, text: str, status: int = 200) -> Reply:
        """Return an answer in plain text."""
        return cls(text.encode(), status, {"content-type": "text/plain; charset=utf-8"})


class ApiError(Exception):
    """An answer that is an error. Raised by a handler, it undoes what the handler wrote."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status}: {body}")
        self.reply = Reply(body, status, headers or {})


class Call:
    """One request, with its body."""

    def __init__(self, scope: Scope) -> None:
        from starlette.datastructures import Headers

        self.method: str = scope["method"].upper()
        self.path = _raw_path(scope)  # as it was sent, with escapes
        self.query_string: str = scope["query_string"].decode("latin-1")
        self.headers = Headers(raw=scope["headers"])
        self.body = b""
        self.params: Mapping[str, str] = {}  # of the path, decoded
        self.user: str | None = None  # the result of Api.authenticate
        self._scope = scope
        self._form: Form | MalformedRequest | None = None

    @property
    def origin(self) -> str:
        """Return the beginning of the URL that the agent called, as `https://api.example`."""
        host = self.headers.get("host") or str(self._scope["server"][0])
        return f"{self._scope['scheme']}://{host}"

    @cached_property
    def query(self) -> dict[str, str]:
        """Return the parameters of the query, the last value of each. Raises MalformedRequest."""
        return dict(parse_query(self.query_string))

    def url(self, **query: object) -> str:
        """Return the URL of this call with some parameters of the query changed."""
        changed = {**self.query, **query}
        return f"{self.origin}{self.path}?{urlencode(changed)}"

    @property
    def content_type(self) -> str:
        """Return the media type of the body in lower case, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def json(self) -> Any:
        """Return the body as a JSON value. Raises MalformedRequest."""
        return parse_json(self.body)

    def json_object(self) -> dict[str, Any]:
        """Return the body as a JSON object; no body is an empty one. Raises MalformedRequest."""
        value = self.json() if self.body.strip() else {}
        if not isinstance(value, dict):
            raise MalformedRequest("the body is not a JSON object")
        return value

    @property
    def form(self) -> Form:
        """Return the body as a form, of either kind. Raises MalformedRequest."""
        if isinstance(self._form, MalformedRequest):
            raise self._form
        if self._form is None:
            self._form = parse_form(self.body)
        return self._form

    @property
    def bearer_token(self) -> str:
        """Return the token of `Authorization: Bearer`, or an empty text."""
        scheme, _, token = self.headers.get("authorization", "").strip().partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def basic_credentials(self) -> tuple[str, str] | None:
        """Return name and password of `Authorization: Basic`, or None."""
        scheme, _, encoded = self.headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            text = base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return None
        name, _, password = text.partition(":")
        return name, password

    async def read(self, request: Request, max_body: int) -> None:
        """Take the body from the connection. Raises TooLarge."""
        self.body = await read_body(request, max_body)
        if self.content_type == "multipart/form-data":  # its parser is asynchronous
            try:
                self._form = await read_multipart(self.headers["content-type"], self.body)
            except MalformedRequest as error:
                self._form = error  # for a handler that asks for the form


Handler = Callable[[Call], Reply]


class Route(msgspec.Struct, frozen=True):
    """A method and a path with `{name}` for one segment or `{name:path}` for all the rest."""

    method: str
    template: str
    handler: Handler


class Api:
    """The ASGI application of a service. Subclass it to change its hooks."""

    max_body = MAX_BODY

    def __init__(self, store: Store, routes: Iterable[Route]) -> None:
        self._store = store
        self._routes = _RouteTable(routes)

    def authenticate(self, call: Call) -> str | None:
        """Return who calls, for `call.user`. Raises ApiError for a caller who is not let in."""
        return None

    def refuse(self, call: Call, error: RequestError) -> Reply:
        """Return the answer to a request that no handler can answer."""
        return Reply({"error": str(error)}, error.status)

    def finish(self, call: Call, reply: Reply) -> Reply:
        """Return the answer as it is sent; the place to add headers."""
        return reply

    def route_path(self, path: str) -> str:
        """Return the path that routes are matched with."""
        return path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        from starlette.requests import Request

        if scope["type"] != "http":
            return
        call = Call(scope)
        try:
            await call.read(Request(scope, receive), self.max_body)
            reply = self._answer(call)
        except TooLarge as error:
            reply = self.refuse(call, error)
        await _response(call, self.finish(call, reply))(scope, receive, send)

    def _answer(self, call: Call) -> Reply:
        try:
            call.user = self.authenticate(call)
            handler, call.params = self._routes.find(call.method, self.route_path(call.path))
            if call.method in _READS:
                return handler(call)
            with self._store.transaction():
                return handler(call)
        except ApiError as error:
            return error.reply
        except RequestError as error:
            return self.refuse(call, error)


class _RouteTable:
    def __init__(self, routes: Iterable[Route]) -> None:
        from starlette.routing import compile_path

        self._by_size: dict[tuple[str, int], list[tuple[Pattern[str], Handler]]] = {}
        self._open: list[tuple[str, Pattern[str], Handler]] = []  # with a {name:path}
        for route in routes:
            pattern, _, _ = compile_path(route.template)
            if ":path}" in route.template:
                self._open.append((route.method, pattern, route.handler))
            else:
                key = (route.method, route.template.count("/"))
                self._by_size.setdefault(key, []).append((pattern, route.handler))

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]]:
        """Return a handler and the parameters of the path. Raises UnknownPath."""
        method = "GET" if method == "HEAD" else method
        path = path.rstrip("/") or "/"
        for pattern, handler in self._by_size.get((method, path.count("/")), ()):
            if match := pattern.match(path):
                return handler, _decoded(match.groupdict())
        for route_method, pattern, handler in self._open:
            if route_method == method and (match := pattern.match(path)):
                return handler, _decoded(match.groupdict())
        raise UnknownPath(f"there is no {method} {path[:500]}")


def _decoded(params: Mapping[str, str]) -> dict[str, str]:
    return {name: unquote(value) for name, value in params.items()}


def _raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1").partition("?")[0]


def _response(call: Call, reply: Reply) -> Response:
    from starlette.responses import Response

    if reply.body is None:
        body = b""
    elif isinstance(reply.body, bytes):
        body = reply.body
    else:
        body = msgspec.json.encode(reply.body)
    headers = {name: _one_line(value) for name, value in reply.headers.items()}
    if reply.status not in _WITHOUT_BODY:
        headers.setdefault("content-length", str(len(body)))
        if reply.body is not None:
            headers.setdefault("content-type", "application/json")
    if call.method == "HEAD" or reply.status in _WITHOUT_BODY:
        body = b""
    return Response(body, reply.status, headers)


def _one_line(value: str) -> str:
    """Return a header's value that cannot end the header: it may have come from the agent."""
    return value.encode("latin-1", "replace").decode("latin-1").replace("\r", "").replace("\n", "")
