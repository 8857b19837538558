"""The frames of a WebSocket as the journal has them: one line of JSON each, in the order in which
they were passed on. What a message says may come in several of them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from paddock.doors.network.bodies.capture import BodyCapture, Room, StoreBytes, StoreText

CLIENT, SERVER = "client", "server"
TEXT, BINARY, CLOSE = "text", "binary", "close"
Position = Callable[[], int]


class Frame(msgspec.Struct, frozen=True):
    """One frame: who sent it, and what it says. `n` is the last record of the journal before it."""

    by: str
    kind: str  # text, binary, ping, pong or close
    data: bytes = b""
    is_last: bool = True  # of its message
    code: int | None = None  # of a close
    n: int = 0

    def line(self) -> bytes:
        """As it is kept."""
        fields: dict[str, Any] = {"by": self.by, "kind": self.kind, "n": self.n}
        try:
            fields["text"] = self.data.decode()
        except UnicodeDecodeError:
            fields["base64"] = base64.b64encode(self.data).decode()
        if not self.is_last:
            fields["is_last"] = False
        if self.code is not None:
            fields["code"] = self.code
        return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def read_frames(parts: Iterable[bytes]) -> Iterator[Frame]:
    """The frames of a log that comes in parts. Raises ValueError for what is none."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from map(_frame, lines)
    if rest:
        raise ValueError("the last frame is not whole")


def _frame(line: bytes) -> Frame:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("a frame is an object")
    try:
        raw = fields.get("text", "").encode()
        data = base64.b64decode(fields["base64"]) if "base64" in fields else raw
        code = fields.get("code")
        return Frame(
            by=str(fields["by"]),
            kind=str(fields["kind"]),
            data=data,
            is_last=fields.get("is_last", True) is not False,
            code=code if isinstance(code, int) else None,
            n=int(fields.get("n", 0)),
        )
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"a frame cannot be read: {error}") from None


class FrameLog:
    """Writes down the frames of one WebSocket as they are passed on."""

    def __init__(self, room: Room, position: Position, store: StoreBytes) -> None:
        self._kept = BodyCapture(room=room)
        self._position = position
        self._store = store

    async def add(
        self, by: str, kind: str, data: bytes, *, is_last: bool = True, code: int | None = None
    ) -> None:
        self._kept.feed(Frame(by, kind, data, is_last, code, self._position()).line())
        if self._kept.is_due:
            await self._kept.spill(self._store)

    async def record(self, text: StoreText) -> dict[str, Any]:
        """For a settled record."""
        await self._kept.store(text, self._store)
        return self._kept.record()
