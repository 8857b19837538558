"""Mailgun's messages: a form, with files where there are attachments."""

from __future__ import annotations

from paddock.world.services.untrusted import Form
from paddock_services.mail.fields import BadField, addresses_in
from paddock_services.mail.outbox import Attachment, Letter

_MAX_RECIPIENTS = 1000


def letter_in(form: Form, raw: bytes) -> Letter:
    """The letter of a form. Raises BadField."""
    sender = addresses_in(form.first("from"), "from", 1)
    if not sender:
        raise BadField("from", "'from' parameter is missing")
    to, cc, bcc = (_people(form, name) for name in ("to", "cc", "bcc"))
    if not to:
        raise BadField("to", "'to' parameter is missing")
    text, html = form.first("text"), form.first("html")
    if not text and not html and not form.first("template"):
        raise BadField("text", "Need at least one of 'text', 'html', 'amp-html' or 'template' "
                       "parameters specified")  # fmt: skip
    headers = [(name[2:], values[0]) for name, values in form.fields.items()
               if name.startswith("h:")]  # fmt: skip
    files = [Attachment(one.filename or "attachment", one.content_type, one.data)
             for one in form.files]  # fmt: skip
    more = {"tags": form.fields["o:tag"]} if "o:tag" in form.fields else {}
    return Letter(sender[0], to, cc, bcc, form.first("subject"), text, html, headers, files,
                  raw, more)  # fmt: skip


def _people(form: Form, name: str) -> list[str]:
    found = [one for value in form.fields.get(name, ())
             for one in addresses_in(value, name, _MAX_RECIPIENTS)]  # fmt: skip
    if len(found) > _MAX_RECIPIENTS:
        raise BadField(name, f"'{name}' parameter has too many recipients")
    return found
