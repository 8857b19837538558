"""The frames of a WebSocket: written down as they are passed on, read back, and given again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from paddock.doors.network.bodies.capture import Room
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.websocket.frames import Frame, FrameLog, read_frames
from paddock.doors.network.websocket.replay import accept_of, replay_frames
from paddock.gate.recorded_answers import RecordedOutcome, ReplayDiverged
from paddock.journal.plain_values import StoredBytes
from paddock.model.action import Decision, Effect, Outcome, Verdict

DECISION = Decision(Verdict.ALLOW, "default", "fine", Effect.WRITE)
LOG = [
    Frame("client", "text", b"hel", is_last=False),
    Frame("server", "ping", b"p"),
    Frame("client", "text", "lö".encode()),
    Frame("server", "text", b"hi"),
    Frame("client", "binary", b"\x00\xff"),
    Frame("server", "binary", b"\xff", n=7),
    Frame("client", "close", b"done", code=1000),
    Frame("server", "close", b"done", code=1000),
]
Play = Callable[[Connection, Conn], Awaitable[None]]


def test_frames_are_read_back_however_the_log_is_cut() -> None:
    raw = b"".join(frame.line() for frame in LOG)
    for size in (1, 7, 1000):
        parts = [raw[at : at + size] for at in range(0, len(raw), size)]
        assert list(read_frames(parts)) == LOG
    with pytest.raises(ValueError):
        list(read_frames([raw[:-3]]))
    with pytest.raises(ValueError):
        list(read_frames([b"[]\n"]))


def test_the_answer_to_a_key_is_that_of_the_rfc() -> None:
    assert accept_of(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def _diverged(at: str | None, recorded: Any, came: Any) -> ReplayDiverged:
    return ReplayDiverged(f"{at}: {recorded} / {came}")


def _store(data: bytes) -> StoredBytes:
    raise AssertionError("so little is kept in the record itself")


def replayed(play: Play, log: list[Frame], ended_by: str = "client") -> list[Frame]:
    """What is logged while a client plays against a log."""
    outcome = RecordedOutcome("run", 2, DECISION, Outcome.DONE, diverged=_diverged, wait_s=20.0)

    async def run() -> list[Frame]:
        (a, b), frames = socket.socketpair(), iter(log)
        own = FrameLog(Room(), lambda: 3, _store)

        async def following() -> Frame | None:
            return next(frames, None)

        client = Conn(a)
        playing = asyncio.create_task(play(Connection(ConnectionType.CLIENT), client))
        conn = Conn(b)
        try:
            async with asyncio.timeout(30):
                await replay_frames(conn, following, outcome, own, ended_by)
                conn.close()
                await playing
        finally:
            playing.cancel()
            conn.close()
            client.close()
        record = await own.record(str)
        return list(read_frames([str(record["body"]).encode()]))

    return asyncio.run(run())


async def _next(ws: Connection, conn: Conn) -> Any:
    while not (events := list(ws.events())):
        ws.receive_data(await conn.read())
    return events[0]


def _talk(text: str = "hellö", code: int = 1000) -> Play:
    async def play(ws: Connection, conn: Conn) -> None:
        await conn.write(ws.send(Ping(b"by the clock")))
        assert (await _next(ws, conn)).payload == b"by the clock"
        await conn.write(ws.send(TextMessage(text)))
        assert (await _next(ws, conn)).data == "hi"
        await conn.write(ws.send(BytesMessage(b"\x00\xff")))
        assert (await _next(ws, conn)).data == b"\xff"
        await conn.write(ws.send(CloseConnection(code, "done")))
        assert (await _next(ws, conn)).code == 1000

    return play


def test_a_client_that_says_the_same_hears_the_same() -> None:
    logged = replayed(_talk(), LOG)
    assert [(one.by, one.kind, one.data) for one in logged] == [
        (one.by, one.kind, one.data) for one in LOG
    ]
    assert {one.n for one in logged} == {3}  # the positions of the journal that it is logged in


@pytest.mark.parametrize(
    ("play", "said"),
    [(_talk("other"), "websocket message 1: hellö / other"),
     (_talk(code=1001), "websocket message 3: close 1000 / close 1001")],
)  # fmt: skip
def test_a_client_that_says_something_else_leaves_the_record(play: Play, said: str) -> None:
    with pytest.raises(ReplayDiverged, match=said):
        replayed(play, LOG)


def test_a_client_that_says_more_or_less_leaves_the_record() -> None:
    with pytest.raises(ReplayDiverged, match="nothing more / more"):
        replayed(_more, LOG[3:4])
    with pytest.raises(ReplayDiverged, match="the connection ended"):
        replayed(_silent, LOG[:3])


def test_a_server_that_left_without_a_farewell_does_so_again() -> None:
    async def play(ws: Connection, conn: Conn) -> None:
        assert (await _next(ws, conn)).data == "hi"
        assert await conn.read() == b""

    assert len(replayed(play, LOG[3:4], "server")) == 1


async def _more(ws: Connection, conn: Conn) -> None:
    assert (await _next(ws, conn)).data == "hi"
    await conn.write(ws.send(TextMessage("more")))
    await asyncio.sleep(60)


async def _silent(ws: Connection, conn: Conn) -> None:
    conn.close()
