"""Clients that do not wait for their answer. Nobody reads from a client while a server is slow, so
it is looked for now and then; whatever waits for the server then ends, or is as silent as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.doors.network.exchange import Exchange

_LOOK_S = 0.1
_MAX_SILENCE_S = 3600.0  # longer than clients wait


class ClientDisconnected(Exception):
    """The client does not take its answer."""


class DisconnectWatch:
    """Ends what the present task waits for when its client has gone."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        if not self._exchange.is_gone():
            self._next = self._loop.call_later(_LOOK_S, self._look)
        elif self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        self._next.cancel()


@contextmanager
def watched(exchange: Exchange, watch: DisconnectWatch | None = None) -> Iterator[None]:
    """Raise ClientDisconnected where the wait was ended because the client has gone. HTTP/2 tells
    that by itself, and needs no watch."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not exchange.is_gone():
            raise
        task.uncancel()
        raise ClientDisconnected("it did not wait for its answer") from None
    finally:
        if watch is not None:
            watch.end()


async def be_silent(exchange: Exchange) -> None:
    """Says nothing more until the client has had enough of it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _MAX_SILENCE_S
    while not exchange.is_gone() and loop.time() < until:  # noqa: ASYNC110 - no event for it
        await asyncio.sleep(_LOOK_S)
    exchange.abort()
