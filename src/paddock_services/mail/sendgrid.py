"""SendGrid's v3 mail send."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from paddock.world.services.untrusted import is_address
from paddock_services.mail.fields import BadField, bytes_of, list_at, text_at
from paddock_services.mail.outbox import Attachment, Letter

_MAX_PERSONALIZATIONS = 1000
_MAX_RECIPIENTS = 1000  # of the whole message


def letters_in(body: Any, raw: bytes) -> list[Letter]:
    """One letter for each personalization. Raises BadField."""
    if not isinstance(body, dict):
        raise BadField("", "Bad Request")
    envelopes = list_at(body, "personalizations", _MAX_PERSONALIZATIONS)
    if not envelopes:
        raise BadField("personalizations", "The personalizations field is required and must have "
                                           "at least one personalization.")  # fmt: skip
    sender = _one(body.get("from"), "from")
    contents, files = _contents(body), _attachments(body)
    letters = [
        _letter(body, envelope, f"personalizations.{number}", sender, contents)
        for number, envelope in enumerate(envelopes)
    ]
    if sum(len(letter.recipients) for letter in letters) > _MAX_RECIPIENTS:
        raise BadField("personalizations", "The total number of recipients must be no more than "
                                           f"{_MAX_RECIPIENTS}.")  # fmt: skip
    return [_finished(letter, files, raw) for letter in letters]


def is_sandbox(body: dict[str, Any]) -> bool:
    """Whether the sender only wants to know if it would be taken."""
    settings = body.get("mail_settings")
    mode = settings.get("sandbox_mode") if isinstance(settings, dict) else None
    return isinstance(mode, dict) and mode.get("enable") is True


def _letter(
    body: dict[str, Any], envelope: Any, where: str, sender: str, contents: dict[str, str]
) -> Letter:
    if not isinstance(envelope, dict):
        raise BadField(where, "The personalization must be an object.")
    people = {name: _many(envelope, name, f"{where}.{name}") for name in ("to", "cc", "bcc")}
    if not people["to"]:
        raise BadField(f"{where}.to", "The to array is required for all personalization objects, "
                       "and must have at least one email object with a valid email "
                       "address.")  # fmt: skip
    every = [address.lower() for group in people.values() for address in group]
    if len(set(every)) < len(every):
        raise BadField(where, "Each email address in the personalization block should be unique "
                       "between to, cc, and bcc.")  # fmt: skip
    subject = text_at(envelope, "subject", f"{where}.subject") or text_at(body, "subject")
    if not subject and not text_at(body, "template_id"):
        raise BadField("subject", "The subject is required. You can get around this requirement if "
                       "you use a template with a subject defined or if every personalization has "
                       "a subject defined.")  # fmt: skip
    headers = [*_headers(body, "headers"), *_headers(envelope, f"{where}.headers")]
    return Letter(sender, people["to"], people["cc"], people["bcc"], subject,
                  contents.get("text/plain", ""), contents.get("text/html", ""), headers,
                  more=_more(body, envelope))  # fmt: skip


def _finished(letter: Letter, files: list[Attachment], raw: bytes) -> Letter:
    return replace(letter, attachments=files, raw=raw)


def _contents(body: dict[str, Any]) -> dict[str, str]:
    found = {}
    for number, content in enumerate(list_at(body, "content", 100)):
        where = f"content.{number}"
        kind, value = text_at(content, "type", where), text_at(content, "value", where)
        if not kind or not value:
            raise BadField(where, "The content type and value must be strings at least one "
                           "character in length.")  # fmt: skip
        found[kind.lower()] = value
    if not found and not text_at(body, "template_id"):
        raise BadField("content", "Unless a valid template_id is provided, the content parameter "
                       "is required.")  # fmt: skip
    return found


def _attachments(body: dict[str, Any]) -> list[Attachment]:
    found = []
    for number, file in enumerate(list_at(body, "attachments", 100)):
        where = f"attachments.{number}"
        name = text_at(file, "filename", f"{where}.filename")
        if not name:
            raise BadField(f"{where}.filename", "The attachment filename is required.")
        data = bytes_of(text_at(file, "content", f"{where}.content"), f"{where}.content")
        kind = text_at(file, "type", f"{where}.type") or "application/octet-stream"
        found.append(Attachment(name, kind, data))
    return found


def _many(body: dict[str, Any], name: str, where: str) -> list[str]:
    people = list_at(body, name, _MAX_RECIPIENTS, where)
    return [_one(person, f"{where}.{number}") for number, person in enumerate(people)]


def _one(person: Any, where: str) -> str:
    address = text_at(person, "email", f"{where}.email")
    if not is_address(address):
        raise BadField(f"{where}.email", "Does not contain a valid address.")
    return address


def _headers(body: dict[str, Any], where: str) -> list[tuple[str, str]]:
    found = body.get("headers") or {}
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise BadField(where, "The headers must be an object of strings.")
    return list(found.items())


def _more(body: dict[str, Any], envelope: dict[str, Any]) -> dict[str, Any]:
    """What a template would be filled with, and what letters are sorted by."""
    names = ("template_id", "categories", "reply_to", "send_at")
    found = {name: body[name] for name in names if body.get(name)}
    data = envelope.get("dynamic_template_data")
    return {**found, "template_data": data} if data else found
