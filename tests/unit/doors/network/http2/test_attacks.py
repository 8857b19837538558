"""HTTP/2 clients that mean harm: each is stopped, and costs no more than its limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import h2.events
import h2.exceptions
import h2.settings
import h2.utilities
import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.exchange import BadMessage, Headers, HttpExchange
from paddock.doors.network.http2 import server as http2
from paddock.doors.network.http2.client import CONNECTION_WINDOW
from paddock.doors.network.http2.heads import read_request
from paddock.doors.network.http2.meter import PREFACE, FrameMeter
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost
from unit.doors.network.http2_peers import GET, WAIT_S, RawClient, relay_to, serving, until

POST = [(b":method", b"POST"), *GET[1:]]
CALM = 11


async def ok(exchange: HttpExchange) -> None:
    while await exchange.request.body.read():
        pass
    await exchange.begin(200, [])
    await exchange.finish()


async def never(exchange: HttpExchange) -> None:
    await asyncio.sleep(WAIT_S)


def attack(
    talk: Callable[[RawClient], Awaitable[Any]],
    handler: Callable[[HttpExchange], Awaitable[None]] = ok,
    **more: Any,
) -> Any:
    async def run() -> Any:
        async with serving(handler, **more) as port, asyncio.timeout(60):
            client = await RawClient.dial(port)
            try:
                return await talk(client)
            finally:
                client.close()

    return asyncio.run(run())


def replaced(name: bytes, value: bytes) -> Headers:
    return [(key, value if key == name else old) for key, old in GET]


BAD_HEADS: dict[str, Headers] = {
    "no method": GET[1:],
    "no authority": [GET[0], GET[1], GET[3]],
    "no authority but a host": [GET[0], GET[1], GET[3], (b"host", b"svc.example")],
    "no path": GET[:3],
    "no scheme": [GET[0], *GET[2:]],
    "two methods": [*GET, (b":method", b"GET")],
    "two authorities": [*GET, (b":authority", b"svc.example")],
    "two paths": [*GET, (b":path", b"/admin")],
    "an unknown pseudo header": [*GET, (b":unknown", b"1")],
    "a status": [*GET, (b":status", b"200")],
    "a pseudo header last": [GET[0], GET[1], GET[3], (b"a", b"b"), GET[2]],
    "another scheme": replaced(b":scheme", b"https"),
    "a scheme that lies": replaced(b":scheme", b"http://evil.example/?"),
    "userinfo": replaced(b":authority", b"user@svc.example"),
    "an authority with a path": replaced(b":authority", b"svc.example/x"),
    "an authority with a space": replaced(b":authority", b"svc.example x"),
    "an empty authority": replaced(b":authority", b""),
    "an empty path": replaced(b":path", b""),
    "a path without a slash": replaced(b":path", b"admin"),
    "an absolute path": replaced(b":path", b"http://evil.example/"),
    "a star for a GET": replaced(b":path", b"*"),
    "a fragment": replaced(b":path", b"/a#b"),
    "a path with a space": replaced(b":path", b"/a HTTP/1.1"),
    "a path with a line": replaced(b":path", b"/a\r\nx: y"),
    "a path beyond ASCII": replaced(b":path", "/ä".encode()),
    "a method with a line": replaced(b":method", b"GET / HTTP/1.1\r\nx"),
    "an empty method": replaced(b":method", b""),
    "another host": [*GET, (b"host", b"evil.example")],
    "two hosts": [*GET, (b"host", b"svc.example"), (b"host", b"svc.example")],
    "connection": [*GET, (b"connection", b"keep-alive")],
    "transfer-encoding": [*GET, (b"transfer-encoding", b"chunked")],
    "upgrade": [*GET, (b"upgrade", b"websocket")],
    "keep-alive": [*GET, (b"keep-alive", b"1")],
    "proxy-connection": [*GET, (b"proxy-connection", b"1")],
    "te": [*GET, (b"te", b"gzip")],
    "upper case": [*GET, (b"X-A", b"b")],
    "an empty name": [*GET, (b"", b"b")],
    "a name with a space": [*GET, (b"x y", b"b")],
    "a name with a colon": [*GET, (b"x:y", b"b")],
    "a name with a line": [*GET, (b"x\r\ny", b"b")],
    "a value with LF": [*GET, (b"x", b"a\nb")],
    "a value with CR": [*GET, (b"x", b"a\rb")],
    "a value with NUL": [*GET, (b"x", b"a\x00b")],
    "a value with a space first": [*GET, (b"x", b" a")],
    "a length without a body": [*GET, (b"content-length", b"5")],
    "too many headers": [*GET, *((b"x-%d" % n, b"") for n in range(250))],
}


@for_each("what", BAD_HEADS)
def test_bad_head_ends_its_stream_and_the_others_live(what: str) -> None:
    seen: list[Any] = []
    faults: list[BadMessage] = []

    async def look(exchange: HttpExchange) -> None:
        seen.append(exchange.request)
        await ok(exchange)

    async def talk(client: RawClient) -> None:
        status, _ = await client.answer(await client.ask(BAD_HEADS[what]))
        assert status == (431 if what == "too many headers" else 400)
        assert not seen and len(faults) == 1
        assert (await client.answer(await client.ask(GET)))[0] == 200

    attack(talk, look, faulted=faults.append)


@pytest.mark.parametrize(
    "head",
    [
        [(b":method", b"CONNECT"), (b":authority", b"svc.example:22")],
        [(b":method", b"CONNECT"), *GET[1:], (b":protocol", b"websocket")],
    ],
)
def test_connect_is_refused(head: Headers) -> None:
    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(head, is_end=False)
        assert (await client.answer(stream_id))[0] == 501
        await client.until(h2.events.StreamReset, stream_id)
        assert (await client.answer(await client.ask(GET)))[0] == 200

    attack(talk)


@for_each("length", [b"3", b"9", b"+4", b"4, 4", b"-1", b"0x4", b"9" * 30])
@for_each("has_trailers", [True, False])
def test_body_of_another_length_than_announced_is_never_whole(
    length: bytes, has_trailers: bool
) -> None:
    seen = []

    async def look(exchange: HttpExchange) -> None:
        while await exchange.request.body.read():
            pass
        seen.append("whole")

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask([*POST, (b"content-length", length)], is_end=False)
        client.h2.send_data(stream_id, b"body", end_stream=not has_trailers)
        if has_trailers:
            client.h2.send_headers(stream_id, [(b"end", b"1")], end_stream=True)
        await client.flush()
        with contextlib.suppress(ConnectionError):
            await client.until((h2.events.StreamReset, h2.events.StreamEnded), stream_id)
        assert not seen

    attack(talk, look)


@pytest.mark.parametrize(
    "trailers", [[(b":path", b"/x")], [(b"x", b"a\r\nb")], [(b"transfer-encoding", b"chunked")]]
)
def test_bad_trailers_are_no_end(trailers: Headers) -> None:
    seen = []

    async def look(exchange: HttpExchange) -> None:
        while await exchange.request.body.read():
            pass
        seen.append(exchange.request.method)
        await exchange.begin(200, [])
        await exchange.finish()

    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(POST, is_end=False)
        client.h2.send_headers(stream_id, trailers, end_stream=True)
        await client.flush()
        await client.until(h2.events.StreamReset, stream_id)
        assert (await client.answer(await client.ask(GET)))[0] == 200
        assert seen == ["GET"]

    attack(talk, look)


_bytes = st.binary(max_size=12)
_names = st.one_of(
    _bytes,
    st.sampled_from([b":method", b":path", b":scheme", b":authority", b":protocol", b":status"]),
    st.sampled_from([b"host", b"te", b"connection", b"x-a", b"upgrade", b"X-B"]),
)
_values = st.one_of(
    _bytes, st.sampled_from([b"GET", b"CONNECT", b"/", b"http", b"svc.example", b"trailers"])
)


@given(
    st.lists(st.tuples(_names, _values), max_size=4),
    st.lists(st.tuples(_names, _values), max_size=4),
)
def test_what_the_library_refuses_is_refused_here(first: Headers, last: Headers) -> None:
    headers = [*first, *GET, *last]
    flags = h2.utilities.HeaderValidationFlags(False, False, False, False)
    try:
        list(h2.utilities.validate_headers(headers, flags))
    except (h2.exceptions.ProtocolError, IndexError):
        with pytest.raises(BadMessage):
            read_request(headers, "http")


def _settings_flood() -> bytes:
    return SettingsFrame(0, settings={3: 100}).serialize() * 1100


def _settings(first: int, count: int) -> bytes:
    """By hand: the library for frames cuts unknown numbers to a byte."""
    body = b"".join(struct.pack(">HI", first + n, 1) for n in range(count))
    return len(body).to_bytes(3, "big") + b"\x04\x00\x00\x00\x00\x00" + body


def _unknown_settings_flood() -> bytes:
    return b"".join(_settings(1000 + 32 * n, 32) for n in range(20))


def _many_settings() -> bytes:
    return _settings(1000, 2000)


def _priority_flood() -> bytes:
    return PriorityFrame(1, depends_on=3, stream_weight=1).serialize() * 1100


def _continuation_flood() -> bytes:
    block = Encoder().encode(GET)
    head = HeadersFrame(1, data=block).serialize()
    return head + ContinuationFrame(1, data=b"").serialize() * 200


def _continuations_without_end() -> bytes:
    head = HeadersFrame(1, data=Encoder().encode(GET)).serialize()
    return head + ContinuationFrame(1, data=bytes(16384)).serialize() * 10


def _compressed_bomb() -> bytes:
    """One large header in the table, then references to it: little on the wire, much in memory."""
    encoder = Encoder()
    block = (
        encoder.encode([*GET, (b"x", b"y" * 3900)]) + encoder.encode([(b"x", b"y" * 3900)]) * 5000
    )
    return HeadersFrame(1, data=block, flags=["END_HEADERS", "END_STREAM"]).serialize()


FLOODS: dict[str, Callable[[], bytes]] = {
    "ping": lambda: PingFrame(0, opaque_data=b"12345678").serialize() * 1100,
    "settings": _settings_flood,
    "unknown settings": _unknown_settings_flood,
    "many settings": _many_settings,
    "priority": _priority_flood,
    "window updates": lambda: WindowUpdateFrame(0, window_increment=1).serialize() * 1100,
    "unknown frames": lambda: b"\x00\x00\x00\x77\x00\x00\x00\x00\x00" * 1100,
    "resets of nothing": lambda: RstStreamFrame(1, error_code=8).serialize() * 1100,
    "continuations": _continuation_flood,
    "continuations without end": _continuations_without_end,
    "a compressed bomb": _compressed_bomb,
    "a frame of 16 MiB": lambda: b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
}


@for_each("what", FLOODS)
def test_flood_ends_the_connection(what: str) -> None:
    async def talk(client: RawClient) -> None:
        await client.send_bytes(FLOODS[what]())
        goodbye = await client.gone()
        assert goodbye is None or goodbye.error_code != 0

    attack(talk)


def test_empty_data_frames_end_the_connection() -> None:
    async def talk(client: RawClient) -> None:
        await client.ask(POST, is_end=False)
        await client.send_bytes(DataFrame(1).serialize() * 1100)
        goodbye = await client.gone()
        assert goodbye.error_code == CALM

    attack(talk)


def test_pings_that_go_with_traffic_are_no_flood() -> None:
    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(POST, is_end=False)
        ping = PingFrame(0, opaque_data=b"12345678").serialize()
        for _ in range(1500):
            client.h2.send_data(stream_id, b"x")
            await client.send_bytes(ping)
        client.h2.send_data(stream_id, b"", end_stream=True)
        await client.flush()
        assert (await client.answer(stream_id))[0] == 200

    attack(talk)


def test_rapid_resets_end_the_connection() -> None:
    async def talk(client: RawClient) -> None:
        encoder = client.h2.encoder
        for number in range(300):
            stream_id = 2 * number + 1
            head = HeadersFrame(stream_id, data=encoder.encode(GET))
            head.flags |= {"END_HEADERS", "END_STREAM"}
            await client.send_frame(head, RstStreamFrame(stream_id, error_code=8))
        goodbye = await client.gone()
        assert goodbye is None or goodbye.error_code == CALM

    attack(talk, never)


def test_streams_that_the_client_makes_us_reset_end_the_connection() -> None:
    async def talk(client: RawClient) -> None:
        for _ in range(300):
            with contextlib.suppress(ConnectionError):
                await client.ask(BAD_HEADS["upper case"], is_end=False)
                client.h2.reset_stream(client.h2.highest_outbound_stream_id, 8)
        goodbye = await client.gone()
        assert goodbye is None or goodbye.error_code == CALM

    attack(talk, never)


def test_bad_head_that_is_reset_at_once_harms_no_other_stream() -> None:
    async def talk(client: RawClient) -> None:
        stream_id = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream_id, BAD_HEADS["upper case"])
        client.h2.reset_stream(stream_id, 8)
        assert (await client.answer(await client.ask(GET)))[0] == 200

    attack(talk)


def test_stream_that_is_reset_before_it_began_is_not_counted_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http2, "MAX_STREAMS", 4)

    async def talk(client: RawClient) -> None:
        for _ in range(50):
            stream_id = client.h2.get_next_available_stream_id()
            client.h2.send_headers(stream_id, GET, end_stream=True)
            client.h2.reset_stream(stream_id, 8)
            await client.flush()
            await asyncio.sleep(0.005)
        assert (await client.answer(await client.ask(GET)))[0] == 200

    attack(talk)


def test_more_streams_than_agreed_on_are_not_begun() -> None:
    begun = 0

    async def count(exchange: HttpExchange) -> None:
        nonlocal begun
        begun += 1
        await never(exchange)

    async def talk(client: RawClient) -> None:
        for number in range(300):
            head = HeadersFrame(2 * number + 1, data=client.h2.encoder.encode(GET))
            head.flags |= {"END_HEADERS", "END_STREAM"}
            await client.send_frame(head)
        await client.gone()
        assert begun <= 128

    attack(talk, count)


@for_each(
    "said",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" + bytes(100),
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        PREFACE + b"\xff" * 100,
        PREFACE + DataFrame(1, data=b"x").serialize(),
        PREFACE + HeadersFrame(2, data=b"", flags=["END_HEADERS"]).serialize(),
        PREFACE + HeadersFrame(1, data=b"\xff" * 50, flags=["END_HEADERS"]).serialize(),
        PREFACE + ContinuationFrame(1, data=b"").serialize(),
        PREFACE + b"\x00\x00\x05\x04\x00\x00\x00\x00\x00" + bytes(5),
        PREFACE + b"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + bytes(4),
        PREFACE + b"\x00\x00\x01\x07\x00\x00\x00\x00\x00" + bytes(1),
        PREFACE + GoAwayFrame(0).serialize().replace(b"\x00" * 4, b"\x00\x00\x00\x01", 1),
        PREFACE + b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + struct.pack(">HI", 4, 2**31),
        PREFACE + SettingsFrame(0, settings={5: 2**14}).serialize() * 2 + b"\x01",
    ],
    ids=range(13),
)
def test_what_is_no_http2_ends_the_connection_and_nothing_else(said: bytes) -> None:
    async def run() -> None:
        async with serving(ok, idle_s=1.0) as port, asyncio.timeout(60):
            client = await RawClient.dial(port, is_greeting=False)
            other = await RawClient.dial(port)
            await client.send_bytes(said)
            with contextlib.suppress(h2.exceptions.ProtocolError):
                client.h2.initiate_connection()
                await client.gone()
            assert (await other.answer(await other.ask(GET)))[0] == 200
            other.close()
            client.close()

    asyncio.run(run())


@given(
    st.lists(
        st.tuples(
            st.integers(0, 12), st.integers(0, 255), st.integers(0, 5), st.binary(max_size=60)
        ),
        max_size=8,
    )
)
def test_frames_of_any_content_never_break_the_server(
    frames: list[tuple[int, int, int, bytes]],
) -> None:
    said = PREFACE + b"".join(
        len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + body
        for kind, flags, stream_id, body in frames
    )

    async def run() -> None:
        ours, theirs = socket.socketpair()
        serve = asyncio.create_task(http2.serve(Conn(ours, idle_s=5.0), ok, scheme="http"))
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(serve, WAIT_S)
        theirs.close()

    asyncio.run(run())


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(0, 3))
def test_meter_passes_the_same_bytes_however_they_are_cut(cuts: list[int], leaves: int) -> None:
    goodbye = GoAwayFrame(0, last_stream_id=7, additional_data=b"later").serialize()
    frames = [
        DataFrame(1, data=b"x" * 30).serialize(),
        PingFrame(0, opaque_data=b"12345678").serialize(),
        DataFrame(3, data=b"", flags=["END_STREAM"]).serialize(),
    ]
    whole = goodbye.join([*frames, b""][: leaves + 1]) if leaves else b"".join(frames)

    async def run() -> None:
        meter = FrameMeter(is_server=False)
        passed, at = b"", 0
        for cut in [*cuts, len(whole)]:
            passed += meter.feed(whole[at : at + cut])
            at += cut
        assert passed == whole.replace(goodbye, b"")
        assert meter.last_stream_id == (7 if goodbye in whole else None)

    asyncio.run(run())


def test_client_that_sends_without_reading_is_not_read_for_ever() -> None:
    """Each frame on a closed stream is answered; who does not read the answers is stopped."""

    async def run() -> int:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        conn = Conn(ours, idle_s=1.0)
        serve = asyncio.create_task(http2.serve(conn, ok, scheme="http"))
        head = HeadersFrame(1, data=Encoder().encode(GET), flags=["END_HEADERS", "END_STREAM"])
        noise = DataFrame(1, data=b"x").serialize() * 1000
        sent = 0
        with contextlib.suppress(OSError, TimeoutError):
            await loop.sock_sendall(theirs, PREFACE + head.serialize())
            async with asyncio.timeout(WAIT_S):
                while not serve.done():
                    await loop.sock_sendall(theirs, noise)
                    sent += len(noise)
        await asyncio.wait_for(serve, WAIT_S)
        theirs.close()
        return sent

    assert asyncio.run(run()) < 16 << 20


def test_upload_that_no_handler_reads_stops_at_its_window() -> None:
    async def talk(client: RawClient) -> None:
        stream_id = await client.ask(POST, is_end=False)
        await client.until(h2.events.RemoteSettingsChanged)
        await client.until(h2.events.WindowUpdated)
        while (room := client.h2.local_flow_control_window(stream_id)) > 0:
            client.h2.send_data(stream_id, bytes(min(room, 16384)))
            await client.flush()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.until(h2.events.WindowUpdated), 0.3)
        assert (await client.answer(await client.ask([*GET[:3], (b":path", b"/x")])))[0] == 200

    async def only_others(exchange: HttpExchange) -> None:
        await (ok if exchange.request.target == "/x" else never)(exchange)

    attack(talk, only_others)


def test_upload_in_tiny_parts_costs_no_more_than_it_weighs() -> None:
    async def talk(client: RawClient) -> int:
        stream_id = await client.ask(POST, is_end=False)
        await client.until(h2.events.RemoteSettingsChanged)
        frames = DataFrame(stream_id, data=b"xy").serialize() * 1000
        tracemalloc.start()
        try:
            for _ in range(20):
                await client.send_bytes(frames)
            await asyncio.sleep(0.2)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert attack(talk, never) < 512 << 10


def test_reader_that_takes_nothing_is_cut_off_and_the_others_live() -> None:
    caught: list[str] = []

    async def much(exchange: HttpExchange) -> None:
        if exchange.request.target == "/x":
            return await ok(exchange)
        await exchange.begin(200, [])
        try:
            await exchange.send(bytes(1 << 20))
        except ConnLost as error:
            caught.append(str(error))

    async def talk(client: RawClient) -> None:
        client.h2.acknowledge_received_data = lambda *_: None  # type: ignore[method-assign]
        client.h2.increment_flow_control_window(1 << 20)
        stream_id = await client.ask(GET)
        reset = await client.until(h2.events.StreamReset, stream_id)
        assert reset.error_code == 8
        assert (await client.answer(await client.ask([*GET[:3], (b":path", b"/x")])))[0] == 200

    attack(talk, much, idle_s=0.3)
    assert caught == ["nothing was taken for 0.3 s"]


def test_hundred_answers_that_nobody_takes_hold_no_more_than_their_windows() -> None:
    sent = 0

    async def endless(exchange: HttpExchange) -> None:
        nonlocal sent
        await exchange.begin(200, [])
        for _ in range(160):
            await exchange.send(bytes(65536))
            sent += 65536

    async def run() -> None:
        async with serving(endless) as far, relay_to(far) as port, asyncio.timeout(60):
            client = await RawClient.dial(port)
            for _ in range(100):
                await client.ask(GET)
            await until(lambda: sent > CONNECTION_WINDOW // 2)
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.5)
            client.close()

    asyncio.run(run())
    in_hand = 100 * 65536
    assert sent <= CONNECTION_WINDOW + in_hand + (1 << 20)


def test_table_of_headers_stays_small_whatever_the_client_asks_for() -> None:
    count = 0

    async def various(exchange: HttpExchange) -> None:
        nonlocal count
        count += 1
        headers = [(b"x-%d-%d" % (count, n), os.urandom(40).hex().encode()) for n in range(50)]
        await exchange.begin(200, headers)
        await exchange.finish()

    async def talk(client: RawClient) -> int:
        size = h2.settings.SettingCodes.HEADER_TABLE_SIZE
        client.h2.update_settings({size: 1 << 30})
        await client.flush()
        await client.until(h2.events.SettingsAcknowledged)
        for _ in range(100):
            await client.answer(await client.ask(GET))
        return int(client.h2.decoder.header_table.maxsize)

    assert attack(talk, various) <= 4096
