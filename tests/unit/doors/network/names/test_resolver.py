"""Lookups: shared, remembered for a moment, and bounded when name servers hang."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from paddock.doors.network.names import resolver as lookups
from paddock.doors.network.names.resolver import Busy, Lookups, ask_host

LIMIT_S = 20.0


class Resolver:
    """Answers when it is let go, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.now = self.most = 0
        self.let_go = asyncio.Event()

    async def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.let_go.wait()
        finally:
            self.now -= 1
        return ["1.1.1.1"]


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await work

    return asyncio.run(bounded())


def test_callers_at_the_same_time_share_one_lookup() -> None:
    async def scene() -> None:
        resolver = Resolver()
        found = Lookups(resolver)
        callers = [asyncio.create_task(found.addresses_of("a.example")) for _ in range(20)]
        await asyncio.sleep(0)
        resolver.let_go.set()
        assert set(await asyncio.gather(*callers)) == {("1.1.1.1",)}
        assert resolver.asked == ["a.example"]

    run(scene())


def test_an_answer_is_remembered_until_its_time_is_over() -> None:
    async def scene() -> None:
        now = 0.0
        resolver = Resolver()
        resolver.let_go.set()
        found = Lookups(resolver, clock=lambda: now)
        await found.addresses_of("a.example")
        now = lookups.CACHE_S - 1
        await found.addresses_of("a.example")
        assert len(resolver.asked) == 1
        now = lookups.CACHE_S
        await found.addresses_of("a.example")
        assert len(resolver.asked) == 2

    run(scene())


def test_what_is_remembered_is_bounded() -> None:
    async def scene() -> None:
        resolver = Resolver()
        resolver.let_go.set()
        found = Lookups(resolver)
        for number in range(lookups.MAX_CACHED + 20):
            await found.addresses_of(f"n{number}.example")
        assert len(found._found) == lookups.MAX_CACHED

    run(scene())


def test_a_failure_is_not_remembered() -> None:
    async def scene() -> None:
        answered = iter([OSError("later"), ["1.1.1.1"]])

        async def resolve(name: str) -> list[str]:
            answer = next(answered)
            if isinstance(answer, OSError):
                raise answer
            return answer

        found = Lookups(resolve)
        with pytest.raises(OSError):
            await found.addresses_of("a.example")
        assert await found.addresses_of("a.example") == ("1.1.1.1",)

    run(scene())


def test_of_many_addresses_only_some_are_taken() -> None:
    async def many(name: str) -> list[str]:
        return [f"1.1.{number >> 8}.{number & 255}" for number in range(4000)]

    assert len(run(Lookups(many).addresses_of("a.example"))) == lookups.MAX_ADDRESSES


def test_a_lookup_that_hangs_is_given_up_and_goes_on_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookups, "LOOKUP_S", 0.05)

    async def scene() -> None:
        resolver = Resolver()
        found = Lookups(resolver)
        with pytest.raises(TimeoutError):
            await found.addresses_of("a.example")
        assert resolver.now == 1
        resolver.let_go.set()
        assert await found.addresses_of("a.example") == ("1.1.1.1",)
        assert resolver.asked == ["a.example"]

    run(scene())


def test_lookups_at_once_and_waiting_are_bounded() -> None:
    async def scene() -> None:
        resolver = Resolver()
        found = Lookups(resolver)
        names = [f"n{number}.example" for number in range(lookups.MAX_UNDER_WAY)]
        callers = [asyncio.create_task(found.addresses_of(name)) for name in names]
        await asyncio.sleep(0.01)
        assert resolver.now == lookups.MAX_AT_ONCE
        with pytest.raises(Busy):
            await found.addresses_of("one-more.example")
        resolver.let_go.set()
        assert len(await asyncio.gather(*callers)) == lookups.MAX_UNDER_WAY
        assert resolver.most == lookups.MAX_AT_ONCE

    run(scene())


def test_threads_that_hang_are_bounded_over_all_sandboxes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    let_go = threading.Event()

    def hangs(*_: Any, **__: Any) -> list[Any]:
        assert let_go.wait(LIMIT_S)
        return [(2, 1, 6, "", ("1.1.1.1", 0))]

    monkeypatch.setattr(lookups.socket, "getaddrinfo", hangs)

    async def scene() -> None:
        callers = [asyncio.create_task(ask_host("a.example")) for _ in range(lookups.MAX_THREADS)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await ask_host("b.example")
        let_go.set()
        assert await asyncio.gather(*callers) == [["1.1.1.1"]] * lookups.MAX_THREADS
        assert await ask_host("b.example") == ["1.1.1.1"]

    run(scene())


def test_the_hosts_own_names_are_found() -> None:
    found = run(ask_host("localhost"))
    assert set(found) <= {"127.0.0.1", "::1"} and found


def test_a_zone_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    address = ("fe80::1", 0, 0, 3)
    monkeypatch.setattr(lookups.socket, "getaddrinfo", lambda *_, **__: [(10, 1, 6, "", address)])
    assert run(ask_host("a.example")) == ["fe80::1%3"]
