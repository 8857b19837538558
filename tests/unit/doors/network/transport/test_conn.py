"""A connection of the door: its limits, its ends, and TLS on it."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest

from paddock.doors.network.transport.conn import Conn, pump
from paddock.doors.network.transport.stream import ConnIdle, ConnLost
from unit.doors.network.wires import LIMIT_S, tcp_pair


def played(play: Any, *, idle_s: float = LIMIT_S) -> None:
    async def run() -> None:
        near, far = tcp_pair()
        one, other = Conn(near, idle_s=idle_s), Conn(far)
        try:
            async with asyncio.timeout(LIMIT_S):
                await play(one, other)
        finally:
            one.close()
            other.close()

    asyncio.run(run())


def test_bytes_go_both_ways_and_are_counted() -> None:
    async def play(one: Conn, other: Conn) -> None:
        await one.write(b"hello")
        assert await other.read() == b"hello"
        await other.write(b"you")
        assert await one.read(2) + await one.read() == b"you"
        assert (one.bytes_out, one.bytes_in) == (5, 3)

    played(play)


def test_unread_bytes_come_first_and_are_not_counted_twice() -> None:
    async def play(one: Conn, other: Conn) -> None:
        await other.write(b"abcdef")
        data = await one.read()
        one.unread(data[2:])
        assert one.has_input
        assert [await one.read(1), await one.read()] == [b"c", b"def"]
        assert one.bytes_in == 6

    played(play)


def test_peek_leaves_what_it_shows() -> None:
    async def play(one: Conn, other: Conn) -> None:
        await other.write(b"abc")
        assert await one.peek(2) == b"ab"
        assert await one.read() == b"abc"

    played(play)


def test_silent_peer_is_given_up() -> None:
    async def play(one: Conn, other: Conn) -> None:
        with pytest.raises(ConnIdle, match="nothing came for"):
            await one.read()

    played(play, idle_s=0.1)


def test_peer_that_never_reads_is_given_up() -> None:
    async def play(one: Conn, other: Conn) -> None:
        with pytest.raises(ConnIdle, match="nothing was taken for"):
            await one.write(bytes(64 << 20))

    played(play, idle_s=0.1)


def test_half_closed_connection_still_carries_the_other_way() -> None:
    async def play(one: Conn, other: Conn) -> None:
        await one.write(b"question")
        one.write_eof()
        assert [await other.read(), await other.read()] == [b"question", b""]
        await other.write(b"answer")
        assert await one.read() == b"answer"

    played(play)


def test_aborted_connection_is_seen_as_reset() -> None:
    async def play(one: Conn, other: Conn) -> None:
        one.abort()
        with pytest.raises(ConnLost, match="reset"):
            await other.read()

    played(play)


def test_closed_connection_wakes_who_waits_for_it() -> None:
    async def play(one: Conn, other: Conn) -> None:
        reading = asyncio.create_task(one.read())
        writing = asyncio.create_task(one.write(bytes(64 << 20)))
        await asyncio.sleep(0.05)
        one.close()
        for waiting in (reading, writing):
            with pytest.raises(ConnLost):
                await waiting
        with pytest.raises(ConnLost):
            await one.read()
        with pytest.raises(ConnLost):
            await one.write(b"x")

    played(play)


def test_reader_that_is_cancelled_loses_nothing() -> None:
    async def play(one: Conn, other: Conn) -> None:
        sent, got = bytes(range(256)) * 400, b""

        async def send() -> None:
            for at in range(0, len(sent), 64):
                await other.write(sent[at : at + 64])
                await asyncio.sleep(0)

        sending = asyncio.create_task(send())
        while len(got) < len(sent):
            reading = asyncio.create_task(one.read(16))
            for _ in range(len(got) % 3):
                await asyncio.sleep(0)
            reading.cancel()
            try:
                got += await reading
            except asyncio.CancelledError:
                got += await one.read(16)
        await sending
        assert got == sent

    played(play)


def test_reader_with_a_full_socket_lets_others_run() -> None:
    async def play(one: Conn, other: Conn) -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        await other.write(bytes(4096))
        counting = asyncio.create_task(count())
        for _ in range(4096):
            await one.read(1)
        counting.cancel()
        assert turns > 50

    played(play)


def test_lingering_close_lets_the_peer_read_what_was_written() -> None:
    async def play(one: Conn, other: Conn) -> None:
        await other.write(bytes(100_000))
        await one.write(b"no, thank you")
        lingering = asyncio.create_task(one.linger())
        assert await other.read() == b"no, thank you"
        assert await other.read() == b""
        other.close()
        await lingering
        assert one.is_closed

    played(play)


def test_input_is_seen_without_being_read() -> None:
    async def play(one: Conn, other: Conn) -> None:
        assert not one.has_input
        await other.write(b"x")
        await asyncio.sleep(0.02)
        assert one.has_input
        await one.read()
        assert not one.has_input
        other.close()
        await asyncio.sleep(0.02)
        assert one.has_input

    played(play)


def test_pump_passes_bytes_and_the_end_on() -> None:
    async def play(one: Conn, other: Conn) -> None:
        near, far = tcp_pair()
        third, fourth = Conn(near), Conn(far)
        pumping = asyncio.create_task(pump(other, third))
        await one.write(b"through")
        one.write_eof()
        assert [await fourth.read(), await fourth.read()] == [b"through", b""]
        await pumping
        third.close()
        fourth.close()

    played(play)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server named a.example, and of a client that trusts it."""
    path = _certificate(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    server.set_alpn_protocols(["http/1.1"])
    client = ssl.create_default_context(cafile=str(path))
    client.set_alpn_protocols(["h2", "http/1.1"])
    return server, client


def _certificate(directory: Path) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a.example")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("a.example")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


async def _secured(one: Conn, other: Conn, contexts: Contexts) -> None:
    server, client = contexts
    await asyncio.gather(
        one.start_tls(server, server_side=True),
        other.start_tls(client, server_side=False, server_hostname="a.example"),
    )


def test_tls_carries_bytes_and_ends_both_ways(contexts: Contexts) -> None:
    async def play(one: Conn, other: Conn) -> None:
        await _secured(one, other, contexts)
        assert (one.alpn, other.alpn) == ("http/1.1", "http/1.1")
        big = bytes(range(256)) * 8192
        writing = asyncio.create_task(one.write(big))
        got = b""
        while len(got) < len(big):
            got += await other.read()
        await writing
        assert got == big
        await other.write(b"back")
        assert await one.read() == b"back"
        one.close()
        assert await other.read() == b""

    played(play)


def test_tls_record_that_is_read_in_parts_is_input(contexts: Contexts) -> None:
    async def play(one: Conn, other: Conn) -> None:
        await _secured(one, other, contexts)
        await one.write(b"0123456789")
        assert await other.read(4) == b"0123"
        assert other.has_input
        assert await other.read() == b"456789"

    played(play)


def test_reader_and_writer_at_once_over_tls(contexts: Contexts) -> None:
    async def play(one: Conn, other: Conn) -> None:
        await _secured(one, other, contexts)
        big = bytes(4 << 20)

        async def take(conn: Conn) -> int:
            taken = 0
            while taken < len(big):
                taken += len(await conn.read())
            return taken

        results = await asyncio.gather(one.write(big), other.write(big), take(one), take(other))
        assert results[2:] == [len(big), len(big)]

    played(play)


def test_tls_with_a_wrong_name_fails(contexts: Contexts) -> None:
    async def play(one: Conn, other: Conn) -> None:
        server, client = contexts
        results = await asyncio.gather(
            one.start_tls(server, server_side=True),
            other.start_tls(client, server_side=False, server_hostname="b.example"),
            return_exceptions=True,
        )
        assert isinstance(results[1], ssl.SSLError)

    played(play)


def test_tls_that_is_never_agreed_on_is_given_up(contexts: Contexts) -> None:
    async def play(one: Conn, other: Conn) -> None:
        with pytest.raises(ConnLost, match="not agreed"):
            await one.start_tls(contexts[0], server_side=True, timeout_s=0.1)

    played(play)


def test_bytes_before_tls_are_refused(contexts: Contexts) -> None:
    async def play(one: Conn, other: Conn) -> None:
        one.unread(b"early")
        with pytest.raises(ConnLost):
            await one.start_tls(contexts[0], server_side=True)

    played(play)
