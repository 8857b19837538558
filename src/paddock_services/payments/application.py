"""The ASGI application: reads a request, lets it in, finds who answers it, and writes the answer.

A request is carried out without awaiting anything, in one transaction.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

import msgspec

from paddock.world.service import Receive, Scope, Send
from paddock_services.payments import form
from paddock_services.payments.books import Books
from paddock_services.payments.errors import Declined, Refusal, unauthorized, unknown_url
from paddock_services.payments.expansion import expand
from paddock_services.payments.idempotency import KeyedRequest, Replay
from paddock_services.payments.params import Params
from paddock_services.payments.routes import Asked, Route, Router

MAX_BODY = 1 << 20
_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(\.[a-z_]{1,40})?(;.{0,200})?")
# A placeholder stands for a key where the door has not put the key in.
_KEYS = ("sk_", "rk_", "paddock_")
_FORM = "application/x-www-form-urlencoded"
# Documents come from the store or from handlers: none has itself in it.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


class Answer(msgspec.Struct, frozen=True):
    """What goes back."""

    status: int
    body: bytes
    request_id: str
    more: list[tuple[bytes, bytes]] = []


class Application:
    """One account's API."""

    def __init__(self, books: Books, router: Router) -> None:
        self._books = books
        self._router = router
        self._reads = 0  # requests that wrote nothing: their ids are in no document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name: value for name, value in scope["headers"]}
        body = await _body(receive) if scope["method"] not in ("GET", "HEAD") else b""
        answer = self._answer(scope, headers, body)
        version = headers.get(b"stripe-version") or self._books.version.encode()
        await send({
            "type": "http.response.start",
            "status": answer.status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(answer.body)),
                (b"request-id", answer.request_id.encode()),
                (b"stripe-version", version),
                (b"cache-control", b"no-cache, no-store"),
                *answer.more,
            ],
        })  # fmt: skip
        await send({"type": "http.response.body", "body": answer.body})

    def _answer(self, scope: Scope, headers: dict[bytes, bytes], body: bytes | None) -> Answer:
        try:
            if body is None:
                message = f"The request is larger than {MAX_BODY} bytes."
                raise Refusal(message, status=413)
            _check_key(headers)
            _check_version(headers)
            method, path = scope["method"], scope["path"]
            found = self._router.find(method, path)
            if found is None:
                raise unknown_url(method, path)
            route, ids = found
            params = Params(_params(scope, headers, body))
            asked = Asked(params, ids, path)
            if method == "GET":
                return self._read(route, asked)
            return self._write(route, asked, headers)
        except Refusal as refusal:
            return self._refused(refusal)

    def _read(self, route: Route, asked: Asked) -> Answer:
        return Answer(200, self._carried_out(route, asked), self._read_id())

    def _write(self, route: Route, asked: Asked, headers: dict[bytes, bytes]) -> Answer:
        keyed = _keyed(route, asked, headers)
        if keyed is None:
            return self._done(route, asked, None)
        keyed.check()
        earlier = keyed.earlier(self._books)
        echo = (b"idempotency-key", keyed.key.encode("latin-1"))
        if earlier is None:
            answer = self._done(route, asked, keyed)
            return Answer(answer.status, answer.body, answer.request_id, [echo, *answer.more])
        original = (b"original-request", earlier.request_id.encode())
        more = [echo, (b"idempotent-replayed", b"true"), original]
        return Answer(earlier.status, earlier.body, self._read_id(), more)

    def _done(self, route: Route, asked: Asked, keyed: KeyedRequest | None) -> Answer:
        """Carries out a write, all or nothing. A decline is an outcome, and stays."""
        books = self._books
        try:
            with books.store.transaction():
                books.begin()
                request_id, status = books.request_id or "", 200
                try:
                    body = self._carried_out(route, asked)
                except Declined as declined:
                    status = declined.status
                    body = _encode(declined.body(request_id, books.at)).encode()
                if keyed is not None:
                    keyed.remember(books, Replay(status, body, request_id))
        except Refusal as refusal:
            answer = self._refused(refusal)
            if keyed is not None and refusal.is_kept:
                keyed.remember(books, Replay(answer.status, answer.body, answer.request_id))
            return answer
        return Answer(status, body, request_id)

    def _carried_out(self, route: Route, asked: Asked) -> bytes:
        asked.params.refuse_unknown(route.known)
        document = route.handler(self._books, asked)
        if isinstance(document, str):
            return document.encode()
        if "expand" in asked.params:
            paths = asked.params.given["expand"]
            listed = [paths] if isinstance(paths, str) else asked.params.texts("expand")
            document = expand(self._books, document, [path for path in listed if path])
        return _encode(document).encode()

    def _refused(self, refusal: Refusal) -> Answer:
        request_id = self._read_id()
        body = refusal.body(request_id, self._books.now())
        return Answer(refusal.status, _encode(body).encode(), request_id)

    def _read_id(self) -> str:
        self._reads += 1
        return "req_" + self._books.derived(f"read/{self._reads}", 14)


async def _body(receive: Receive) -> bytes | None:
    """The whole body, or None for one that is too large."""
    parts, size = [], 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
        if message["type"] != "http.request" or not message.get("more_body", False):
            return b"".join(parts)


def _check_key(headers: dict[bytes, bytes]) -> None:
    key = _key(headers.get(b"authorization", b""))
    if not key:
        raise unauthorized(
            "You did not provide an API key. Give it in the Authorization header: "
            "'Authorization: Bearer YOUR_SECRET_KEY'."
        )
    if key.startswith("pk_"):
        message = "This API call cannot be made with a publishable API key. Use a secret one."
        raise unauthorized(message, code="secret_key_required")
    if not key.startswith(_KEYS):
        shown = key[:3] + "*" * 8 + key[-4:] if len(key) > 12 else "*" * len(key)
        raise unauthorized(f"Invalid API Key provided: {shown}")


def _key(header: bytes) -> str:
    scheme, _, rest = header.decode("latin-1").strip().partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest, validate=True).decode("latin-1").partition(":")[0]
    except (binascii.Error, ValueError):
        return ""


def _check_version(headers: dict[bytes, bytes]) -> None:
    version = headers.get(b"stripe-version", b"").decode("latin-1")
    if version and not _VERSION.fullmatch(version):
        raise Refusal(f"Invalid Stripe API version: {version[:100]}")


def _params(scope: Scope, headers: dict[bytes, bytes], body: bytes) -> dict[str, Any]:
    query = scope["query_string"]
    params = form.decode(query.decode("utf-8", "replace")) if query else {}
    if not body:
        return params
    type = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if type and type != _FORM:
        message = f"Invalid request: check that your POST content type is {_FORM}."
        raise Refusal(message)
    return {**params, **form.decode(body.decode("utf-8", "replace"))}


def _keyed(route: Route, asked: Asked, headers: dict[bytes, bytes]) -> KeyedRequest | None:
    key = headers.get(b"idempotency-key", b"").decode("latin-1")
    if not key or route.method != "POST":
        return None
    return KeyedRequest(key, asked.path, asked.params.given)
