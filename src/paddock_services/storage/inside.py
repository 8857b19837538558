"""Runs in the pen: S3 requests answered by moto, with each change written to the store."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, unquote

from paddock.world.context import Context
from paddock.world.service import ASGIApp, Receive, Scope, Send
from paddock_services.storage.backend import Answer, Backend, Call
from paddock_services.storage.memory import Memory

MAX_BODY = 64 << 20
_READS = ("GET", "HEAD", "OPTIONS")
_AWS = re.compile(
    r"(?:(?P<bucket>.+)\.)?s3[.-](?:dualstack\.)?(?:[a-z0-9-]+\.)?amazonaws\.com(?:\.cn)?"
)
_TOO_LARGE = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>EntityTooLarge</Code><Message>Your '
    b"proposed upload exceeds the maximum allowed size</Message></Error>"
)


def build(context: Context) -> ASGIApp:
    """The application that the pen serves."""
    storage = _Storage(context)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = await _body(receive)
        if body is None:
            answer = Answer(400, [("content-type", "application/xml")], _TOO_LARGE)
        else:
            answer = storage.answer(_call(scope, body, context.host))
        headers = [(name.lower().encode(), text.encode()) for name, text in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    return app


class _Undone(Exception):
    """The request changed nothing, so that no time passes either."""


class _Storage:
    """moto, and the store that it is rebuilt from whenever somebody else changed that."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._backend = Backend(f"{context.seed}/{context.name}")
        self._memory = Memory(context, self._backend)
        self._memory.restore()
        self._position = context.store.position()

    def answer(self, call: Call) -> Answer:
        store = self._context.store
        if store.position() != self._position:
            self._memory.restore()
            self._position = store.position()
        if call.method in _READS:
            self._backend.set_time(self._context.now())
            return self._backend.answer(call)
        answer = self._write(call)
        self._position = store.position()
        return answer

    def _write(self, call: Call) -> Answer:
        answer = None
        try:
            with self._context.store.transaction():
                at = self._context.tick()
                self._backend.set_time(at)
                answer = self._backend.answer(call)
                if answer.status >= 300:
                    raise _Undone
                self._memory.keep(call, at)
        except _Undone:
            pass
        except BaseException:
            self._memory.restore()  # what could not be written did not happen
            raise
        assert answer is not None
        return answer


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size <= MAX_BODY:
            parts.append(part)
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return b"".join(parts) if size <= MAX_BODY else None


def _call(scope: Scope, body: bytes, own_host: str) -> Call:
    """The request in path style, whichever way the bucket was named."""
    headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in scope["headers"]]
    path = scope.get("raw_path", b"/").decode("latin-1")
    host = next((value for name, value in headers if name == "host"), "").split(":")[0].lower()
    bucket = _bucket_of(host, own_host.lower().removeprefix("*."))
    if bucket:
        path = f"/{bucket}{path}"
    name, _, key = path.lstrip("/").partition("/")
    query = scope["query_string"].decode("latin-1")
    return Call(
        method=scope["method"],
        path=path,
        query=query,
        headers=[(name, value) for name, value in headers if name not in ("host", "expect")],
        body=body,
        bucket=unquote(name),
        key=unquote(key),
        words=dict(_words(parse_qsl(query, keep_blank_values=True))),
    )


def _bucket_of(host: str, own: str) -> str:
    aws = _AWS.fullmatch(host)
    if aws is not None:
        return aws["bucket"] or ""
    return host.removesuffix(f".{own}") if host.endswith(f".{own}") else ""


def _words(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, Any]]:
    """What is asked for, without signatures and such."""
    return ((name, value) for name, value in pairs if not name.lower().startswith("x-"))
