"""The outbox: every message that was accepted, in the store. Nothing leaves it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from paddock.world.context import Context
from paddock.world.kit import TooLarge, iso_timestamp

MESSAGES = "messages"
MAX_MESSAGE = 16 << 20  # bytes on the wire
MAX_HEADERS = 200
MAX_HEADER = 16 << 10  # characters of one header that are read
_MAX_STORED_HEADER = 4 << 10
_MAX_TEXT = 512 << 10  # characters of a text in the document; the blob has all of it
_MAX_EXTRA = 1 << 20  # characters of JSON


class Attachment(msgspec.Struct, frozen=True):
    """A file in a message."""

    filename: str
    content_type: str
    data: bytes


class MailMessage(msgspec.Struct, frozen=True):
    """A message that somebody wants to send."""

    sender: str
    to: Sequence[str] = ()
    cc: Sequence[str] = ()
    bcc: Sequence[str] = ()
    subject: str = ""
    text: str = ""
    html: str = ""
    headers: Sequence[tuple[str, str]] = ()
    attachments: Sequence[Attachment] = ()
    raw: bytes = b""  # as it came
    extra: dict[str, Any] = {}  # fields that only one protocol or provider has

    @property
    def recipients(self) -> list[str]:
        return [*self.to, *self.cc, *self.bcc]


class Outbox:
    """The messages of one world, and the addresses that take none."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._refused = [str(pattern).lower() for pattern in context.options.get("bounce", ())]

    def refuses(self, address: str) -> bool:
        """Return whether mail to this address bounces."""
        return any(fnmatchcase(address.lower(), pattern) for pattern in self._refused)

    def put(self, message: MailMessage, via: str) -> dict[str, Any]:
        """Store a message and return its document. Raises TooLarge."""
        if len(json.dumps(message.extra, ensure_ascii=False)) > _MAX_EXTRA:
            raise TooLarge("the data beside the message is too long")
        context, store = self.context, self.context.store
        at, id = iso_timestamp(context.tick()), context.new_id("msg_", 20)
        ids = [value for name, value in message.headers if name.lower() == "message-id"]
        document = {
            "id": id, "message_id": ids[0] if ids else f"<{id}@{context.host}>",
            "via": via, "at": at, "from": message.sender, "to": list(message.to),
            "cc": list(message.cc), "bcc": list(message.bcc),
            "subject": message.subject[:MAX_HEADER], "text": message.text[:_MAX_TEXT],
            "html": message.html[:_MAX_TEXT],
            "headers": [[name[:255], value[:_MAX_STORED_HEADER]]
                        for name, value in message.headers[:MAX_HEADERS]],
            "attachments": [self._put_attachment(file) for file in message.attachments],
            "bounced": [address for address in message.recipients if self.refuses(address)],
            "raw": store.put_blob(message.raw), **message.extra,
        }  # fmt: skip
        store.put(MESSAGES, id, document)
        return document

    def bounces(self) -> list[dict[str, Any]]:
        """Return the addresses that mail came back from, the latest first."""
        bounces = {
            address: {"email": address, "created": message["at"]}
            for message in self.context.store.find(MESSAGES)
            for address in message["bounced"]
        }
        return sorted(bounces.values(), key=lambda bounce: bounce["created"], reverse=True)

    def _put_attachment(self, file: Attachment) -> dict[str, Any]:
        return {
            "filename": file.filename[:255],
            "content_type": file.content_type[:255],
            "size": len(file.data),
            "blob": self.context.store.put_blob(file.data),
        }
