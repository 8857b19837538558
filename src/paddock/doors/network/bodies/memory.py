"""Bounds the memory that request bodies take, for each sandbox and for the process.

A body that rules read is in memory from its first byte until its request is over, and a person may
be asked in between. One sandbox may have a thousand connections. So what all of them hold together
is counted, and a body that would take more is refused (429). A body that does not come to its end
is refused, too (408): a client that sends a byte now and then would keep its memory for ever.
"""

from __future__ import annotations

import weakref
from types import TracebackType

from paddock.doors.network.bodies.capture import Claim

MAX_OF_SANDBOX = 64 << 20
MAX_OF_PROCESS = 512 << 20  # of all sandboxes; one with less than its equal share is still served
MAX_REQUESTS = 1024  # of one sandbox at once; by HTTP/2 each may hold a window besides
BODY_S = 60.0  # for a body that is read before the decision to come to its end


class BodyRefused(Exception):
    """A body is not read to its end. `status` is what the client is answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BodyMemory:
    """The bodies of one sandbox. Used on the door's loop only."""

    def __init__(self, peers: weakref.WeakSet[BodyMemory] | None = None) -> None:
        self.size = 0
        self.requests = 0
        # Of those that are longer than others may be; one that is dropped leaves by itself.
        self.long_bodies: weakref.WeakSet[Claim] = weakref.WeakSet()
        self._peers = _OF_PROCESS if peers is None else peers
        self._peers.add(self)

    def open(self) -> BodyReservation:
        """Begin with the body of one request. Raises BodyRefused where there are too many."""
        if self.requests >= MAX_REQUESTS:
            raise BodyRefused(
                429, f"More than {MAX_REQUESTS} requests of this sandbox are under way."
            )
        return BodyReservation(self)

    def check(self, more: int) -> None:
        """Raises BodyRefused if there is no room for so many bytes."""
        size = self.size + more
        if size > MAX_OF_SANDBOX:
            most = MAX_OF_SANDBOX >> 20
            raise BodyRefused(429, f"The sandbox has {most} MiB of request bodies open already.")
        holders = [bodies.size for bodies in self._peers if bodies.size and bodies is not self]
        if sum(holders) + size > MAX_OF_PROCESS and size > MAX_OF_PROCESS // (len(holders) + 1):
            raise BodyRefused(
                429, "The host has too many request bodies in memory. Try again later."
            )


class BodyReservation:
    """The bytes of one body that are in memory, until the request is over."""

    __slots__ = ("_bodies", "_size")

    def __init__(self, bodies: BodyMemory) -> None:
        self._bodies = bodies
        self._size = 0
        bodies.requests += 1

    @property
    def long_bodies(self) -> weakref.WeakSet[Claim]:
        """Return the long bodies of the whole sandbox."""
        return self._bodies.long_bodies

    def add(self, size: int) -> None:
        """Count bytes that have come. Raises BodyRefused."""
        self._bodies.check(size)
        self._bodies.size += size
        self._size += size

    def __enter__(self) -> BodyReservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bodies.size -= self._size
        self._bodies.requests -= 1


_OF_PROCESS: weakref.WeakSet[BodyMemory] = weakref.WeakSet()
