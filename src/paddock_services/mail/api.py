"""Mail over HTTP: the addresses of the providers, and the outbox for people."""

from __future__ import annotations

import json
import uuid
from typing import Any

from paddock.world.kit import (
    Api,
    ApiError,
    Call,
    MalformedRequest,
    Reply,
    RequestError,
    Route,
    UnknownPath,
)
from paddock_services.mail import mailgun, postmark, sendgrid
from paddock_services.mail.fields import FieldError
from paddock_services.mail.outbox import MAX_MESSAGE, MESSAGES, Outbox
from paddock_services.mail.postmark import PostmarkError
from paddock_services.mail.sendgrid import SendgridError

_MAX_SHOWN = 100


class MailApi(Api):
    """SendGrid, Postmark, Mailgun, and the outbox."""

    max_body = 2 * MAX_MESSAGE  # base64 makes attachments longer

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._store = outbox.context.store
        super().__init__(
            self._store,
            [
                Route("POST", "/v3/mail/send", self._send_sendgrid),
                Route("GET", "/v3/suppression/bounces", self._list_bounces),
                Route("POST", "/email", self._send_postmark),
                Route("POST", "/email/batch", self._send_postmark_batch),
                Route("POST", "/v3/{domain}/messages", self._send_mailgun),
                Route("GET", "/outbox", self._list_messages),
                Route("GET", "/outbox/{id}", self._show_message),
                Route("GET", "/outbox/{id}/raw", self._show_raw),
                Route("GET", "/outbox/{id}/attachments/{number}", self._show_attachment),
            ],
        )

    def refuse(self, call: Call, error: RequestError) -> Reply:
        match error:
            case UnknownPath():
                return Reply.text("Not Found", 404)
            case MalformedRequest():
                return Reply({"message": "Bad Request"}, 400)
        return Reply.text("Request Entity Too Large", error.status)

    def _send_sendgrid(self, call: Call) -> Reply:
        _check_sendgrid_key(call)
        try:
            body = call.json()
        except MalformedRequest:
            raise SendgridError(400, "Bad Request") from None
        messages = sendgrid.read_messages(body, call.body)
        if sendgrid.is_sandbox(body):
            return Reply()
        stored = [self._outbox.put(message, "sendgrid") for message in messages]
        id = stored[0]["id"].removeprefix("msg_")
        return Reply(None, 202, {"x-message-id": id})

    def _list_bounces(self, call: Call) -> Reply:
        _check_sendgrid_key(call)
        reason = {"reason": "550 5.1.1 no such mailbox", "status": "5.1.1"}
        return Reply([{**bounce, **reason} for bounce in self._outbox.bounces()])

    def _send_postmark(self, call: Call) -> Reply:
        return Reply(self._post(_postmark_body(call)))

    def _send_postmark_batch(self, call: Call) -> Reply:
        batch = _postmark_body(call)
        if not isinstance(batch, list) or len(batch) > postmark.MAX_BATCH:
            raise PostmarkError(410, "Too many batch messages")
        answers = []
        for body in batch:
            try:
                answers.append(self._post(body))
            except PostmarkError as error:  # the others are sent all the same
                answers.append(error.reply.body)
        return Reply(answers)

    def _post(self, body: Any) -> dict[str, Any]:
        message = postmark.read_message(body, json.dumps(body, ensure_ascii=False).encode())
        inactive = [address for address in message.recipients if self._outbox.refuses(address)]
        if inactive:
            text = "You tried to send to recipient(s) that have been marked as inactive. "
            raise PostmarkError(406, f"{text}Found inactive addresses: {', '.join(inactive)}.")
        stored = self._outbox.put(message, "postmark")
        return {
            "To": ", ".join(message.to),
            "SubmittedAt": stored["at"],
            "MessageID": str(uuid.uuid5(uuid.NAMESPACE_URL, stored["id"])),
            "ErrorCode": 0,
            "Message": "OK",
        }

    def _send_mailgun(self, call: Call) -> Reply:
        if call.basic_credentials is None:
            return Reply.text("Forbidden", 401)
        try:
            message = mailgun.read_message(call.form, call.body)
        except FieldError as error:
            raise ApiError(400, {"message": error.message}) from error
        stored = self._outbox.put(message, "mailgun")
        return Reply({"id": stored["message_id"], "message": "Queued. Thank you."})

    def _list_messages(self, call: Call) -> Reply:
        messages = self._store.find(MESSAGES, newest_first=True)
        to = call.query.get("to", "").lower()
        if to:
            messages = [
                message
                for message in messages
                if to in map(str.lower, (*message["to"], *message["cc"], *message["bcc"]))
            ]
        return Reply({"count": len(messages), "messages": messages[:_MAX_SHOWN]})

    def _show_message(self, call: Call) -> Reply:
        return Reply(self._message(call))

    def _show_raw(self, call: Call) -> Reply:
        return self._bytes(self._message(call)["raw"])

    def _show_attachment(self, call: Call) -> Reply:
        files = enumerate(self._message(call)["attachments"])
        blobs = {str(number): file["blob"] for number, file in files}
        return self._bytes(blobs.get(call.params["number"], ""))

    def _message(self, call: Call) -> dict[str, Any]:
        message = self._store.get(MESSAGES, call.params["id"])
        if message is None:
            raise UnknownPath("there is no such message")
        return message

    def _bytes(self, digest: str) -> Reply:
        data = self._store.blob(digest)
        if data is None:
            raise UnknownPath("there is no such file")
        # Never as what it claims to be: a message is not a page to run in somebody's browser.
        return Reply(data, headers={"content-type": "application/octet-stream"})


def _check_sendgrid_key(call: Call) -> None:
    if not call.bearer_token:
        text = "The provided authorization grant is invalid, expired, or revoked"
        raise SendgridError(401, text)


def _postmark_body(call: Call) -> Any:
    if not call.headers.get("x-postmark-server-token"):
        text = "No Account or Server API tokens were supplied in the HTTP headers."
        raise PostmarkError(10, text, 401)
    try:
        return call.json()
    except MalformedRequest:
        raise PostmarkError(402, "Invalid JSON") from None
