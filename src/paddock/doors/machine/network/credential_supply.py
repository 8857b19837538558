"""The certificate authorities of network doors, made ahead because one takes long to make."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.fence.offload import offload

if TYPE_CHECKING:  # loaded with the first door
    from paddock.doors.network.tls.credentials import Credentials

_SPARE_S = 0.1  # the new sandbox goes first
_DOOR = "paddock.doors.network"


class CredentialSupply:
    """Keeps one set of credentials ready after the first was asked for. Each is given out once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next: asyncio.Future[Credentials] | None = None
        self._spare_timer: asyncio.TimerHandle | None = None

    def prepare(self) -> None:
        """Begin to make the next set, and, for the first door of a process, to load its code."""
        if self._next is None:
            self._next = asyncio.ensure_future(offload(_make))

    async def take(self) -> Credentials:
        """Return a set that nobody else has, and begin to make another one a little later."""
        self.prepare()
        taken, self._next = self._next, None
        assert taken is not None
        self._spare_timer = self._loop.call_later(_SPARE_S, self.prepare)
        return await taken

    async def close(self) -> None:
        """Make no more, and wait for what is being made."""
        if self._spare_timer is not None:
            self._spare_timer.cancel()
        if self._next is not None:
            await asyncio.gather(self._next, return_exceptions=True)


def _make() -> Credentials:
    from importlib import import_module

    for name in ("dns.message", f"{_DOOR}.door"):
        import_module(name)
    from paddock.doors.network.tls.credentials import Credentials

    return Credentials.make()
