"""The name server of a sandbox: what exists, what does not, and what hostile packets get."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.reversename
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.names import dns as door
from paddock.doors.network.names.dns import DnsAnswerer, serve_tcp, serve_udp
from paddock.doors.network.names.table import NameTable
from paddock.doors.network.transport.conn import Conn

LIMIT_S = 20.0


class Judge:
    """Lets some names pass, and remembers what it was asked."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, name: str, qtype: str) -> bool:
        self.asked.append((name, qtype))
        return name in self.allowed


class Server:
    """An answerer with all that it works with."""

    def __init__(self, *allowed: str, judge: Any = None) -> None:
        self.table = NameTable()
        self.judge = Judge(*allowed)
        self.refused: list[tuple[str, str, str]] = []
        self.answerer = DnsAnswerer(
            self.table, judge or self.judge, refused=lambda *about: self.refused.append(about)
        )

    def raw(self, packet: bytes) -> bytes | None:
        return run(self.answerer.answer(packet))

    def ask(self, name: str, qtype: str = "A", **options: Any) -> dns.message.Message:
        query = dns.message.make_query(name, qtype, **options)
        reply = self.raw(query.to_wire())
        assert reply is not None
        message = dns.message.from_wire(reply)
        assert query.is_response(message)
        return message


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await work

    return asyncio.run(bounded())


def addresses(message: dns.message.Message) -> list[str]:
    return [item.to_text() for rrset in message.answer for item in rrset]


def packet(
    name: bytes, qtype: int = 1, *, qclass: int = 1, flags: int = 0x0100, counts: Any = (1, 0, 0, 0)
) -> bytes:
    return struct.pack("!HH4H", 7, flags, *counts) + name + struct.pack("!HH", qtype, qclass)


def test_an_allowed_name_gets_an_address_that_stands_for_it() -> None:
    server = Server("api.example.com")
    reply = server.ask("api.example.com")
    assert reply.rcode() == dns.rcode.NOERROR
    (address,) = addresses(reply)
    assert server.table.name_of(address) == "api.example.com"
    assert addresses(server.ask("api.example.com")) == [address]
    assert reply.answer[0].ttl == 60


def test_a_name_that_is_not_allowed_does_not_exist() -> None:
    server = Server("api.example.com")
    reply = server.ask("evil.example.com")
    assert reply.rcode() == dns.rcode.NXDOMAIN
    assert not reply.answer
    assert len(server.table) == 0


async def _broken(name: str, qtype: str) -> bool:
    raise RuntimeError("a bug")


async def _says_yes_in_the_wrong_type(name: str, qtype: str) -> Any:
    return "no"


@pytest.mark.parametrize("judge", [_broken, _says_yes_in_the_wrong_type])
def test_a_judge_that_fails_means_no(judge: Callable[..., Awaitable[bool]]) -> None:
    server = Server(judge=judge)
    assert server.ask("api.example.com").rcode() == dns.rcode.NXDOMAIN
    assert len(server.table) == 0


def test_a_judge_that_never_answers_means_no(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(name: str, qtype: str) -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(door, "JUDGE_S", 0.05)
    assert Server(judge=waits).ask("api.example.com").rcode() == dns.rcode.NXDOMAIN


def test_a_full_table_means_no() -> None:
    server = Server("a.example", "b.example")
    server.table._max_names = 1
    assert addresses(server.ask("a.example"))
    server.table.hold("a.example")
    assert server.ask("b.example").rcode() == dns.rcode.NXDOMAIN


@pytest.mark.parametrize("spelling", ["API.Example.COM", "aPi.eXaMpLe.cOm", "api.example.com."])
def test_the_case_of_a_name_does_not_matter_and_comes_back_as_asked(spelling: str) -> None:
    server = Server("api.example.com")
    query = dns.message.make_query(spelling, "A")
    reply = server.raw(query.to_wire())
    assert reply is not None
    message = dns.message.from_wire(reply)
    assert message.question[0].name.labels == query.question[0].name.labels
    assert message.answer[0].name.labels == query.question[0].name.labels
    assert server.judge.asked == [("api.example.com", "A")]


@for_each("qtype", ["AAAA", "HTTPS", "SVCB", "TXT", "NULL", "MX", "SRV", "CNAME",
                                   "ANY", "AXFR", "NS", "SOA", "DNSKEY", "TYPE65280"])  # fmt: skip
def test_an_allowed_name_has_no_other_records_than_its_address(qtype: str) -> None:
    server = Server("api.example.com")
    reply = server.ask("api.example.com", qtype)
    assert reply.rcode() == dns.rcode.NOERROR
    assert not reply.answer
    assert [rrset.rdtype for rrset in reply.authority] == [dns.rdatatype.SOA]
    assert server.judge.asked == [("api.example.com", qtype)]


@pytest.mark.parametrize("qtype", ["A", "TXT", "NULL", "TYPE65280"])
def test_a_tunnel_in_a_denied_name_is_judged_and_gets_nothing(qtype: str) -> None:
    server = Server("api.example.com")
    name = ".".join(["a" * 63, "b" * 63, "c" * 63, "evil.example"])
    assert server.ask(name, qtype).rcode() == dns.rcode.NXDOMAIN
    assert server.judge.asked == [(name, qtype)]


def test_no_answer_opens_a_socket_or_looks_a_name_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("something would go out")

    server = Server("api.example.com")
    server.ask("api.example.com")

    async def ask_all() -> None:
        for name, qtype in (("api.example.com", "A"), ("evil.example", "TXT"), ("x.test", "NS")):
            assert await server.answerer.answer(dns.message.make_query(name, qtype).to_wire())

    async def with_no_way_out() -> None:
        monkeypatch.setattr(socket, "socket", forbidden)
        monkeypatch.setattr(socket, "getaddrinfo", forbidden)
        await ask_all()
        monkeypatch.undo()

    run(with_no_way_out())


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "a.localhost"])
def test_localhost_is_the_sandbox_itself(name: str) -> None:
    server = Server()
    assert addresses(server.ask(name)) == ["127.0.0.1"]
    assert server.ask(name, "AAAA").rcode() == dns.rcode.NOERROR
    assert not server.judge.asked


