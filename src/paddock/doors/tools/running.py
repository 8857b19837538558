"""Runs a tool's function wherever the call came from, and gives what came of it as a value.

A plain function runs on a thread of its own when the caller awaits, and on the caller's own thread
when the caller waits. Whatever a function raises is its answer; it does not end the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import itertools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, TypeVar

import msgspec

from paddock.fence.offload import offload

T = TypeVar("T")
MAX_ITEMS = 100_000  # of a generator; one that goes on for ever must not take the host with it


class Ran(msgspec.Struct, frozen=True):
    """The return value of a function, or the exception that it raised."""

    value: Any = None
    error: BaseException | None = None


async def run(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, is_here: bool
) -> Ran:
    """Call the function and wait for all of it: an awaitable result is awaited, and a generator is
    run to its end, so that no effect comes after the call was settled."""
    try:
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            ran = Ran(function(*args, **kwargs))
        elif is_here:
            ran = _attempt(function, args, kwargs)
        else:
            context = contextvars.copy_context()
            ran = await offload(context.run, _attempt, function, args, kwargs)
        return ran if ran.error is not None else Ran(await _completed(ran.value))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Ran(error=error)  # the function's own; nobody cancelled the call
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit: a tool does not end the host
        return Ran(error=error)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from plain code. On the thread of a running loop, which is blocked meanwhile,
    it runs on another thread, so it does not wait for that loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _on_new_loop(work)
    return _beside(work)


def _attempt(function: Callable[..., Any], args: Any, kwargs: Any) -> Ran:
    try:
        value = function(*args, **kwargs)
        return Ran(_items(value) if isinstance(value, Iterator) else value)
    except BaseException as error:
        is_host_stopping = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and is_host_stopping:
            raise
        return Ran(error=error)  # StopIteration, for one, cannot go through a future


def _items(value: Iterator[Any]) -> list[Any]:
    items = list(itertools.islice(value, MAX_ITEMS + 1))
    if isinstance(value, Generator):
        value.close()  # now, not when it is collected: its clean-up may have effects
    return _whole(items)


async def _completed(value: Any) -> Any:
    if inspect.isawaitable(value):
        value = await value
    if not isinstance(value, AsyncIterator):
        return value
    items = []
    async for item in value:
        items.append(item)
        if len(items) > MAX_ITEMS:
            if isinstance(value, AsyncGenerator):
                await value.aclose()
            break
    return _whole(items)


def _whole(items: list[Any]) -> list[Any]:
    if len(items) > MAX_ITEMS:
        raise ValueError(f"the tool gave more than {MAX_ITEMS} items")
    return items


def _on_new_loop(work: Coroutine[Any, Any, T]) -> T:
    # Not asyncio.run: it takes Ctrl-C away from a function that runs on this thread.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        _wind_up(loop)


def _beside(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.new_event_loop()
    task = loop.create_task(work, context=contextvars.copy_context())

    def serve() -> None:
        try:
            with contextlib.suppress(BaseException):  # the task has it
                loop.run_until_complete(task)
        finally:
            _wind_up(loop)

    thread = threading.Thread(target=serve, name="paddock-tool", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended meanwhile
            loop.call_soon_threadsafe(task.cancel)
        raise
    return task.result()


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """End what a function left behind on its loop."""
    left = asyncio.all_tasks(loop)

    async def end() -> None:
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()

    try:
        loop.run_until_complete(end())
    finally:
        loop.close()
