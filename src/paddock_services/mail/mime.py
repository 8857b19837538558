"""Reads a letter as it comes over SMTP. Python's own parser is slow on letters that are made to be;
such a letter is kept as it came, and not taken apart."""

from __future__ import annotations

import codecs
import re
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses

from paddock_services.mail.outbox import MAX_HEADERS, MAX_VALUE, Attachment, Letter

_MAX_LINES = 400_000
_MAX_PARTS = 100
_MAX_BOUNDARIES = 20  # each line is compared with all of them
_MAX_HEADER_BLOCK = 256 << 10
_MAX_STRUCTURED = 4 << 10  # of Content-Type and Content-Disposition, whose parameters are read
_STRUCTURED = re.compile(rb"(?im)^content-(?:type|disposition)[ \t]*:")
_END_OF_FIELD = re.compile(rb"\r?\n(?![ \t])")
# Of the other codecs some take the square of the length, and some are no character sets.
_CHARSETS = re.compile(r"(utf-(8|16|32)|ascii|iso8859|cp\d|koi8|mac|gb|big5|shift_ji|euc_|iso2022)")


def read_letter(raw: bytes, sender: str, recipients: list[str]) -> Letter:
    """The letter of an envelope. Who is in the envelope and in no header got a blind copy."""
    if not _is_tame(raw):
        return Letter(sender, recipients, raw=raw, more={"unread": True})
    try:
        return _read(message_from_bytes(raw), raw, sender, recipients)
    except (
        MessageError,
        RecursionError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        IndexError,
    ):
        return Letter(sender, recipients, raw=raw, more={"unread": True})


def _is_tame(raw: bytes) -> bool:
    if raw.count(b"\n") > _MAX_LINES or raw.lower().count(b"boundary") > _MAX_BOUNDARIES:
        return False
    blank = raw.find(b"\r\n\r\n", 0, _MAX_HEADER_BLOCK)
    if blank < 0 and len(raw) >= _MAX_HEADER_BLOCK:
        return False
    for count, field in enumerate(_STRUCTURED.finditer(raw)):
        start = field.end()
        if count > _MAX_PARTS or not (
            _END_OF_FIELD.search(raw, start, start + _MAX_STRUCTURED)
            or len(raw) - start < _MAX_STRUCTURED
        ):
            return False
    return True


def _read(message: Message, raw: bytes, sender: str, recipients: list[str]) -> Letter:
    headers = [(name, _text_of(value)) for name, value in message.raw_items()][:MAX_HEADERS]
    to, cc = _addresses(headers, "to"), _addresses(headers, "cc")
    named = {address.lower() for address in (*to, *cc)}
    known = {address.lower(): address for address in recipients}
    text, html, attachments = _parts(message)
    return Letter(
        sender,
        [one for one in to if one.lower() in known],
        [one for one in cc if one.lower() in known],
        [one for one in recipients if one.lower() not in named],
        next((value for name, value in headers if name.lower() == "subject"), ""),
        text,
        html,
        headers,
        attachments,
        raw,
    )


def _parts(message: Message) -> tuple[str, str, list[Attachment]]:
    text, html, attachments = "", "", []
    for part in message.walk():
        if part.is_multipart():
            continue
        content, kind = part.get_payload(decode=True), part.get_content_type()
        data = content if isinstance(content, bytes) else b""
        is_file = part.get_content_disposition() == "attachment" or part.get_filename()
        if kind == "text/plain" and not is_file and not text:
            text = _decoded(data, str(part.get_content_charset() or "utf-8"))
        elif kind == "text/html" and not is_file and not html:
            html = _decoded(data, str(part.get_content_charset() or "utf-8"))
        else:
            name = _text_of(part.get_filename() or "attachment")
            attachments.append(Attachment(name, _text_of(kind), data))
    return text, html, attachments


def _text_of(value: object) -> str:
    """A header in characters, whatever it was encoded in."""
    # What is not ASCII stands in Python's text as halves of characters; mostly it is UTF-8.
    raw = str(value)[:MAX_VALUE].encode("utf-8", "surrogateescape")
    text = re.sub(r"\r?\n", "", raw.decode("utf-8", "replace"))
    try:
        parts = decode_header(text)
    except (MessageError, ValueError):  # base64 that is none
        return text
    return "".join(
        part if isinstance(part, str) else _decoded(part, charset or "utf-8")
        for part, charset in parts
    )


def _decoded(data: bytes, charset: str) -> str:
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
