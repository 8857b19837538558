"""Postmark's messages, which come one by one or in a batch."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paddock.world.kit import ApiError
from paddock_services.mail.fields import FieldError, read_addresses, read_base64, read_fields
from paddock_services.mail.outbox import MAX_HEADERS, Attachment, MailMessage

MAX_BATCH = 500
_MAX_RECIPIENTS = 50  # of each of To, Cc and Bcc
_EXTRA = ("Tag", "ReplyTo", "Metadata", "MessageStream")


class PostmarkError(ApiError):
    """An error with one of Postmark's codes."""

    def __init__(self, code: int, message: str, status: int = 422) -> None:
        super().__init__(status, {"ErrorCode": code, "Message": message})


class _Header(msgspec.Struct):
    Name: str = ""
    Value: str = ""


class _File(msgspec.Struct):
    Name: Annotated[str, Meta(min_length=1)]
    Content: str = ""
    ContentType: str = "application/octet-stream"


class _Fields(msgspec.Struct):
    From: str | None = None
    To: str | None = None
    Cc: str | None = None
    Bcc: str | None = None
    Subject: str | None = None
    TextBody: str | None = None
    HtmlBody: str | None = None
    Headers: Annotated[list[_Header], Meta(max_length=MAX_HEADERS)] | None = None
    Attachments: Annotated[list[_File], Meta(max_length=100)] | None = None


def read_message(body: Any, raw: bytes) -> MailMessage:
    """Return a message of a request. Raises PostmarkError."""
    if not isinstance(body, dict):
        raise PostmarkError(402, "Invalid JSON")
    try:
        return _read_message(body, raw)
    except FieldError as error:
        raise PostmarkError(300, error.message) from error


def _read_message(body: dict[str, Any], raw: bytes) -> MailMessage:
    fields = read_fields(body, _Fields)
    sender = read_addresses(fields.From, "From", 1)
    if not sender:
        raise FieldError("From", "Invalid 'From' address: ''.")
    to, cc, bcc = (
        read_addresses(getattr(fields, name), name, _MAX_RECIPIENTS) for name in ("To", "Cc", "Bcc")
    )
    if not (to or cc or bcc):
        raise FieldError("To", "Zero recipients specified")
    text, html = fields.TextBody or "", fields.HtmlBody or ""
    if not text and not html:
        raise FieldError("TextBody", "Provide either email TextBody or HtmlBody or both.")
    headers = [(header.Name, header.Value) for header in fields.Headers or ()]
    files = [
        Attachment(file.Name, file.ContentType, read_base64(file.Content, "Attachments"))
        for file in fields.Attachments or ()
    ]
    extra = {name: body[name] for name in _EXTRA if body.get(name)}
    subject = fields.Subject or ""
    return MailMessage(sender[0], to, cc, bcc, subject, text, html, headers, files, raw, extra)
