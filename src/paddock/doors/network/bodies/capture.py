"""The part of a body that the journal keeps while it streams by: its size, its digest, and all of
it or its beginning.

Parts are held by reference while they pass, and never more than a bounded part of a body.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import weakref
from collections.abc import Callable
from typing import Any

from paddock.doors.network.bodies.stable_digests import StableDigest
from paddock.fence.offload import offload_to_the_end
from paddock.journal.plain_values import StoredBytes

MAX_KEPT = 256 << 10  # of one body that is not needed whole: enough for a person to read
# Of one answer that is one value of its record. A longer one is stored in pieces while it passes.
MAX_ANSWER = 8 << 20
PIECE_BYTES = 1 << 20  # of such a piece
MAX_PIECES = 8000  # their digests have room in one record
MAX_LONG = 16  # answers beyond MAX_KEPT that are held in memory at once, of one run
# Of one answer. To hash takes longer than all else that is done with the bytes of a long download.
MAX_HASHED = 64 << 20
_FEW = 64  # parts; of more, the short ones are put together
_SMALL = 4 << 10  # a list of single bytes would be forty times as large as they are

StoreText = Callable[[str], str]
StoreBytes = Callable[[bytes], StoredBytes]


class Claim:
    """Room in memory for one long body, as long as somebody holds it."""

    __slots__ = ("__weakref__",)


class Room:
    """Bounds how many long bodies one run holds in memory. What it may store is bounded by its
    budget."""

    __slots__ = ("_long",)

    def __init__(self) -> None:
        # One that is dropped without a record leaves by itself.
        self._long: weakref.WeakSet[Claim] = weakref.WeakSet()

    def claim(self) -> Claim | None:
        """Return a claim with which a body may be held beyond MAX_KEPT; None when there are too
        many."""
        if len(self._long) >= MAX_LONG:
            return None
        claim = Claim()
        self._long.add(claim)
        return claim

    def release(self, claim: Claim | None) -> None:
        if claim is not None:
            self._long.discard(claim)


class BodyCapture:
    """Captures a body from the parts that it is fed with as they pass.

    Of a body without `room` the beginning is kept. One with `room` is kept whole: in memory until
    its end up to MAX_ANSWER, if few others are; else it is stored in pieces as it comes, and who
    feeds it calls `spill` when it `is_due`. Both are stored before the record that names them.
    """

    __slots__ = (
        "_beginning", "_digest", "_hashed", "_held", "_held_bytes", "_is_beyond_budget", "_is_cut",
        "_is_spooled", "_long", "_most", "_parts", "_pieces", "_room", "_stable", "_stored",
        "is_whole", "size"
    )  # fmt: skip

    def __init__(
        self,
        most: int = MAX_KEPT,
        *,
        hashed: int = sys.maxsize,
        room: Room | None = None,
        stable: StableDigest | None = None,
    ) -> None:
        """`stable` makes a second digest, without what the client makes up to separate the parts of
        a body."""
        self._stable = stable
        self._digest = hashlib.sha256()
        self._parts: list[bytes | bytearray] = []
        self._most = most
        self._held = most  # how much may be held now
        self._held_bytes = 0
        self._is_cut = self._is_spooled = self._is_beyond_budget = False
        self._beginning = b""  # of what is stored in pieces
        self._pieces: list[StoredBytes] = []
        self._long: Claim | None = None
        self._stored: tuple[str, str] | None = None
        self._hashed = hashed
        self._room = room
        self.is_whole = False  # for who feeds it to say
        self.size = 0

    def feed(self, data: bytes) -> None:
        if self._stable is not None:
            self._stable.feed(data)
        before = self.size
        if before < self._hashed:
            self._digest.update(data[: self._hashed - before])
        self.size = before + len(data)
        if self._is_cut:
            return
        if self.size > self._held and not self._is_spooled:
            self._reconsider()
        if self._is_spooled:
            self._hold(data)
            # Nobody spills it: what is not stored must not pile up.
            if self._held_bytes > 2 * MAX_ANSWER + len(data):
                self._cut()
        elif before < self._held:
            self._hold(data[: self._held - before])

    def _reconsider(self) -> None:
        """Decide on a body that is longer than what may be held: more of it is held, or it is
        stored as it comes, or it is cut."""
        if self._room is None:
            self._is_cut = True
            return
        is_short = self._held == self._most
        if is_short and self.size <= MAX_ANSWER:
            self._long = self._room.claim()
            if self._long is not None:
                self._held = MAX_ANSWER
                return
        self._room.release(self._long)
        self._long, self._is_spooled = None, True
        self._beginning = b"".join(self._parts)[: self._most]

    def _hold(self, part: bytes) -> None:
        parts = self._parts
        self._held_bytes += len(part)
        if len(part) >= _SMALL or len(parts) < _FEW:
            parts.append(part)
        elif type(parts[-1]) is bytearray:
            parts[-1] += part
        else:
            parts.append(bytearray(part))

    def _cut(self) -> None:
        self._is_cut, self._parts, self._held_bytes, self._pieces = True, [], 0, []

    @property
    def is_due(self) -> bool:
        """Return whether a piece is to be stored before more comes."""
        return self._is_spooled and not self._is_cut and self._held_bytes >= PIECE_BYTES

    async def spill(self, store: StoreBytes, *, is_last: bool = False) -> None:
        """Store the whole pieces of what is held, in another thread; all of it at the end. What
        does not fit into the budget of the run is not kept, and then the rest is not either."""
        if not self._is_spooled or self._is_cut or not self._held_bytes:
            return
        held = b"".join(self._parts)
        end = len(held) if is_last else len(held) - len(held) % PIECE_BYTES
        self._parts, self._held_bytes = [held[end:]], len(held) - end
        for at in range(0, end, PIECE_BYTES):
            stored = await offload_to_the_end(store, held[at : min(at + PIECE_BYTES, end)])
            self._pieces.append(stored)
            self._is_beyond_budget = not stored.is_kept
            if not stored.is_kept or len(self._pieces) > MAX_PIECES:
                self._cut()
                return

    async def store(self, text: StoreText, piece: StoreBytes) -> None:
        """Write a long body in another thread, before the record that will name it. One that was
        not stored is cut. The client has all of it by then and may leave: that the answer was given
        is recorded nevertheless."""
        await self.spill(piece, is_last=True)
        if self._long is not None and self._room is not None:
            self._stored = await offload_to_the_end(self._told_to, text)
            self._room.release(self._long)

    def _told_to(self, store: StoreText) -> tuple[str, str]:
        name, text = _spelled(b"".join(self._parts))
        return name, store(text)

    def record(self) -> dict[str, Any]:
        """Return the fields of a settled record: `body` is text, or base64 where it is none;
        `pieces` are those of a body that is too long to be one value."""
        record: dict[str, Any] = {"bytes": self.size}
        if not self.size:
            return record
        record["sha256"] = self._digest.hexdigest()
        if self.size > self._hashed:
            record["hashed_bytes"] = self._hashed
        if self._stable is not None and (stable := self._stable.record()) is not None:
            record["stable"] = stable
        if self._stored is not None:
            name, text = self._stored
            return {**record, name: text}
        if self._is_spooled and not self._is_cut and not self._held_bytes:
            return {**record, "pieces": list(self._pieces)}
        raw = self._beginning if self._is_spooled else b"".join(self._parts)[: self._most]
        if len(raw) < self.size:
            record["is_cut"] = True
        if self._is_beyond_budget:
            record["cut_by"] = "budget"
        name, text = _spelled(raw)
        return {**record, name: text}


def _spelled(raw: bytes) -> tuple[str, str]:
    """Bytes as JSON has them, and under which name."""
    try:
        return "body", raw.decode("utf-8")
    except UnicodeDecodeError:
        return "base64", base64.b64encode(raw).decode()
