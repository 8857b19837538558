"""Reads a message as it comes over SMTP.

Python's parser takes very long for messages that are made to be hard: deeply nested parts, long
parameters, strange character sets. Such a message is stored as it came and not taken apart.
"""

from __future__ import annotations

import codecs
import re
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses

from paddock_services.mail.outbox import MAX_HEADER, MAX_HEADERS, Attachment, MailMessage

_MAX_LINES = 400_000
_MAX_PARTS = 100
_MAX_BOUNDARIES = 20  # each line is compared with all of them
_MAX_HEADER_BLOCK = 256 << 10
_MAX_STRUCTURED = 4 << 10  # of Content-Type and Content-Disposition, whose parameters are read
_STRUCTURED = re.compile(rb"(?im)^content-(?:type|disposition)[ \t]*:")
_END_OF_FIELD = re.compile(rb"\r?\n(?![ \t])")
# Of the other codecs some take the square of the length, and some are no character sets.
_CHARSETS = re.compile(r"(utf-(8|16|32)|ascii|iso8859|cp\d|koi8|mac|gb|big5|shift_ji|euc_|iso2022)")
_PARSER_ERRORS = (MessageError, RecursionError, ValueError, LookupError, TypeError, AttributeError)


def read_message(raw: bytes, sender: str, recipients: list[str]) -> MailMessage:
    """Return a message with its envelope. A recipient in no header got a blind copy."""
    if _is_easy(raw):
        try:
            return _read(message_from_bytes(raw), raw, sender, recipients)
        except _PARSER_ERRORS:
            pass
    return MailMessage(sender, recipients, raw=raw, extra={"unread": True})


def _is_easy(raw: bytes) -> bool:
    if raw.count(b"\n") > _MAX_LINES or raw.lower().count(b"boundary") > _MAX_BOUNDARIES:
        return False
    blank = raw.find(b"\r\n\r\n", 0, _MAX_HEADER_BLOCK)
    if blank < 0 and len(raw) >= _MAX_HEADER_BLOCK:
        return False
    for count, field in enumerate(_STRUCTURED.finditer(raw)):
        start = field.end()
        has_end = _END_OF_FIELD.search(raw, start, start + _MAX_STRUCTURED)
        if count > _MAX_PARTS or not (has_end or len(raw) - start < _MAX_STRUCTURED):
            return False
    return True


def _read(message: Message, raw: bytes, sender: str, recipients: list[str]) -> MailMessage:
    headers = [(name, _header_text(value)) for name, value in message.raw_items()][:MAX_HEADERS]
    to, cc = _addresses(headers, "to"), _addresses(headers, "cc")
    named = {address.lower() for address in (*to, *cc)}
    envelope = {address.lower() for address in recipients}
    subjects = [value for name, value in headers if name.lower() == "subject"]
    text, html, attachments = _read_parts(message)
    return MailMessage(
        sender,
        [address for address in to if address.lower() in envelope],
        [address for address in cc if address.lower() in envelope],
        [address for address in recipients if address.lower() not in named],
        subjects[0] if subjects else "",
        text,
        html,
        headers,
        attachments,
        raw,
    )


def _read_parts(message: Message) -> tuple[str, str, list[Attachment]]:
    """Return the first text, the first HTML text, and everything else as attachments."""
    texts: dict[str, str] = {}
    attachments = []
    for part in message.walk():
        if part.is_multipart():
            continue
        content, kind = part.get_payload(decode=True), part.get_content_type()
        data = content if isinstance(content, bytes) else b""
        is_file = part.get_content_disposition() == "attachment" or part.get_filename()
        if kind in ("text/plain", "text/html") and not is_file and not texts.get(kind):
            texts[kind] = _decode(data, str(part.get_content_charset() or "utf-8"))
        else:
            name = _header_text(part.get_filename() or "attachment")
            attachments.append(Attachment(name, _header_text(kind), data))
    return texts.get("text/plain", ""), texts.get("text/html", ""), attachments


def _header_text(value: object) -> str:
    """Return a header in characters, whatever it is encoded in."""
    # What is not ASCII stands in Python's text as halves of characters; mostly it is UTF-8.
    raw = str(value)[:MAX_HEADER].encode("utf-8", "surrogateescape")
    text = re.sub(r"\r?\n", "", raw.decode("utf-8", "replace"))
    try:
        parts = decode_header(text)
    except (MessageError, ValueError):  # base64 that is none
        return text
    return "".join(
        part if isinstance(part, str) else _decode(part, charset or "utf-8")
        for part, charset in parts
    )


def _decode(data: bytes, charset: str) -> str:
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        name = "utf-8"
    if not _CHARSETS.match(name):
        name = "utf-8"
    return data.decode(name, "replace").encode("utf-8", "replace").decode()


def _addresses(headers: list[tuple[str, str]], name: str) -> list[str]:
    values = [value for header, value in headers if header.lower() == name]
    return [address for _, address in getaddresses(values) if address]
