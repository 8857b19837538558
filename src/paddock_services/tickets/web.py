"""The help desk over HTTP."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from paddock.world.service import ASGIApp, Receive, Scope, Send
from paddock.world.services.untrusted import Malformed, TooLarge, parse_json, read_body
from paddock_services.tickets.asked import Answer, Asked, Handler
from paddock_services.tickets.desk import Desk, DeskError, Document
from paddock_services.tickets.handlers import ROUTES

MAX_BODY = 1 << 20


def make_app(desk: Desk) -> ASGIApp:
    """The ASGI application of a help desk."""
    routes = [
        Route(f"/api/v2/{path}", _endpoint(desk, handler), methods=[method])
        for method, path, handler in ROUTES
    ]
    app = Starlette(routes=routes, exception_handlers={404: _nothing_there})

    async def without_suffix(scope: Scope, receive: Receive, send: Send) -> None:
        # Every address exists with and without it.
        if scope["type"] == "http" and scope["path"].endswith(".json"):
            scope = {**scope, "path": scope["path"].removesuffix(".json")}
        await app(scope, receive, send)

    return without_suffix


def _endpoint(desk: Desk, handler: Handler) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        try:
            body = await _body(request)
            status, answer = _handle(desk, handler, request, body)
        except DeskError as error:
            return JSONResponse(error.body, error.status)
        except TooLarge:
            return PlainTextResponse("Request Entity Too Large", 413)
        return Response(status_code=status) if answer is None else JSONResponse(answer, status)

    return endpoint


def _handle(desk: Desk, handler: Handler, request: Request, body: Document) -> Answer:
    email = _caller(request)
    with desk.store.transaction():
        return handler(
            Asked(desk, desk.agent(email), dict(request.query_params), request.path_params, body)
        )


async def _body(request: Request) -> Document:
    data = await read_body(request, MAX_BODY)
    if not data.strip():
        return {}
    try:
        value = parse_json(data)
    except Malformed:
        raise DeskError(400, "InvalidJson", "The body is not JSON") from None
    return value if isinstance(value, dict) else {}


def _caller(request: Request) -> str:
    """The address in a basic login; a bearer token has none. Raises DeskError without either."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and value.strip():
        return ""
    if kind.lower() == "basic":
        try:
            name, colon, _ = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            name = colon = ""
        if name and colon:
            return name.removesuffix("/token")
    raise DeskError(401, "Couldn't authenticate you")


async def _nothing_there(request: Request, error: Exception) -> Response:
    text = "There is no resource at this address"
    return JSONResponse({"error": "InvalidEndpoint", "description": text}, 404)