@pytest.mark.parametrize("name", ["localhost.evil.example", "xlocalhost", "localhost.localdomain"])
def test_a_name_that_only_looks_like_localhost_is_judged(name: str) -> None:
    server = Server()
    assert server.ask(name).rcode() == dns.rcode.NXDOMAIN
    assert server.judge.asked == [(name, "A")]


def test_an_address_of_the_table_leads_back_to_its_name() -> None:
    server = Server("api.example.com")
    (address,) = addresses(server.ask("api.example.com"))
    reply = server.ask(str(dns.reversename.from_address(address)), "PTR")
    assert addresses(reply) == ["api.example.com."]
    own = server.ask("1.0.0.127.in-addr.arpa", "PTR")
    assert addresses(own) == ["localhost."]


@pytest.mark.parametrize(
    "name",
    [
        "9.9.18.198.in-addr.arpa",
        "1.1.1.1.in-addr.arpa",
        "001.1.18.198.in-addr.arpa",
        "1.1.18.198.evil.arpa",
        "0.1.1.18.198.in-addr.arpa",
        "secret.in-addr.arpa",
        str(dns.reversename.from_address("2001:db8::1")),
    ],
)
def test_any_other_address_has_no_name(name: str) -> None:
    server = Server("api.example.com")
    server.ask("api.example.com")
    server.judge.asked.clear()
    assert server.ask(name, "PTR").rcode() == dns.rcode.NXDOMAIN
    assert server.judge.asked == [(name.rstrip("."), "PTR")]


@for_each(
    "labels",
    [
        [b"api.example", b"com"],  # a dot that is part of a label
        [b"api\0", b"example", b"com"],
        [b"*", b"example", b"com"],
        [b"\xc3\xa4pi", b"example", b"com"],
        [b"api ", b"example", b"com"],
        [b"-api", b"example", b"com"],
        [b"a/b", b"example", b"com"],
        [b"[", b"1]"],
        [b"a:80"],
        [b"1", b"1", b"1", b"1"],
        [b"2130706433"],
        [b"0x7f", b"1"],
        [],
    ],
)
def test_what_is_not_the_name_of_a_host_is_refused_and_told(labels: list[bytes]) -> None:
    async def yes(name: str, qtype: str) -> bool:
        return True

    server = Server(judge=yes)
    wire = b"".join(bytes([len(one)]) + one for one in labels) + b"\0"
    reply = server.raw(packet(wire))
    assert reply is not None
    assert dns.message.from_wire(reply).rcode() == dns.rcode.NXDOMAIN
    assert len(server.table) == 0
    assert len(server.refused) == 1


def test_an_underscore_is_part_of_names_and_judged_like_any() -> None:
    server = Server("_srv.example.com")
    assert server.ask("_srv.example.com", "SRV").rcode() == dns.rcode.NOERROR
    assert server.ask("_http._tcp.example.com", "SRV").rcode() == dns.rcode.NXDOMAIN


