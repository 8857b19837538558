"""Work on threads: what a caller that is cancelled meanwhile gets."""

from __future__ import annotations

import asyncio
import threading

import pytest

from paddock.fence.offload import offload, offload_to_the_end

pytestmark = pytest.mark.anyio


async def test_cancelled_caller_goes_at_once() -> None:
    may_end = threading.Event()
    task = asyncio.create_task(offload(may_end.wait, 30))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_end.set()


async def test_work_that_must_be_known_is_seen_to_its_end() -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def work() -> str:
        has_begun.set()
        assert may_end.wait(30)
        return "done"

    task = asyncio.create_task(offload_to_the_end(work))
    await offload(has_begun.wait, 30)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    assert await task == "done"


async def test_error_of_the_work_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await offload_to_the_end(lambda: 1 / 0)
