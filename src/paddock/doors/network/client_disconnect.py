"""Clients that do not wait for their answer.

Nobody reads from a client while a server is slow, so nothing tells that it has gone: it is looked
at now and then. What waits for the server is ended then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.doors.network.exchange import HttpExchange

_LOOK_S = 0.1
_MAX_SILENCE_S = 3600.0  # longer than clients wait


class ClientDisconnected(Exception):
    """The client does not take its answer."""


class DisconnectWatch:
    """Cancels the present task when its client has gone."""

    def __init__(self, exchange: HttpExchange) -> None:
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
def ended_by_disconnect(
    exchange: HttpExchange, watch: DisconnectWatch | None = None
) -> Iterator[None]:
    """Raise ClientDisconnected where a wait was cancelled because the client has gone. HTTP/2
    cancels the task of a stream by itself, and needs no watch."""
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


async def stay_silent(exchange: HttpExchange) -> None:
    """Send nothing more until the client has had enough of it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _MAX_SILENCE_S
    while not exchange.is_gone() and loop.time() < until:  # noqa: ASYNC110 - no event for it
        await asyncio.sleep(_LOOK_S)
    exchange.abort()
