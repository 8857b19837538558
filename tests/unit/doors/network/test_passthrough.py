"""Connections that pass as they are: cut when their terms change, counted however they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paddock.model.steps import Step
from unit.doors.network.doorway import Client, Doorway, doorway, listening

DB = "db.example"


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(4096):
            writer.write(data)
    writer.close()


def _network(port: int, entry: str = f"{DB}:5432/tcp") -> dict[str, Any]:
    return {"allow": [entry], "hosts": {DB: f"127.0.0.1:{port}"}}


async def _talking(way: Doorway) -> Client:
    """A connection on which five bytes have gone there and back."""
    client = await way.dial(DB, 5432)
    await client.send(b"hello")
    async with asyncio.timeout(20):
        assert await client.reader.readexactly(5) == b"hello"
    return client


def _result(step: Step) -> Mapping[str, Any]:
    assert step.settled is not None
    return step.result


def test_a_connection_that_is_open_when_the_door_ends_is_settled_with_its_bytes(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with listening(_echo) as port, doorway(tmp_path, _network(port)) as way:
            await _talking(way)
            await way.door.close()
            (step,) = way.steps("connect")
            result = _result(step)
            assert (result["bytes_out"], result["bytes_in"]) == (5, 5)
            assert result["address"] == "127.0.0.1"

    asyncio.run(play())


def test_a_connection_that_both_sides_end_is_settled_with_its_bytes(tmp_path: Path) -> None:
    async def play() -> None:
        async with listening(_echo) as port, doorway(tmp_path, _network(port)) as way:
            client = await _talking(way)
            client.close()
            (step,) = await way.settled("connect")
            assert (_result(step)["bytes_out"], _result(step)["bytes_in"]) == (5, 5)

    asyncio.run(play())


@pytest.mark.parametrize("change", ["transport", "address", "gone", "mode", "passthrough"])
def test_an_open_connection_is_cut_when_its_terms_change(tmp_path: Path, change: str) -> None:
    async def play() -> None:
        async with (
            listening(_echo) as port,
            listening(_echo) as other,
            doorway(tmp_path, _network(port)) as way,
        ):
            client = await _talking(way)
            words: dict[str, Any] = {
                "transport": _network(port, f"{DB}:5432"),
                "address": _network(other),
                "gone": _network(port, "more.example:80"),
                "mode": {"mode": "none"},
                "passthrough": {**_network(port), "tls": {"passthrough": [DB]}},
            }[change]
            way.update(**words)
            await client.ends()
            (step,) = await way.settled("connect")
            assert (_result(step)["bytes_out"], _result(step)["bytes_in"]) == (5, 5)

    asyncio.run(play())


def test_an_open_connection_lives_on_when_others_change(tmp_path: Path) -> None:
    async def play() -> None:
        async with listening(_echo) as port, doorway(tmp_path, _network(port)) as way:
            client = await _talking(way)
            network = _network(port)
            way.update(**{**network, "allow": [*network["allow"], "more.example:80"]})
            await client.send(b"again")
            async with asyncio.timeout(20):
                assert await client.reader.readexactly(5) == b"again"

    asyncio.run(play())


def test_a_connection_that_is_allowed_raises_no_alert(tmp_path: Path) -> None:
    async def play() -> None:
        async with listening(_echo) as port, doorway(tmp_path, _network(port)) as way:
            client = await _talking(way)
            client.close()
            await way.settled("connect")
            assert way.alerts == []

    asyncio.run(play())


def test_an_allowed_connection_to_a_server_that_is_down_raises_no_alert(tmp_path: Path) -> None:
    async def play() -> None:
        async with listening(_echo) as port:
            pass
        async with doorway(tmp_path, _network(port)) as way:
            client = await way.dial(DB, 5432)
            await client.ends()
            (step,) = await way.settled("connect")
            assert step.settled is not None
            assert step.outcome == "failed"
            assert way.alerts == []

    asyncio.run(play())


def test_a_connection_that_a_rule_blocks_raises_no_alert_of_the_network(tmp_path: Path) -> None:
    rule = {"id": "no", "match": {"kind": "connect"}, "decide": "block"}

    async def play() -> None:
        async with listening(_echo) as port, doorway(tmp_path, _network(port), rule) as way:
            client = await way.dial(DB, 5432)
            await client.ends()
            await way.settled("connect")
            assert (way.deciders("connect"), way.alerts) == (["no"], [])

    asyncio.run(play())


def test_a_connection_to_what_is_not_allowed_raises_one(tmp_path: Path) -> None:
    async def play() -> None:
        async with listening(_echo) as port, doorway(tmp_path, _network(port)) as way:
            client = await way.dial(DB, 5433)
            await client.ends()
            await way.settled("connect")
            assert (way.deciders("connect"), way.alerts) == (["network"], ["egress.denied"])

    asyncio.run(play())
