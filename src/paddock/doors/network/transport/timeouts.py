"""The time limits of waits: one timer for all connections of a loop, because a timer for each would
cost more than the wait itself.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.doors.network.transport.conn import Conn

_EVERY_S = 1.0


class _Sweeper:
    """Looks at the connections of one loop, as long as there are any."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._conns: weakref.WeakSet[Conn] = weakref.WeakSet()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, conn: Conn) -> None:
        self._conns.add(conn)
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_S, self._sweep)

    def _sweep(self) -> None:
        now = self._loop.time()
        live = [conn for conn in self._conns if not conn.is_closed]
        for conn in live:
            conn.check(now)
        self._timer = self._loop.call_later(_EVERY_S, self._sweep) if live else None


_sweepers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Sweeper] = (
    weakref.WeakKeyDictionary()
)


def watch(loop: asyncio.AbstractEventLoop, conn: Conn) -> None:
    """Has waits of the connection fail that take too long."""
    sweeper = _sweepers.get(loop)
    if sweeper is None:
        sweeper = _sweepers[loop] = _Sweeper(loop)
    sweeper.add(conn)
