"""Mailgun's messages: a form, with files where there are attachments."""

from __future__ import annotations

from paddock.world.kit import Form
from paddock_services.mail.fields import FieldError, read_addresses
from paddock_services.mail.outbox import Attachment, MailMessage

_MAX_RECIPIENTS = 1000


def read_message(form: Form, raw: bytes) -> MailMessage:
    """Return the message of a form. Raises FieldError."""
    sender = read_addresses(form.first("from"), "from", 1)
    if not sender:
        raise FieldError("from", "'from' parameter is missing")
    to, cc, bcc = (_read_people(form, name) for name in ("to", "cc", "bcc"))
    if not to:
        raise FieldError("to", "'to' parameter is missing")
    text, html = form.first("text"), form.first("html")
    if not text and not html and not form.first("template"):
        raise FieldError("text", "Need at least one of 'text', 'html', 'amp-html' or 'template' "
                         "parameters specified")  # fmt: skip
    headers = [
        (name.removeprefix("h:"), values[0])
        for name, values in form.fields.items()
        if name.startswith("h:")
    ]
    files = [
        Attachment(upload.filename or "attachment", upload.content_type, upload.data)
        for upload in form.files
    ]
    tags = form.fields.get("o:tag")
    extra = {"tags": tags} if tags else {}
    subject = form.first("subject")
    return MailMessage(sender[0], to, cc, bcc, subject, text, html, headers, files, raw, extra)


def _read_people(form: Form, name: str) -> list[str]:
    addresses: list[str] = []
    for value in form.fields.get(name, ()):
        addresses += read_addresses(value, name, _MAX_RECIPIENTS)
    if len(addresses) > _MAX_RECIPIENTS:
        raise FieldError(name, f"'{name}' parameter has too many recipients")
    return addresses
