"""A draft as an ASGI application: all of it but real reads, which only the door can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.world.asgi import HttpAnswer, WorldRequest
from paddock.world.service import ASGIApp, Receive, Scope, Send
from paddock.world.services.draft.answers import refusal

if TYPE_CHECKING:
    from paddock.world.services.draft.service import Draft

_MAX_BODY = 4 << 20


def application(draft: Draft) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"a draft speaks no {scope['type']}")
        body = await _body(receive)
        said = refusal(413, None, "too long") if body is None else _answer(draft, scope, body)
        await send({"type": "http.response.start", "status": said.status, "headers": said.headers})
        await send({"type": "http.response.body", "body": said.body})

    return app


def _answer(draft: Draft, scope: Scope, body: bytes) -> HttpAnswer:
    host, port = scope.get("server") or (draft.context.host, draft.context.port)
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
    if draft.is_write(request):
        return draft.written(request)
    if not draft.needs_upstream(request):
        return draft.answered(request)
    return refusal(502, None, "a draft reads through the network door only")


async def _body(receive: Receive) -> bytes | None:
    data = bytearray()
    while True:
        message = await receive()
        data += message.get("body", b"")
        if len(data) > _MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(data)
