"""The name server of a sandbox. It answers out of the table and forwards nothing to anybody.

A name that the gate lets pass gets an address that stands for it; any other does not exist. There
is no way from here to a real name server, so a question carries nothing out, whatever it says.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
from collections.abc import Awaitable, Callable, Coroutine
from types import ModuleType
from typing import Any

import msgspec

from paddock.doors.network.names.table import NameTable
from paddock.doors.network.transport.conn import Conn
from paddock.doors.network.transport.stream import ConnLost
from paddock.fence.offload import offload
from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host, is_address

MAX_PACKET = 4096  # of a question, by UDP and by TCP; a real one has less than 400 bytes
MAX_UNDER_WAY = 64  # more wait in the kernel's buffer, and clients ask again
JUDGE_S = 30.0  # no client waits longer for its name
FRAME_S = 30.0  # for a question to come by TCP, from its first byte to its last
_HEADER = 12
_RESPONSE, _OPCODE, _RECURSION = 0x80, 0x78, 0x01  # bits of the header's third byte
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_REVERSE = (b"in-addr", b"arpa")
_IN = 1

Judge = Callable[[str, str], Awaitable[bool]]
Observer = Callable[[str, str, str], None]


class Code(enum.IntEnum):
    """Response codes of DNS."""

    NO_ERROR = 0
    MALFORMED = 1
    FAILED = 2
    NO_SUCH_NAME = 3
    NOT_IMPLEMENTED = 4
    REFUSED = 5
    BAD_VERSION = 16


class DnsQuery(msgspec.Struct, frozen=True):
    """A DNS query, as it was sent."""

    labels: tuple[bytes, ...]  # without the root
    text: str  # for people: what is no letter is escaped
    qtype: str  # "A", "TXT", "TYPE65280"
    qclass: int
    edns_version: int  # -1 without EDNS
    message: Any  # of the library that read it, for the one that writes the answer


class DnsAnswer(msgspec.Struct, frozen=True):
    """The answer to a DNS query: an address, a name (for PTR), or neither."""

    code: Code
    address: str | None = None
    name: str | None = None


NO_SUCH_NAME = DnsAnswer(Code.NO_SUCH_NAME)
NOTHING = DnsAnswer(Code.NO_ERROR)  # the name exists and has no such record


class Unanswered(Exception):
    """A fault on purpose: the name server fails, or says nothing at all."""

    def __init__(self, code: Code | None) -> None:
        super().__init__("a fault on purpose")
        self.code = code


class DnsAnswerer:
    """Answers the questions of one sandbox.

    `judge(name, qtype)` is the gate's word on a name. `refused(name, qtype, why)` is told of
    questions that are no names, which the gate could not be asked about.
    """

    def __init__(self, table: NameTable, judge: Judge, *, refused: Observer | None = None) -> None:
        self._table = table
        self._judge = judge
        self._refused = refused

    async def answer(self, packet: bytes) -> bytes | None:
        """The answer to one packet; None for what deserves none. Never raises."""
        if not _HEADER <= len(packet) <= MAX_PACKET or packet[2] & _RESPONSE:
            return None
        if packet[2] & _OPCODE:
            return _bare(packet, Code.NOT_IMPLEMENTED)
        if not _has_one_question(packet):
            return _bare(packet, Code.MALFORMED)
        try:
            wire = await _wire()
            question: DnsQuery = wire.read(packet)
        except Exception:
            return _bare(packet, Code.MALFORMED)
        try:
            written: bytes = wire.write(question, await self._answer(question))
        except Unanswered as fault:
            return None if fault.code is None else _bare(packet, fault.code)
        except Exception:
            return _bare(packet, Code.FAILED)
        return written

    async def _answer(self, question: DnsQuery) -> DnsAnswer:
        try:
            async with asyncio.timeout(JUDGE_S):
                return await self._looked_up(question)
        except Unanswered:
            raise
        except Exception:  # whatever went wrong, it is not a yes
            return NO_SUCH_NAME

    async def _looked_up(self, question: DnsQuery) -> DnsAnswer:
        if question.edns_version > 0:
            return DnsAnswer(Code.BAD_VERSION)
        if question.qclass != _IN:
            return self._refuse(question, "its class is not IN", Code.REFUSED)
        if (answer := self._known(question)) is not None:
            return answer
        name = _name(question.labels)
        if name is None:
            return self._refuse(question, "it is not the name of a host", Code.NO_SUCH_NAME)
        if await self._judge(name, question.qtype) is not True:
            return NO_SUCH_NAME
        if question.qtype != "A":
            return NOTHING
        return DnsAnswer(Code.NO_ERROR, address=self._table.address_of(name))

    def _known(self, question: DnsQuery) -> DnsAnswer | None:
        """Return the answer to a query about the sandbox itself, which does not go to the gate."""
        lower = tuple(label.lower() for label in question.labels)
        if lower[-1:] == (b"localhost",):
            return (
                DnsAnswer(Code.NO_ERROR, address="127.0.0.1") if question.qtype == "A" else NOTHING
            )
        if question.qtype != "PTR" or len(lower) != 6 or lower[-2:] != _REVERSE:
            return None
        address = b".".join(reversed(lower[:4])).decode("ascii", "replace")
        name = "localhost" if address == "127.0.0.1" else self._table.name_of(address)
        return DnsAnswer(Code.NO_ERROR, name=name) if name else None

    def _refuse(self, question: DnsQuery, why: str, code: Code) -> DnsAnswer:
        if self._refused is not None:
            self._refused(question.text, question.qtype, why)
        return DnsAnswer(code)


async def serve_udp(sock: socket.socket, answerer: DnsAnswerer) -> None:
    """Answers what comes to a non-blocking socket, until it is cancelled."""
    loop = asyncio.get_running_loop()
    slots = asyncio.Semaphore(MAX_UNDER_WAY)
    async with asyncio.TaskGroup() as group:
        while True:
            await slots.acquire()
            packet, peer = await _receive(loop, sock)
            task = group.create_task(_guarded(_reply(sock, answerer, packet, peer)))
            task.add_done_callback(lambda _: slots.release())


async def _guarded(reply: Coroutine[Any, Any, None]) -> None:
    """One question must not end the answers to all others."""
    with contextlib.suppress(Exception):
        await reply


async def serve_tcp(conn: Conn, answerer: DnsAnswerer) -> None:
    """Answers the questions of one connection, one after the other, and closes it."""
    with contextlib.suppress(ConnLost, TimeoutError):
        while (packet := await _frame(conn)) is not None:
            answer = await answerer.answer(packet)
            if answer is None:
                break
            await conn.write(len(answer).to_bytes(2, "big") + answer)
    conn.close()


async def _receive(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> tuple[bytes, Any]:
    while True:
        with contextlib.suppress(ConnectionError):  # an earlier answer found nobody
            return await loop.sock_recvfrom(sock, MAX_PACKET + 1)


async def _reply(sock: socket.socket, answerer: DnsAnswerer, packet: bytes, peer: Any) -> None:
    answer = await answerer.answer(packet)
    if answer is not None:
        with contextlib.suppress(OSError):  # datagrams may be lost, and clients ask again
            sock.sendto(answer, peer)


async def _frame(conn: Conn) -> bytes | None:
    """The next question of a stream; None at its end, or when it is too long."""
    async with asyncio.timeout(FRAME_S):
        prefix = await _exactly(conn, 2)
        size = int.from_bytes(prefix or b"", "big")
        return await _exactly(conn, size) if 0 < size <= MAX_PACKET else None


async def _exactly(conn: Conn, size: int) -> bytes | None:
    taken = b""
    while len(taken) < size:
        data = await conn.read(size - len(taken))
        if not data:
            return None
        taken += data
    return taken


async def _wire() -> ModuleType:
    """The library takes long to load: by the first question, and not on the loop."""
    return await offload(_load) if _loaded is None else _loaded


_loaded: ModuleType | None = None


def _load() -> ModuleType:
    global _loaded
    from paddock.doors.network.names import dns_packets as dns_wire

    _loaded = dns_wire
    return dns_wire


def _has_one_question(packet: bytes) -> bool:
    """One question, no records, and at most the one of EDNS. It bounds what is left to parse."""
    return packet[4:10] == b"\x00\x01\x00\x00\x00\x00" and packet[10:12] in (b"\0\0", b"\0\1")


def _bare(packet: bytes, code: Code) -> bytes:
    """An answer without the question, for one that was not read."""
    flags = bytes([_RESPONSE | packet[2] & (_OPCODE | _RECURSION), _RESPONSE | code])
    return packet[:2] + flags + bytes(_HEADER - 4)


def _name(labels: tuple[bytes, ...]) -> str | None:
    """The canonical host that is asked for. Labels are bytes, and may even have dots in them."""
    if not all(_LETTERS.issuperset(label) for label in labels):
        return None
    try:
        host = canonical_host(b".".join(labels).decode("ascii"))
    except InvalidInput:
        return None
    return None if is_address(host) else host
