"""The workspace over HTTP: `/api/METHOD` with a form or JSON, and the addresses of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from paddock.world.service import ASGIApp, Receive, Scope, Send
from paddock.world.services.untrusted import (
    Malformed,
    TooLarge,
    parse_json,
    read_body,
    read_form,
)
from paddock_services.chat import conversations, files, history, marks, messages, people
from paddock_services.chat.call import Call, ChatError
from paddock_services.chat.workspace import Workspace

MAX_CALL = 1 << 20
Method = Callable[[Workspace, Call], dict[str, Any]]
METHODS: Mapping[str, Method] = {
    **people.METHODS,
    **conversations.METHODS,
    **history.METHODS,
    **messages.METHODS,
    **marks.METHODS,
    **files.METHODS,
}
_WITHOUT_TOKEN = {"api.test"}


def make_app(workspace: Workspace) -> ASGIApp:
    """The ASGI application of a workspace."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await _answer(workspace, request)
        except TooLarge:
            answer = PlainTextResponse("Request Entity Too Large", 413)
        await answer(scope, receive, send)

    return app


async def _answer(workspace: Workspace, request: Request) -> Response:
    first, _, rest = request.scope["path"].removeprefix("/").partition("/")
    if first == "api":
        return JSONResponse(await _call(workspace, request, rest))
    if first == "upload" and request.method in ("POST", "PUT"):
        return await _upload(workspace, request, rest.removeprefix("v1/"))
    if first == "files-pri" and request.method == "GET":
        return _download(workspace, request, rest)
    return PlainTextResponse("Not Found", 404)


async def _call(workspace: Workspace, request: Request, name: str) -> dict[str, Any]:
    try:
        arguments = await _arguments(request)
        token = _token(request) or arguments.get("token")
        arguments.pop("token", None)
        return {
            "ok": True,
            **_run(workspace, name, token, Call(arguments, _base(workspace, request))),
        }
    except ChatError as error:
        return {"ok": False, "error": error.code, **error.more}


def _run(workspace: Workspace, name: str, token: Any, call: Call) -> dict[str, Any]:
    method = METHODS.get(name)
    if method is None:
        raise ChatError("unknown_method", req_method=name[:100])
    if not token and name not in _WITHOUT_TOKEN:
        raise ChatError("not_authed")
    with workspace.store.transaction():
        return method(workspace, call)


async def _arguments(request: Request) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(request.query_params)
    data = await read_body(request, MAX_CALL)
    kind = request.headers.get("content-type", "application/x-www-form-urlencoded")
    if not data.strip():
        return arguments
    if kind.lower().startswith("application/json"):
        return arguments | _json_arguments(data)
    try:
        form = await read_form(kind, data)
    except Malformed:
        raise ChatError("invalid_form_data") from None
    return arguments | {name: values[-1] for name, values in form.fields.items()}


def _json_arguments(data: bytes) -> dict[str, Any]:
    try:
        value = parse_json(data)
    except Malformed:
        raise ChatError("invalid_json") from None
    if not isinstance(value, dict):
        raise ChatError("json_not_object")
    return value


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _base(workspace: Workspace, request: Request) -> str:
    host = request.headers.get("host") or workspace.context.host
    return f"{request.scope['scheme']}://{host}"


async def _upload(workspace: Workspace, request: Request, token: str) -> Response:
    data = await read_body(request, files.MAX_FILE + MAX_CALL)
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith("multipart/form-data"):
        try:
            sent = (await read_form(kind, data)).files
        except Malformed:
            sent = []
        data = sent[0].data if sent else b""
    with workspace.store.transaction():
        is_taken = files.receive(workspace, token, data)
    if not is_taken:
        return PlainTextResponse("Invalid upload", 400)
    return PlainTextResponse(f"OK - {len(data)}")


def _download(workspace: Workspace, request: Request, rest: str) -> Response:
    if not _token(request):
        return PlainTextResponse("not_authed", 403)
    id = rest.partition("/")[0].rpartition("-")[2]
    data = files.content(workspace, id)
    if data is None:
        return PlainTextResponse("Not Found", 404)
    return Response(data, media_type="application/octet-stream")
