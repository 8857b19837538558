"""Work that grows with what an agent sends, done in a thread: the loop serves all sandboxes.

A sandbox has one such job at a time, so that a flood of one delays itself, and few of all sandboxes
run at once: they share the interpreter with the loop, which has to wait for each of them in turn.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from paddock.fence.offload import offload_to_the_end
from paddock.journal.secrets.search import ESCAPE_MARKS

P = ParamSpec("P")
T = TypeVar("T")

LIGHT_BYTES = 16 << 10  # what takes less time than to change to a thread and back
LIGHT_ESCAPES = 100  # the same where escapes must be undone
_AT_ONCE = 2
_at_once = threading.BoundedSemaphore(_AT_ONCE)


class HeavyWork:
    """The jobs of one sandbox."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it in a thread, when it is this sandbox's turn. Who is cancelled meanwhile gives the
        turn away only when it is done."""
        async with self._turn:
            return await offload_to_the_end(lambda: _with_others(lambda: function(*args, **kwargs)))

    async def search(self, function: Callable[[bytes], T], data: bytes) -> T:
        """Do what looks for secrets in the data, in a thread where that takes long."""
        return function(data) if is_light(data) else await self.run(function, data)


def is_light(*data: bytes) -> bool:
    """Return whether data are searched for secrets in less time than it takes to change to a
    thread. Many connections can each bring some in the same turn of the loop."""
    if sum(map(len, data)) > LIGHT_BYTES:
        return False
    return sum(part.count(mark) for part in data for mark in ESCAPE_MARKS) <= LIGHT_ESCAPES


def _after_fork_in_child() -> None:
    global _at_once
    _at_once = threading.BoundedSemaphore(_AT_ONCE)  # the threads that held it did not come along


os.register_at_fork(after_in_child=_after_fork_in_child)


def _with_others(job: Callable[[], T]) -> T:
    with _at_once:
        return job()
