"""Blocking work off the event loop, on daemon threads of our own.

The standard executor refuses work as soon as the main thread has ended, even while other threads of
the program still run and use sandboxes; this one works until the process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
MAX_THREADS = 64
_IDLE_S = 10.0

_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class _Workers:
    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._idle = 0
        self._count = 0

    def submit(self, job: _Job) -> None:
        with self._guard:
            is_thread_needed = self._idle <= 0 and self._count < MAX_THREADS
            if is_thread_needed:
                self._count += 1
            else:
                self._idle -= 1  # promised to this job
        self._jobs.put(job)
        if is_thread_needed:
            threading.Thread(target=self._work, name="paddock-worker", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._guard:
                    if self._idle > 0:
                        self._idle -= 1
                        self._count -= 1
                        return
                continue  # a job was promised to us meanwhile
            _carry_out(job)
            with self._guard:
                self._idle += 1


_workers = _Workers()


def _after_fork_in_child() -> None:
    global _workers
    _workers = _Workers()  # the threads of the parent's did not come along


os.register_at_fork(after_in_child=_after_fork_in_child)


async def offload(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function` on a thread and wait for it without blocking the loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    _workers.submit((loop, future, lambda: function(*args, **kwargs)))
    return await future


async def offload_to_the_end(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do what `offload` does, for short work that has to be known to be done: whoever cancels
    the caller meanwhile comes too late, and the caller goes on."""
    work = asyncio.ensure_future(offload(function, *args, **kwargs))
    while True:
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.cancelled():  # the loop ends
                raise


def _carry_out(job: _Job) -> None:
    loop, future, work = job
    try:
        result, error = work(), None
    except BaseException as caught:
        result, error = None, caught
    with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
        loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