def test_another_class_than_the_internets_is_refused() -> None:
    server = Server("version.bind")
    reply = server.ask("version.bind", "TXT", rdclass="CH")
    assert reply.rcode() == dns.rcode.REFUSED
    assert server.refused and not server.judge.asked


def test_edns_is_answered_with_edns_and_without_its_options() -> None:
    server = Server("api.example.com")
    options = [
        dns.edns.GenericOption(65001, b"secret" * 20),
        dns.edns.GenericOption(10, b"c" * 8),
        dns.edns.GenericOption(12, b"\0" * 64),
        dns.edns.ECSOption("203.0.113.7"),
    ]
    reply = server.ask("api.example.com", use_edns=0, options=options, payload=4096)
    assert reply.edns == 0
    assert reply.payload == 1232
    assert not reply.options
    assert addresses(reply)
    assert server.ask("api.example.com").edns == -1


def test_a_later_version_of_edns_is_told_so() -> None:
    server = Server("api.example.com")
    reply = server.ask("api.example.com", use_edns=1)
    assert reply.rcode() == dns.rcode.BADVERS
    assert reply.edns == 0


@pytest.mark.parametrize("opcode", [1, 2, 4, 5, 15])
def test_only_queries_are_understood(opcode: int) -> None:
    server = Server("api.example.com")
    reply = server.raw(packet(b"\3api\7example\3com\0", flags=0x0100 | opcode << 11))
    assert reply is not None
    assert reply[:2] == b"\0\7" and len(reply) == 12
    assert reply[3] & 15 == dns.rcode.NOTIMP
    assert not server.judge.asked


@pytest.mark.parametrize(
    "counts", [(0, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 2), (65535,) * 4]
)
def test_a_packet_has_one_question_and_nothing_else(counts: tuple[int, ...]) -> None:
    server = Server("api.example.com")
    reply = server.raw(packet(b"\3api\7example\3com\0", counts=counts))
    assert reply is not None
    assert reply[3] & 15 == dns.rcode.FORMERR
    assert not server.judge.asked


@pytest.mark.parametrize(
    "name",
    [
        b"\xc0\x0c",  # points to itself
        b"\3api\xc0\x0c",
        b"\xc0\xff",
        b"\x3f" + b"a" * 10,
        b"\x40a\0",
        b"\x80a\0",
        (b"\x3f" + b"a" * 63) * 5 + b"\0",
    ],
)
def test_a_malformed_name_is_told_so(name: bytes) -> None:
    server = Server()
    reply = server.raw(packet(name))
    assert reply is not None
    assert reply[3] & 15 == dns.rcode.FORMERR


def test_responses_and_scraps_are_not_answered() -> None:
    server = Server("api.example.com")
    asked = dns.message.make_query("api.example.com", "A").to_wire()
    assert server.raw(packet(b"\3api\0", flags=0x8180)) is None
    assert server.raw(b"") is None
    assert server.raw(asked[:11]) is None
    assert server.raw(asked + bytes(4096)) is None


OPT = struct.pack("!BHHIH", 0, 41, 1232, 0, 4) + bytes(4)


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        (b"secret", 0),
        (b"secret", 1),
        (OPT + b"secret", 1),
        (OPT[:-1], 1),
        (struct.pack("!BHHIH", 0, 16, 1, 0, 7) + b"\6secret", 1),  # a TXT record
        (struct.pack("!BHHIH", 0, 250, 255, 0, 4) + bytes(4), 1),  # a signature
        (b"\1a" + OPT, 1),
    ],
)
def test_nothing_but_edns_may_follow_the_question(rest: bytes, count: int) -> None:
    server = Server("api.example.com")
    reply = server.raw(packet(b"\3api\7example\3com\0", counts=(1, 0, 0, count)) + rest)
    assert reply is not None
    assert reply[3] & 15 == dns.rcode.FORMERR
    assert not server.judge.asked


@given(st.binary(max_size=600))
@example(bytes(4096))
@example(b"\0\0\0\0\0\1\0\0\0\0\0\1" + b"\0" * 200)
def test_no_bytes_make_it_fail_or_say_much(data: bytes) -> None:
    _check_bounded(data)


LABELS = st.lists(st.binary(min_size=1, max_size=63), max_size=8)


@given(LABELS, st.integers(0, 65535), st.integers(0, 65535), st.binary(max_size=100))
def test_no_question_makes_it_fail_or_say_much(
    labels: list[bytes], qtype: int, qclass: int, rest: bytes
) -> None:
    wire = b"".join(bytes([len(one)]) + one for one in labels) + b"\0"
    _check_bounded(packet(wire, qtype, qclass=qclass))
    option = struct.pack("!BHHIH", 0, 41, 1232, 0, len(rest)) + rest
    _check_bounded(packet(wire, qtype, qclass=qclass, counts=(1, 0, 0, 1)) + option)
    _check_bounded(packet(wire, qtype, qclass=qclass, counts=(1, 0, 0, 1)) + rest)


