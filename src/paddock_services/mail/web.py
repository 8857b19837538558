"""Mail over HTTP: the providers' addresses, and the outbox for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from paddock.world.service import ASGIApp
from paddock.world.services.untrusted import (
    Malformed,
    TooLarge,
    parse_json,
    read_body,
    read_form,
)
from paddock_services.mail import mailgun, postmark, sendgrid
from paddock_services.mail.fields import BadField
from paddock_services.mail.outbox import MAX_MESSAGE, OUTBOX, Outbox

MAX_BODY = 2 * MAX_MESSAGE  # base64 makes attachments longer
_SHOWN = 100
_MAX_FILES = 1000
Handler = Callable[[Request], Awaitable[Response]]


def make_app(outbox: Outbox) -> ASGIApp:
    """The ASGI application of an outbox."""
    web = _Web(outbox)
    app = Starlette(
        routes=[
            Route("/v3/mail/send", web.sendgrid, methods=["POST"]),
            Route("/v3/suppression/bounces", web.sendgrid_bounces, methods=["GET"]),
            Route("/email", web.postmark, methods=["POST"]),
            Route("/email/batch", web.postmark_batch, methods=["POST"]),
            Route("/v3/{domain}/messages", web.mailgun, methods=["POST"]),
            Route("/v3/{domain}/bounces", web.mailgun_bounces, methods=["GET"]),
            Route("/outbox", web.outbox_list, methods=["GET"]),
            Route("/outbox/{id}", web.outbox_show, methods=["GET"]),
            Route("/outbox/{id}/raw", web.outbox_raw, methods=["GET"]),
            Route("/outbox/{id}/attachments/{number}", web.outbox_file, methods=["GET"]),
        ],
        exception_handlers={TooLarge: _too_large},
    )
    return app


class _Web:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._store = outbox.context.store

    # SendGrid

    async def sendgrid(self, request: Request) -> Response:
        if not _bearer(request):
            return _sendgrid_error("The provided authorization grant is invalid, expired, or "
                                   "revoked", None, 401)  # fmt: skip
        data = await read_body(request, MAX_BODY)
        try:
            body = parse_json(data)
            letters = sendgrid.letters_in(body, data)
        except Malformed:
            return _sendgrid_error("Bad Request", None, 400)
        except BadField as error:
            return _sendgrid_error(error.message, error.field or None, 400)
        if sendgrid.is_sandbox(body):
            return Response(status_code=200)
        with self._store.transaction():
            kept = [self._outbox.keep(letter, "sendgrid") for letter in letters]
        return Response(status_code=202, headers={"x-message-id": kept[0]["id"][4:]})

    async def sendgrid_bounces(self, request: Request) -> Response:
        if not _bearer(request):
            return _sendgrid_error("authorization required", None, 401)
        found = [{**one, "reason": "550 5.1.1 no such mailbox", "status": "5.1.1"}
                 for one in self._outbox.bounced()]  # fmt: skip
        return JSONResponse(found)

    # Postmark

    async def postmark(self, request: Request) -> Response:
        body, refusal = await self._postmark_body(request)
        if refusal is not None:
            return refusal
        answer = self._post(body)
        return JSONResponse(answer, 422 if answer["ErrorCode"] else 200)

    async def postmark_batch(self, request: Request) -> Response:
        body, refusal = await self._postmark_body(request)
        if refusal is not None:
            return refusal
        if not isinstance(body, list) or len(body) > postmark.MAX_BATCH:
            return JSONResponse(_postmark_error(410, "Too many batch messages"), 422)
        return JSONResponse([self._post(one) for one in body])

    async def _postmark_body(self, request: Request) -> tuple[Any, Response | None]:
        if not request.headers.get("x-postmark-server-token"):
            text = "No Account or Server API tokens were supplied in the HTTP headers."
            return None, JSONResponse(_postmark_error(10, text), 401)
        try:
            return parse_json(await read_body(request, MAX_BODY)), None
        except Malformed:
            return None, JSONResponse(_postmark_error(402, "Invalid JSON"), 422)

    def _post(self, body: Any) -> dict[str, Any]:
        try:
            letter = postmark.letter_in(body, json.dumps(body, ensure_ascii=False).encode())
        except BadField as error:
            return _postmark_error(error.code, error.message)
        inactive = [one for one in letter.recipients if self._outbox.bounces(one)]
        if inactive:
            text = "You tried to send to recipient(s) that have been marked as inactive. "
            return _postmark_error(406, f"{text}Found inactive addresses: {', '.join(inactive)}.")
        with self._store.transaction():
            kept = self._outbox.keep(letter, "postmark")
        return {"To": ", ".join(letter.to), "SubmittedAt": kept["at"],
                "MessageID": _as_uuid(kept["id"]), "ErrorCode": 0, "Message": "OK"}  # fmt: skip

    # Mailgun

    async def mailgun(self, request: Request) -> Response:
        if not request.headers.get("authorization", "").lower().startswith("basic "):
            return PlainTextResponse("Forbidden", 401)
        data = await read_body(request, MAX_BODY)
        kind = request.headers.get("content-type", "")
        try:
            letter = mailgun.letter_in(await read_form(kind, data), data)
        except Malformed:
            return JSONResponse({"message": "Bad Request"}, 400)
        except BadField as error:
            return JSONResponse({"message": error.message}, 400)
        with self._store.transaction():
            kept = self._outbox.keep(letter, "mailgun")
        return JSONResponse({"id": kept["message_id"], "message": "Queued. Thank you."})

    async def mailgun_bounces(self, request: Request) -> Response:
        items = [{"address": one["email"], "code": "550", "error": "no such mailbox",
                  "created_at": one["created"]} for one in self._outbox.bounced()]  # fmt: skip
        return JSONResponse({"items": items})

    # For people

    async def outbox_list(self, request: Request) -> Response:
        found = self._store.find(OUTBOX, newest_first=True)
        to = request.query_params.get("to", "").lower()
        letters = [
            letter
            for letter in found
            if not to or to in map(str.lower, (*letter["to"], *letter["cc"], *letter["bcc"]))
        ]
        return JSONResponse({"count": len(letters), "messages": letters[:_SHOWN]})

    async def outbox_show(self, request: Request) -> Response:
        letter = self._store.get(OUTBOX, request.path_params["id"])
        return _not_found() if letter is None else JSONResponse(letter)

    async def outbox_raw(self, request: Request) -> Response:
        letter = self._store.get(OUTBOX, request.path_params["id"])
        data = None if letter is None else self._store.blob(letter["raw"])
        return _not_found() if data is None else _as_bytes(data)

    async def outbox_file(self, request: Request) -> Response:
        letter = self._store.get(OUTBOX, request.path_params["id"]) or {"attachments": []}
        files = dict(zip(map(str, range(_MAX_FILES)), letter["attachments"], strict=False))
        file = files.get(request.path_params["number"])
        return _not_found() if file is None else _as_bytes(self._store.blob(file["blob"]) or b"")


def _bearer(request: Request) -> bool:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and bool(token.strip())


def _sendgrid_error(message: str, field: str | None, status: int) -> Response:
    return JSONResponse({"errors": [{"message": message, "field": field, "help": None}]}, status)


def _postmark_error(code: int, message: str) -> dict[str, Any]:
    return {"ErrorCode": code, "Message": message}


def _as_uuid(text: str) -> str:
    digits = hashlib.sha256(text.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def _not_found() -> Response:
    return PlainTextResponse("Not Found", 404)


def _as_bytes(data: bytes) -> Response:
    # Never as what it claims to be: a letter is not a page to run in somebody's browser.
    return Response(data, media_type="application/octet-stream")


async def _too_large(request: Request, error: Exception) -> Response:
    return PlainTextResponse("Request Entity Too Large", 413)
