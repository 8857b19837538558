"""What the journal keeps of a body that streams by: its size, its digest, and all of it or its
beginning. Parts are held by reference while they pass; nothing is copied that is long."""

from __future__ import annotations

import base64
import hashlib
import sys
import weakref
from collections.abc import Callable
from typing import Any

from paddock.fence.offload import offload_to_the_end

MAX_KEPT = 256 << 10  # of one body that is not needed whole: enough for a person to read
# Of one answer. A replay gives the agent what it got, so all of it is kept; the part of a longer
# one would be of no use to a replay.
MAX_ANSWER = 8 << 20
# Of all answers of a run. An agent that downloads all day must not fill the disk of the host.
MAX_OF_RUN = 512 << 20
MAX_LONG = 16  # answers beyond MAX_KEPT that are held in memory at once, of one run
# Of one answer. To hash takes longer than all else that is done with the bytes of a long download.
MAX_HASHED = 64 << 20
_FEW = 64  # parts; of more, the short ones are put together
_SMALL = 4 << 10  # a list of single bytes would be forty times as large as they are


class Claim:
    """Room in memory for one long body, as long as somebody holds it."""

    __slots__ = ("__weakref__",)


class Room:
    """What the journal of one run still has room for."""

    __slots__ = ("_left", "_long")

    def __init__(self, most: int = MAX_OF_RUN) -> None:
        self._left = most
        # One that is dropped without a record leaves by itself.
        self._long: weakref.WeakSet[Claim] = weakref.WeakSet()

    def claim(self) -> Claim | None:
        """What lets a body be held beyond what is kept of any."""
        if len(self._long) >= MAX_LONG or self._left < MAX_ANSWER:
            return None
        claim = Claim()
        self._long.add(claim)
        return claim

    def spend(self, size: int, claim: Claim | None) -> bool:
        """Whether so many bytes can be recorded; then they count."""
        if claim is not None:
            self._long.discard(claim)
        if size > self._left:
            return False
        self._left -= size
        return True


class Kept:
    """Fed with the parts of a body as they pass."""

    __slots__ = (
        "_digest", "_hashed", "_held", "_is_cut", "_long", "_most", "_parts", "_room",
        "_stored", "is_whole", "size"
    )  # fmt: skip

    def __init__(
        self, most: int = MAX_KEPT, *, hashed: int = sys.maxsize, room: Room | None = None
    ) -> None:
        """With `room` all of a body is kept up to MAX_ANSWER, and `most` of a longer one."""
        self._digest = hashlib.sha256()
        self._parts: list[bytes | bytearray] = []
        self._most = most
        self._held = most  # how much may be held now
        self._is_cut = False
        self._long: Claim | None = None
        self._stored: tuple[str, str] | None = None
        self._hashed = hashed
        self._room = room
        self.is_whole = False  # for who feeds it to say
        self.size = 0

    def feed(self, data: bytes) -> None:
        before = self.size
        if before < self._hashed:
            self._digest.update(data[: self._hashed - before])
        self.size = before + len(data)
        if self._is_cut:
            return
        if self.size > self._held:
            self._reconsider()
        if before < self._held:
            self._hold(data[: self._held - before])

    def _reconsider(self) -> None:
        """It is longer than what may be held: that becomes more, or it is cut."""
        room, is_short = self._room, self._held == self._most
        if room is not None and is_short and self.size <= MAX_ANSWER:
            self._long = room.claim()
        if is_short and self._long is not None:
            self._held = MAX_ANSWER
            return
        self._is_cut, self._long = True, None
        if not is_short:
            self._parts, self._held = [b"".join(self._parts)[: self._most]], self._most

    def _hold(self, part: bytes) -> None:
        parts = self._parts
        if len(part) >= _SMALL or len(parts) < _FEW:
            parts.append(part)
        elif type(parts[-1]) is bytearray:
            parts[-1] += part
        else:
            parts.append(bytearray(part))

    @property
    def is_long(self) -> bool:
        """Whether to record it takes so long that others would wait for it."""
        return self._long is not None

    async def store(self, store: Callable[[str], str]) -> None:
        """Has a long body written in another thread, before the record that will have it. One that
        was not stored is cut. The client has all of it by then and may leave: that the answer was
        given is recorded nevertheless."""
        if self._long is None or self._room is None:
            return
        if self._room.spend(self.size, self._long):
            self._stored = await offload_to_the_end(self._told_to, store)

    def _told_to(self, store: Callable[[str], str]) -> tuple[str, str]:
        name, text = _spelled(b"".join(self._parts))
        return name, store(text)

    def record(self) -> dict[str, Any]:
        """For a settled record: `body` is text, or base64 where it is none."""
        record: dict[str, Any] = {"bytes": self.size}
        if not self.size:
            return record
        record["sha256"] = self._digest.hexdigest()
        if self.size > self._hashed:
            record["hashed_bytes"] = self._hashed
        if self._stored is not None:
            name, text = self._stored
            return {**record, name: text}
        raw = self._beginning()
        if len(raw) < self.size:
            record["is_cut"] = True
        name, text = _spelled(raw)
        return {**record, name: text}

    def _beginning(self) -> bytes:
        raw = b"".join(self._parts)[: self._most]
        if self._room is not None and not self._room.spend(len(raw), self._long):
            return b""
        return raw


def _spelled(raw: bytes) -> tuple[str, str]:
    """Bytes as JSON has them, and under which name."""
    try:
        return "body", raw.decode("utf-8")
    except UnicodeDecodeError:
        return "base64", base64.b64encode(raw).decode()
