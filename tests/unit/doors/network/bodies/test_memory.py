"""What all bodies of a sandbox hold together is bounded, and none is waited for without end."""

from __future__ import annotations

import asyncio
import json
import threading
import weakref
from pathlib import Path

import pytest

from paddock.doors.network.bodies import memory as held_bodies
from paddock.doors.network.bodies.memory import BodyMemory, BodyRefused
from paddock.doors.network.heavy_work import HeavyWork
from unit.doors.network.doorway import HOST, doorway, origin, staged

POST = f"POST /things HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"


def _error(body: bytes) -> str:
    return str(json.loads(body)["error"]["message"])


def test_what_is_held_is_counted_until_its_request_is_over() -> None:
    bodies = BodyMemory(weakref.WeakSet())
    with bodies.open() as one, bodies.open() as two:
        one.add(30 << 20)
        two.add(34 << 20)
        with pytest.raises(BodyRefused) as caught:
            two.add(1)
        assert caught.value.status == 429
    assert (bodies.size, bodies.requests) == (0, 0)
    with bodies.open() as one:
        one.add(64 << 20)


def test_a_sandbox_has_so_many_requests_under_way_and_no_more() -> None:
    bodies = BodyMemory(weakref.WeakSet())
    open_ones = [bodies.open() for _ in range(held_bodies.MAX_REQUESTS)]
    with pytest.raises(BodyRefused):
        bodies.open()
    open_ones.pop().__exit__(None, None, None)
    bodies.open()


def test_when_the_process_is_full_a_sandbox_that_holds_little_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_bodies, "MAX_OF_PROCESS", 100 << 20)
    peers: weakref.WeakSet[BodyMemory] = weakref.WeakSet()
    first, second, modest = (BodyMemory(peers) for _ in range(3))
    first.open().add(50 << 20)
    second.open().add(50 << 20)
    modest.open().add(10 << 20)
    with pytest.raises(BodyRefused):
        first.open().add(1)


def test_a_body_that_does_not_end_is_answered_and_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_bodies, "BODY_S", 0.1)

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            client = await way.dial()
            await client.send(f'{POST}Content-Length: 100\r\n\r\n{{"a"'.encode())
            told = await client.told()
            assert told.status == 408
            assert "did not come to its end" in _error(told.body)
            assert (server.seen, way.deciders("http")) == ([], ["limits"])
            assert (way.door.context.held.size, way.door.context.held.requests) == (0, 0)

    asyncio.run(play())


def test_bodies_of_one_sandbox_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_bodies, "MAX_OF_SANDBOX", 100_000)

    async def play() -> None:
        async with origin() as server, doorway(tmp_path, staged(server)) as way:
            slow = await way.dial()
            await slow.send(f"{POST}Content-Length: 90001\r\n\r\n[".encode() + b" " * 89_000)
            held = way.door.context.held
            async with asyncio.timeout(10):
                while held.size < 89_001:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0)
            refused = await way.ask("POST /\nContent-Type: application/json", b" " * 20_000)
            assert refused.status == 429
            assert "request bodies open" in _error(refused.body)
            assert way.deciders("http") == ["limits"]
            await slow.send(b" " * 999 + b"]")
            assert (await slow.told()).status == 200
            assert held.size == 0

    asyncio.run(play())


def test_a_sandbox_has_one_heavy_job_at_a_time_though_its_caller_gave_up() -> None:
    started, may_end = threading.Event(), threading.Event()
    running: list[str] = []

    def job(name: str) -> None:
        running.append(name)
        started.set()
        assert may_end.wait(10)

    async def play() -> None:
        work = HeavyWork()
        first = asyncio.ensure_future(work.run(job, "first"))
        assert await asyncio.to_thread(started.wait, 10)
        second = asyncio.ensure_future(work.run(job, "second"))
        first.cancel()
        await asyncio.sleep(0.05)
        assert running == ["first"]
        may_end.set()
        await asyncio.gather(first, second, return_exceptions=True)
        assert running == ["first", "second"]

    asyncio.run(play())
