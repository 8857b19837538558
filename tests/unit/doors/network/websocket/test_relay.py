"""Messages of a WebSocket, between a client and a server that each speak it with wsproto."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost
from paddock.doors.network.websocket.relay import INSPECTED_BYTES, Counts, relay


class Peer:
    """One end: what it sends, and what it gets."""

    def __init__(self, conn: Conn, kind: ConnectionType) -> None:
        self.conn = conn
        self.ws = Connection(kind)
        self._events: list[Any] = []

    async def send(self, event: Any) -> None:
        await self.conn.write(self.ws.send(event))

    async def get(self) -> Any:
        async with asyncio.timeout(20):
            while not self._events:
                data = await self.conn.read()
                if not data:
                    return None
                self.ws.receive_data(data)
                self._events = list(self.ws.events())
            return self._events.pop(0)

    async def message(self) -> Any:
        """A whole message."""
        whole = await self.get()
        data, event = whole.data, whole
        while not event.message_finished:
            event = await self.get()
            data += event.data
        return data


def hook(function: Callable[[bytes], Any]) -> Callable[[bytes], Awaitable[Any]]:
    """What is asked about a message, as a coroutine."""

    async def asked(data: bytes) -> Any:
        return function(data)

    return asked


Play = Callable[[Peer, Peer], Awaitable[None]]


def played(play: Play, *, idle_s: float = 20.0, **hooks: Any) -> Counts:
    """What a relay counted while both ends did what the play says."""

    async def run() -> Counts:
        (a, b), (c, d) = socket.socketpair(), socket.socketpair()
        client, server = Peer(Conn(a), ConnectionType.CLIENT), Peer(Conn(d), ConnectionType.SERVER)
        sides = Conn(b, idle_s=idle_s), Conn(c, idle_s=idle_s)
        relaying = asyncio.create_task(relay(*sides, **hooks))
        try:
            async with asyncio.timeout(30):
                await play(client, server)
                return await relaying
        finally:
            relaying.cancel()
            assert relaying.cancelled() or all(side.is_closed for side in sides)
            client.conn.close()
            server.conn.close()

    return asyncio.run(run())


async def _bye(one: Peer, other: Peer) -> None:
    await one.send(CloseConnection(1000, "done"))
    heard = await other.get()
    assert (heard.code, heard.reason) == (1000, "done")
    await other.send(heard.response())
    assert (await one.get()).code == 1000


def test_messages_pings_and_the_farewell_go_both_ways() -> None:
    async def play(client: Peer, server: Peer) -> None:
        await client.send(TextMessage("hällo"))
        assert (await server.get()).data == "hällo"
        await server.send(BytesMessage(b"\x00\xff"))
        assert (await client.get()).data == b"\x00\xff"
        await client.send(Ping(b"are you there"))
        ping = await server.get()
        await server.send(ping.response())
        assert await client.get() == Pong(b"are you there")
        await _bye(client, server)

    counts = played(play)
    assert (counts.messages_out, counts.messages_in, counts.closed_by) == (1, 1, "client")


def test_server_can_say_farewell_first() -> None:
    async def play(client: Peer, server: Peer) -> None:
        await _bye(server, client)

    assert played(play).closed_by == "server"


def test_fragment_passes_before_its_message_ends() -> None:
    async def play(client: Peer, server: Peer) -> None:
        await server.send(TextMessage("one ", message_finished=False))
        first = await client.get()
        assert (first.data, first.message_finished) == ("one ", False)
        await server.send(TextMessage("two", message_finished=True))
        last = await client.get()
        assert (last.data, last.message_finished) == ("two", True)
        await _bye(client, server)

    assert played(play).messages_in == 1


def test_ping_passes_between_fragments() -> None:
    async def play(client: Peer, server: Peer) -> None:
        await client.send(TextMessage("a", message_finished=False))
        await client.send(Ping(b"!"))
        await client.send(TextMessage("b"))
        assert [type(await server.get()), type(await server.get())] == [TextMessage, Ping]
        assert (await server.get()).data == "b"
        await _bye(client, server)

    played(play)


def test_refused_message_never_reaches_the_server_and_ends_with_1008() -> None:
    async def play(client: Peer, server: Peer) -> None:
        await client.send(TextMessage("fine"))
        assert (await server.get()).data == "fine"
        await client.send(TextMessage("the sec", message_finished=False))
        await client.send(TextMessage("ret"))
        assert (await client.get()).code == 1008
        assert (await server.get()).code == 1008

    counts = played(play, inspect=hook(lambda data: b"secret" not in data))
    assert counts.closed_by == "policy"


def test_inspection_that_fails_lets_nothing_pass() -> None:
    def broken(data: bytes) -> bool:
        raise ValueError("no idea")

    async def play(client: Peer, server: Peer) -> None:
        await client.send(TextMessage("hello"))
        assert (await server.get()).code == 1011

    assert played(play, inspect=hook(broken)).closed_by == "error"


@pytest.mark.parametrize("at", [-3, 0, 3, 5])
def test_word_across_the_bound_of_a_long_message_is_seen(at: int) -> None:
    """The word lies around the place where the first part of the message is cut."""
    start = INSPECTED_BYTES - 4096 + at
    data = b"." * start + b"secret" + b"." * 100_000

    async def play(client: Peer, server: Peer) -> None:
        got: list[bytes] = []

        async def listen() -> None:
            while isinstance(event := await server.get(), BytesMessage):
                got.append(event.data)

        async def send() -> None:
            await client.send(BytesMessage(data))

        await asyncio.gather(listen(), send(), return_exceptions=True)
        assert b"secret" not in b"".join(got)

    assert played(play, inspect=hook(lambda part: b"secret" not in part)).closed_by == "policy"


@pytest.mark.parametrize("text", ["ä" * INSPECTED_BYTES, "x" + "€" * INSPECTED_BYTES])
def test_long_text_is_scrubbed_and_whole_at_the_other_end(text: str) -> None:
    async def play(client: Peer, server: Peer) -> None:
        sending = asyncio.create_task(server.send(TextMessage(text + "key" + text)))
        got = await client.message()
        await sending
        assert got == text + "***" + text
        await _bye(client, server)

    played(play, scrub=hook(lambda data: data.replace(b"key", b"***")))


def test_frame_that_is_not_masked_ends_both_with_1002() -> None:
    async def play(client: Peer, server: Peer) -> None:
        await client.conn.write(b"\x81\x02hi")
        assert (await client.get()).code == 1002
        assert (await server.get()).code == 1002

    assert played(play).closed_by == "error"


@pytest.mark.parametrize(
    "frame",
    [
        b"\xc1\x80\x00\x00\x00\x00",  # a reserved bit
        b"\x83\x80\x00\x00\x00\x00",  # an unknown opcode
        b"\x80\x80\x00\x00\x00\x00",  # a continuation of nothing
        b"\x89\xfe\x01\x00" + bytes(260),  # a ping that is too long
        b"\x81\x82\x00\x00\x00\x00\xff\xfe",  # text that is not UTF-8
        b"\x88\x82\x00\x00\x00\x00\x03\xee",  # a farewell with a code that is never sent
    ],
)
def test_frame_that_breaks_the_protocol_does_not_pass(frame: bytes) -> None:
    async def play(client: Peer, server: Peer) -> None:
        await client.conn.write(frame)
        assert (await server.get()).code in (1002, 1007)

    assert played(play).closed_by == "error"


def test_end_without_farewell_closes_the_other_side() -> None:
    async def play(client: Peer, server: Peer) -> None:
        server.conn.close()
        assert await client.get() is None

    assert played(play).closed_by == "server"


def test_silent_side_is_waited_for_while_the_other_talks() -> None:
    async def play(client: Peer, server: Peer) -> None:
        for _ in range(8):
            await client.send(TextMessage("still here"))
            assert (await server.get()).data == "still here"
            await asyncio.sleep(0.5)
        await _bye(client, server)

    assert played(play, idle_s=1.0).messages_out == 8


def test_two_silent_sides_are_ended() -> None:
    async def play(client: Peer, server: Peer) -> None:
        assert await client.get() is None

    played(play, idle_s=0.2)


def test_server_that_reads_nothing_holds_the_client_back() -> None:
    async def play(client: Peer, server: Peer) -> None:
        sent = 0
        message = BytesMessage(bytes(1 << 16))
        try:
            while sent < 64 << 20:
                async with asyncio.timeout(0.5):
                    await client.send(message)
                sent += 1 << 16
        except (TimeoutError, ConnLost):
            pass
        assert sent < 8 << 20
        server.conn.close()

    played(play)