def _check_bounded(data: bytes) -> None:
    async def yes(name: str, qtype: str) -> bool:
        return True

    reply = Server(judge=yes).raw(data)
    if reply is not None:
        assert len(reply) <= 512
        assert len(reply) <= len(data) + 80  # no use as an amplifier either
        assert not reply[2] & 0x02  # never cut
        assert reply[:2] == data[:2]


def test_it_serves_datagrams() -> None:
    server = Server("api.example.com")

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        with _datagram() as sock, _datagram() as client:
            serving = asyncio.create_task(serve_udp(sock, server.answerer))
            for query in (b"", b"scrap", dns.message.make_query("api.example.com", "A").to_wire()):
                client.sendto(query, sock.getsockname())
            reply = await loop.sock_recv(client, 4096)
            assert addresses(dns.message.from_wire(reply))
            await _stop(serving)

    run(scene())


def test_a_client_that_went_away_does_not_end_the_service() -> None:
    server = Server("api.example.com")
    query = dns.message.make_query("api.example.com", "A").to_wire()

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        with _datagram() as sock, _datagram() as client:
            serving = asyncio.create_task(serve_udp(sock, server.answerer))
            for _ in range(20):
                with _datagram() as gone:
                    gone.sendto(query, sock.getsockname())
            client.sendto(query, sock.getsockname())
            assert await loop.sock_recv(client, 4096)
            await _stop(serving)

    run(scene())


def test_questions_under_way_are_bounded_and_none_of_them_is_lost() -> None:
    most, now, is_full, let_go = 0, 0, asyncio.Event(), asyncio.Event()

    async def slow(name: str, qtype: str) -> bool:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if now >= door.MAX_UNDER_WAY:
            is_full.set()
        await let_go.wait()
        now -= 1
        return True

    server = Server(judge=slow)
    names = [f"n{number}.example" for number in range(door.MAX_UNDER_WAY + 40)]

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        with _datagram() as sock, _datagram() as client:
            serving = asyncio.create_task(serve_udp(sock, server.answerer))
            for name in names:
                client.sendto(dns.message.make_query(name, "A").to_wire(), sock.getsockname())
            await is_full.wait()
            let_go.set()
            replies = [dns.message.from_wire(await loop.sock_recv(client, 4096)) for _ in names]
            assert {str(one.question[0].name).rstrip(".") for one in replies} == set(names)
            await _stop(serving)

    run(scene())
    assert most == door.MAX_UNDER_WAY


def test_it_serves_a_stream_whose_bytes_come_one_by_one() -> None:
    server = Server("a.example", "b.example")
    queries = [dns.message.make_query(name, "A").to_wire() for name in ("a.example", "b.example")]

    async def scene() -> None:
        async with asyncio.TaskGroup() as group:
            reader, writer = await _stream(group, server)
            for byte in b"".join(len(one).to_bytes(2, "big") + one for one in queries):
                writer.write(bytes([byte]))
                await writer.drain()
            for query in queries:
                size = int.from_bytes(await reader.readexactly(2), "big")
                reply = dns.message.from_wire(await reader.readexactly(size))
                assert dns.message.from_wire(query).is_response(reply)
                assert addresses(reply)
            writer.close()

    run(scene())


@pytest.mark.parametrize("sent", [b"\0\0", b"\xff\xff", b"\x10\x01" + bytes(4097), b"\0\5scrap"])
def test_a_stream_that_makes_no_sense_is_closed(sent: bytes) -> None:
    async def scene() -> None:
        async with asyncio.TaskGroup() as group:
            reader, writer = await _stream(group, Server())
            writer.write(sent)
            assert await _rest(reader) == b""
            writer.close()

    run(scene())


def test_a_stream_that_stands_still_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "FRAME_S", 0.05)

    async def scene() -> None:
        async with asyncio.TaskGroup() as group:
            reader, writer = await _stream(group, Server())
            writer.write(b"\0\x30half")
            assert await _rest(reader) == b""
            writer.close()

    run(scene())


async def _stream(
    group: asyncio.TaskGroup, server: Server
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    ours, theirs = socket.socketpair()
    group.create_task(serve_tcp(Conn(ours), server.answerer))
    return await asyncio.open_connection(sock=theirs)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""  # closed with bytes unread


def _datagram() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind(("127.0.0.1", 0))
    return sock


async def _stop(task: asyncio.Task[None]) -> None:
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
