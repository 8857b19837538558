"""Clients that do not wait: who has gone is noticed while the server is slow, and only that."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import pytest

from paddock.doors.network.layers.pacer import Pacer
from unit.doors.network.doorway import HOST, WAIT_S, Client, Doorway, doorway, listening, written


class _Slow:
    """Says something of an answer, and the rest when it is let."""

    def __init__(self, start: bytes = b"") -> None:
        self.was_asked = asyncio.Event()
        self.was_left = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self._start = start

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._start)
        self.was_asked.set()
        asyncio.get_running_loop().create_task(self._go_on(writer))
        with contextlib.suppress(OSError):
            while await reader.read(1024):
                pass
        self.was_left.set()

    async def _go_on(self, writer: asyncio.StreamWriter) -> None:
        await self.may_go_on.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@contextlib.asynccontextmanager
async def door_to(directory: Path, slow: _Slow) -> AsyncIterator[Doorway]:
    async with listening(slow.serve) as port, asyncio.timeout(WAIT_S):
        network = {"allow": [f"{HOST}:80"], "hosts": {HOST: f"127.0.0.1:{port}"}}
        async with doorway(directory, network) as way:
            way.door.context.pacer = Pacer(os.getpid())
            yield way
            slow.may_go_on.set()


async def _result(way: Doorway) -> Mapping[str, Any]:
    (step,) = await way.settled("http")
    assert step.outcome == "failed"
    return step.result


async def _leave_http1(client: Client, slow: _Slow) -> None:
    await client.send(written("GET /a"))
    await slow.was_asked.wait()
    client.close()


async def _leave_http2(client: Client, slow: _Slow) -> None:
    conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    conn.initiate_connection()
    fields = [(":method", "GET"), (":scheme", "http"), (":authority", HOST), (":path", "/a")]
    conn.send_headers(1, fields, end_stream=True)
    await client.send(conn.data_to_send())
    await slow.was_asked.wait()
    conn.reset_stream(1, 8)
    await client.send(conn.data_to_send())


@pytest.mark.parametrize("leave", [_leave_http1, _leave_http2])
def test_who_leaves_before_the_answer_is_noticed_while_the_server_is_slow(
    tmp_path: Path, leave: Any
) -> None:
    async def play() -> None:
        slow = _Slow()
        async with door_to(tmp_path, slow) as way:
            await leave(await way.dial(), slow)
            assert await _result(way) == {"bytes": 0, "left": True}
            if leave is _leave_http1:  # others may share a connection of HTTP/2
                await slow.was_left.wait()

    asyncio.run(play())


def test_who_leaves_in_the_middle_of_an_answer_is_noticed_with_what_it_had(tmp_path: Path) -> None:
    async def play() -> None:
        slow = _Slow(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        async with door_to(tmp_path, slow) as way:
            client = await way.dial()
            await client.send(written("GET /a"))
            await client.reader.readuntil(b"half")
            client.close()
            result = await _result(way)
            assert (result["status"], result["body"], result["left"]) == (200, "half", True)

    asyncio.run(play())


def test_who_will_write_no_more_is_not_gone(tmp_path: Path) -> None:
    async def play() -> None:
        slow = _Slow()
        async with door_to(tmp_path, slow) as way:
            client = await way.dial()
            await client.send(written("GET /a"))
            client.writer.write_eof()
            await slow.was_asked.wait()
            await asyncio.sleep(0.4)  # it is looked for meanwhile
            assert not slow.was_left.is_set()
            slow.may_go_on.set()
            assert (await client.told()).body == b"ok"

    asyncio.run(play())
