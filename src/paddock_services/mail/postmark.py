"""Postmark's send API: one message, or a batch."""

from __future__ import annotations

from typing import Any

from paddock_services.mail.fields import BadField, addresses_in, bytes_of, list_at, text_at
from paddock_services.mail.outbox import Attachment, Letter

MAX_BATCH = 500
_MAX_RECIPIENTS = 50  # of each of To, Cc and Bcc


def letter_in(body: Any, raw: bytes) -> Letter:
    """The letter of one message. Raises BadField."""
    if not isinstance(body, dict):
        raise BadField("", "Invalid JSON", 402)
    sender = addresses_in(text_at(body, "From"), "From", 1)
    if not sender:
        raise BadField("From", "Invalid 'From' address: ''.")
    to, cc, bcc = (addresses_in(text_at(body, name), name, _MAX_RECIPIENTS)
                   for name in ("To", "Cc", "Bcc"))  # fmt: skip
    if not (to or cc or bcc):
        raise BadField("To", "Zero recipients specified")
    text, html = text_at(body, "TextBody"), text_at(body, "HtmlBody")
    if not text and not html:
        raise BadField("TextBody", "Provide either email TextBody or HtmlBody or both.")
    more = {name: body[name] for name in ("Tag", "ReplyTo", "Metadata", "MessageStream")
            if body.get(name)}  # fmt: skip
    return Letter(sender[0], to, cc, bcc, text_at(body, "Subject"), text, html, _headers(body),
                  _attachments(body), raw, more)  # fmt: skip


def _headers(body: dict[str, Any]) -> list[tuple[str, str]]:
    found = list_at(body, "Headers", 200)
    return [(text_at(one, "Name", "Headers"), text_at(one, "Value", "Headers")) for one in found]


def _attachments(body: dict[str, Any]) -> list[Attachment]:
    found = []
    for file in list_at(body, "Attachments", 100):
        name = text_at(file, "Name", "Attachments")
        if not name:
            raise BadField("Attachments", "An attachment has no Name.")
        data = bytes_of(text_at(file, "Content", "Attachments"), "Attachments")
        kind = text_at(file, "ContentType", "Attachments") or "application/octet-stream"
        found.append(Attachment(name, kind, data))
    return found
