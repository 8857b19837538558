"""Netlink, the kernel's way to be told about networks: messages as bytes, and one exchange of them.

What the messages mean is for others to know. Nothing here trusts a length that it has read.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

REQUEST, ACK, DUMP, REPLACE, EXCL, CREATE, APPEND = 0x1, 0x4, 0x300, 0x100, 0x200, 0x400, 0x800
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length, kind
_NESTED, _KIND_MASK = 0x8000, 0x3FFF
_MAX_DATAGRAM = 1 << 16
_MAX_DATAGRAMS = 64  # of one exchange
_numbers = itertools.count(1)  # never twice: an answer belongs to one message
_MAX_NUMBER = 0x7FFFFFFF
_ANSWER_S = 2.0  # the kernel answers within the call; this is for a kernel that does not


class NetlinkRefused(OSError):
    """The kernel's no to one message of an exchange; `what` says which."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(code, f"{what}: {os.strerror(code)}")
        self.what = what


class NetlinkMessage(msgspec.Struct, frozen=True):
    """One message without its number, which the exchange gives it."""

    what: str  # for people, should the kernel refuse it
    kind: int
    body: bytes
    flags: int = REQUEST | ACK


class NetlinkAnswer(msgspec.Struct, frozen=True):
    """One message from the kernel."""

    kind: int
    number: int
    body: bytes


def attribute(kind: int, value: bytes) -> bytes:
    """Return one attribute, padded so that the next can follow."""
    head = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind)
    return head + value + bytes(-len(value) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """Return an attribute made of attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def be16(kind: int, value: int) -> bytes:
    return attribute(kind, value.to_bytes(2, "big"))


def be32(kind: int, value: int) -> bytes:
    return attribute(kind, (value & 0xFFFFFFFF).to_bytes(4, "big"))


def be64(kind: int, value: int) -> bytes:
    return attribute(kind, value.to_bytes(8, "big"))


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes in `data`, up to the first that does not fit."""
    by_kind: dict[int, bytes] = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if size < _ATTRIBUTE.size or at + size > len(data):
            break
        by_kind[kind & _KIND_MASK] = data[at + _ATTRIBUTE.size : at + size]
        at += size + -size % 4
    return by_kind


def packed(numbered: Mapping[int, NetlinkMessage]) -> bytes:
    """Return the bytes to send: the messages one after the other, each with its number."""
    return b"".join(
        _HEADER.pack(_HEADER.size + len(m.body), m.kind, m.flags, number, 0) + m.body
        for number, m in numbered.items()
    )


def answers(datagram: bytes) -> Iterator[NetlinkAnswer]:
    """Yield the messages of a datagram, up to the first that does not fit."""
    at = 0
    while at + _HEADER.size <= len(datagram):
        size, kind, _, number, _ = _HEADER.unpack_from(datagram, at)
        if size < _HEADER.size or at + size > len(datagram):
            break
        yield NetlinkAnswer(kind, number, datagram[at + _HEADER.size : at + size])
        at += size + -size % 4


def exchange(sock: socket.socket, messages: Sequence[NetlinkMessage]) -> list[NetlinkAnswer]:
    """Send all, and return when each that asks for an answer has it. Raises NetlinkRefused for the
    first that the kernel does not do, TimeoutError when it says nothing. Leaves `sock` with a time
    limit."""
    sock.settimeout(_ANSWER_S)
    numbered = {next(_numbers) & _MAX_NUMBER: message for message in messages}
    sock.send(packed(numbered))
    # Not any bit of DUMP: one of them means something else where something is made.
    waiting = {n for n, m in numbered.items() if m.flags & ACK or m.flags & DUMP == DUMP}
    got: list[NetlinkAnswer] = []
    for _ in range(_MAX_DATAGRAMS):
        for answer in answers(sock.recv(_MAX_DATAGRAM)):
            if answer.number not in numbered:
                continue  # a packet of the log, or late for an exchange that was given up
            if answer.kind not in (_ERROR, _DONE):
                got.append(answer)
                continue
            code = -int.from_bytes(answer.body[:4], sys.byteorder, signed=True)
            if code > 0:
                raise NetlinkRefused(numbered[answer.number].what, code)
            waiting.discard(answer.number)
        if not waiting:
            return got
    raise TimeoutError("the kernel does not come to an end with its answer")
