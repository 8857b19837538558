"""The outbox: every letter that was taken, in the store. Nothing leaves it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from paddock.world.context import Context
from paddock.world.services.untrusted import TooLarge

OUTBOX = "messages"
MAX_MESSAGE = 16 << 20  # bytes on the wire
MAX_TEXT = 512 << 10  # characters of a text in the document; the raw letter has all of it
MAX_VALUE = 16 << 10  # characters of one header
MAX_HEADERS = 200
_MAX_KEPT = 4 << 10  # of them
_MAX_MORE = 1 << 20  # characters of JSON


class Attachment(msgspec.Struct, frozen=True):
    """A file in a letter."""

    filename: str
    content_type: str
    data: bytes


class Letter(msgspec.Struct, frozen=True):
    """What somebody wants to send."""

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
    more: dict[str, Any] = {}  # what only its way in knows

    @property
    def recipients(self) -> list[str]:
        return [*self.to, *self.cc, *self.bcc]


class Outbox:
    """Letters of one world."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._bounce = [str(one).lower() for one in context.options.get("bounce", ())]

    def bounces(self, address: str) -> bool:
        """Whether mail to this address is refused."""
        return any(fnmatchcase(address.lower(), pattern) for pattern in self._bounce)

    def keep(self, letter: Letter, via: str) -> dict[str, Any]:
        """Puts a letter into the outbox, inside a transaction. Raises TooLarge."""
        if len(json.dumps(letter.more, ensure_ascii=False)) > _MAX_MORE:
            raise TooLarge("the data beside a letter")
        context, store = self.context, self.context.store
        at = datetime.fromtimestamp(context.tick(), UTC).isoformat().replace("+00:00", "Z")
        id = context.new_id("msg_", 20)
        given = next((v for n, v in letter.headers if n.lower() == "message-id"), "")
        document = {
            "id": id, "message_id": given or f"<{id}@{context.host}>", "via": via, "at": at,
            "from": letter.sender, "to": list(letter.to), "cc": list(letter.cc),
            "bcc": list(letter.bcc), "subject": letter.subject[:MAX_VALUE],
            "text": letter.text[:MAX_TEXT], "html": letter.html[:MAX_TEXT],
            "headers": [[n[:255], v[:_MAX_KEPT]] for n, v in letter.headers[:MAX_HEADERS]],
            "attachments": [self._attached(one) for one in letter.attachments],
            "bounced": [one for one in letter.recipients if self.bounces(one)],
            "raw": store.put_blob(letter.raw), **letter.more,
        }  # fmt: skip
        store.put(OUTBOX, id, document)
        return document

    def bounced(self) -> list[dict[str, Any]]:
        """Addresses that mail came back from, newest first."""
        found = [
            {"email": address, "created": letter["at"]}
            for letter in self.context.store.find(OUTBOX, newest_first=True)
            for address in letter["bounced"]
        ]
        return list({one["email"]: one for one in reversed(found)}.values())[::-1]

    def _attached(self, attachment: Attachment) -> dict[str, Any]:
        return {
            "filename": attachment.filename[:255],
            "content_type": attachment.content_type[:255],
            "size": len(attachment.data),
            "blob": self.context.store.put_blob(attachment.data),
        }
