"""SendGrid's v3 mail send: each personalization of a request is a message of its own."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paddock.world.kit import ApiError, is_email_address
from paddock_services.mail.fields import FieldError, read_base64, read_fields
from paddock_services.mail.outbox import Attachment, MailMessage

_MAX_RECIPIENTS = 1000  # of the whole request
_EXTRA = ("template_id", "categories", "reply_to", "send_at")
_ORDER = ("text/plain", "text/html")  # other types come after them
_WRONG_ORDER = (
    "Following RFC 1341, section 7.2, if either text/html or text/plain are to be sent in your "
    "email: text/plain needs to be first, followed by text/html, followed by any other content."
)


class SendgridError(ApiError):
    """An error with the field that it is about."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(status, {"errors": [{"message": message, "field": field, "help": None}]})


class _Address(msgspec.Struct):
    email: str = ""


class _Personalization(msgspec.Struct):
    to: list[_Address] | None = None
    cc: list[_Address] | None = None
    bcc: list[_Address] | None = None
    subject: str | None = None
    headers: dict[str, str] | None = None
    dynamic_template_data: Any = None


class _Content(msgspec.Struct):
    type: str = ""
    value: str = ""


class _File(msgspec.Struct):
    filename: str = ""
    content: str = ""
    type: str | None = None


class _Fields(msgspec.Struct, rename={"sender": "from"}):
    personalizations: Annotated[list[_Personalization], Meta(max_length=1000)] | None = None
    sender: _Address | None = None
    subject: str | None = None
    content: Annotated[list[_Content], Meta(max_length=100)] | None = None
    attachments: Annotated[list[_File], Meta(max_length=100)] | None = None
    headers: dict[str, str] | None = None
    template_id: str | None = None


def read_messages(body: Any, raw: bytes) -> list[MailMessage]:
    """Return the messages of a request. Raises SendgridError."""
    try:
        fields = read_fields(body, _Fields)
        return _read_messages(fields, body, raw)
    except FieldError as error:
        raise SendgridError(400, error.message, error.field or None) from error


def is_sandbox(body: Any) -> bool:
    """Return whether the sender only wants to know if the request would be accepted."""
    settings = body.get("mail_settings")
    mode = settings.get("sandbox_mode") if isinstance(settings, dict) else None
    return isinstance(mode, dict) and mode.get("enable") is True


def _read_messages(fields: _Fields, body: dict[str, Any], raw: bytes) -> list[MailMessage]:
    if not fields.personalizations:
        raise FieldError("personalizations", "The personalizations field is required and must have "
                         "at least one personalization.")  # fmt: skip
    sender = _read_address(fields.sender or _Address(), "from")
    contents = _read_contents(fields)
    files = _read_files(fields)
    shared = {name: body[name] for name in _EXTRA if body.get(name)}
    messages = []
    for number, envelope in enumerate(fields.personalizations):
        to, cc, bcc = _read_recipients(envelope, f"personalizations.{number}")
        subject = envelope.subject or fields.subject
        if not subject and not fields.template_id:
            raise FieldError("subject", "The subject is required. You can get around this "
                             "requirement if you use a template with a subject defined or if every "
                             "personalization has a subject defined.")  # fmt: skip
        headers = {**(fields.headers or {}), **(envelope.headers or {})}
        extra = dict(shared)
        if envelope.dynamic_template_data:
            extra["template_data"] = envelope.dynamic_template_data
        text, html = (contents.get(kind, "") for kind in _ORDER)
        messages.append(MailMessage(sender, to, cc, bcc, subject or "", text, html,
                                    list(headers.items()), files, raw, extra))  # fmt: skip
    if sum(len(message.recipients) for message in messages) > _MAX_RECIPIENTS:
        raise FieldError("personalizations", "The total number of recipients must be no more than "
                         f"{_MAX_RECIPIENTS}.")  # fmt: skip
    return messages


def _read_recipients(envelope: _Personalization, field: str) -> list[list[str]]:
    groups = []
    for name in ("to", "cc", "bcc"):
        people = getattr(envelope, name) or ()
        groups.append([_read_address(person, f"{field}.{name}.{number}")
                       for number, person in enumerate(people)])  # fmt: skip
    if not groups[0]:
        raise FieldError(f"{field}.to", "The to array is required for all personalization objects, "
                         "and must have at least one email object with a valid email "
                         "address.")  # fmt: skip
    addresses = [address.lower() for group in groups for address in group]
    if len(set(addresses)) < len(addresses):
        raise FieldError(field, "Each email address in the personalization block should be unique "
                         "between to, cc, and bcc.")  # fmt: skip
    return groups


def _read_address(person: _Address, field: str) -> str:
    if not is_email_address(person.email):
        raise FieldError(f"{field}.email", "Does not contain a valid address.")
    return person.email


def _read_contents(fields: _Fields) -> dict[str, str]:
    """Return the parts of a message by their type. SendGrid wants them in an order."""
    contents: dict[str, str] = {}
    for number, content in enumerate(fields.content or ()):
        if not content.type or not content.value:
            raise FieldError(f"content.{number}", "The content type and value must be strings at "
                             "least one character in length.")  # fmt: skip
        kind = content.type.lower()
        if kind in contents and kind in _ORDER:
            raise FieldError("content", f"If present, {kind} may only be provided once.")
        contents[kind] = content.value
    if not contents and not fields.template_id:
        raise FieldError("content", "Unless a valid template_id is provided, the content parameter "
                         "is required.")  # fmt: skip
    kinds = list(contents)
    if kinds != sorted(kinds, key=lambda kind: (*_ORDER, kind).index(kind)):
        raise FieldError("content", _WRONG_ORDER)
    return contents


def _read_files(fields: _Fields) -> list[Attachment]:
    files = []
    for number, file in enumerate(fields.attachments or ()):
        field = f"attachments.{number}"
        if not file.filename:
            raise FieldError(f"{field}.filename", "The attachment filename is required.")
        data = read_base64(file.content, f"{field}.content")
        files.append(Attachment(file.filename, file.type or "application/octet-stream", data))
    return files
