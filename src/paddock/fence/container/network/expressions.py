"""Expressions of nftables rules, as bytes: conditions and what to do, one after the other.

A rule is the sum of its expressions; the first condition that is not met ends it. What is the same
every time is made once.
"""

from __future__ import annotations

import socket
import struct
from functools import cache

from paddock.fence.container.network.netlink import attribute, be16, be32, be64, nested, text

_VERDICT_REGISTER, _REGISTER = 0, 1
_EQUAL, _NOT_EQUAL = 0, 1
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_META_FAMILY, _META_PROTOCOL = 15, 16
_CT_STATE, _CT_KNOWN = 0, 2 | 4  # established, related
_TCP_RESET, _ICMPX, _PORT_UNREACHABLE = 1, 2, 1
_PORT_GIVEN = 2
_IS_OVER = 1
_FLAGS_AT, _SYN, _SYN_ACK = 13, 0x02, 0x12
_SOURCE_AT: dict[int, int] = {socket.AF_INET: 12, socket.AF_INET6: 8}
_DESTINATION_AT: dict[int, int] = {socket.AF_INET: 16, socket.AF_INET6: 24}
_MULTICAST: dict[int, tuple[int, int]] = {  # of the first byte: mask, and what is left
    socket.AF_INET: (0xF0, 0xE0),
    socket.AF_INET6: (0xFF, 0xFF),
}
_UNREACHABLE: dict[int, tuple[int, int]] = {  # protocol, type
    socket.AF_INET: (socket.IPPROTO_ICMP, 3),
    socket.AF_INET6: (socket.IPPROTO_ICMPV6, 1),
}
DROP, ACCEPT = 0, 1


@cache
def is_tcp() -> bytes:
    return _is_meta(_META_PROTOCOL, socket.IPPROTO_TCP)


@cache
def is_udp() -> bytes:
    return _is_meta(_META_PROTOCOL, socket.IPPROTO_UDP)


@cache
def is_unreachable(family: int) -> bytes:
    """Match an error about a packet that arrived nowhere."""
    protocol, kind = _UNREACHABLE[family]
    return _is_meta(_META_PROTOCOL, protocol) + _is_payload(_TRANSPORT_HEADER, 0, bytes([kind]))


@cache
def is_family(family: int) -> bytes:
    return _is_meta(_META_FAMILY, family)


@cache
def is_from(family: int, address: bytes) -> bytes:
    """Match a source that begins with these bytes."""
    return _is_payload(_NETWORK_HEADER, _SOURCE_AT[family], address)


@cache
def is_to(family: int, address: bytes) -> bytes:
    """Match a destination that begins with these bytes: one is enough for 127.0.0.0/8."""
    return _is_payload(_NETWORK_HEADER, _DESTINATION_AT[family], address)


@cache
def is_to_many(family: int) -> bytes:
    """Match a multicast destination."""
    mask, left = _MULTICAST[family]
    first = _payload(_NETWORK_HEADER, _DESTINATION_AT[family], 1)
    return first + _masked(bytes([mask])) + _compared(_EQUAL, bytes([left]))


def is_from_port(port: int) -> bytes:
    return _is_payload(_TRANSPORT_HEADER, 0, port.to_bytes(2, "big"))


def is_to_port(port: int) -> bytes:
    return _is_payload(_TRANSPORT_HEADER, 2, port.to_bytes(2, "big"))


@cache
def is_syn() -> bytes:
    """Match the first packet of a TCP connection."""
    flags = _payload(_TRANSPORT_HEADER, _FLAGS_AT, 1)
    return flags + _masked(bytes([_SYN_ACK])) + _compared(_EQUAL, bytes([_SYN]))


@cache
def is_known() -> bytes:
    """Part of, or an error about, something that was let through before."""
    state = _expression("ct", be32(1, _REGISTER), be32(2, _CT_STATE))
    return state + _masked(struct.pack("=I", _CT_KNOWN)) + _compared(_NOT_EQUAL, bytes(4))


@cache
def is_within(per_s: int, burst: int) -> bytes:
    return _limit(per_s, burst, 0)


@cache
def is_over(per_s: int, burst: int) -> bytes:
    return _limit(per_s, burst, _IS_OVER)


@cache
def verdict(code: int) -> bytes:
    data = nested(2, nested(2, be32(1, code)))
    return _expression("immediate", be32(1, _VERDICT_REGISTER), data)


@cache
def untracked() -> bytes:
    """Have the kernel keep no record of the packet's connection."""
    return _expression("notrack")


def redirect(port: int) -> bytes:
    """Redirect to this port of loopback."""
    value = nested(2, attribute(1, port.to_bytes(2, "big")))
    load = _expression("immediate", be32(1, _REGISTER), value)
    return load + _expression("redir", be32(1, _REGISTER), be32(3, _PORT_GIVEN))


@cache
def log(group: int, size_bytes: int) -> bytes:
    """Log the beginning of the packet, at once."""
    return _expression("log", be16(1, group), be32(3, size_bytes), be16(4, 1))


@cache
def reset() -> bytes:
    return _expression("reject", be32(1, _TCP_RESET), attribute(2, bytes(1)))


@cache
def unreachable() -> bytes:
    return _expression("reject", be32(1, _ICMPX), attribute(2, bytes([_PORT_UNREACHABLE])))


def _expression(name: str, *parts: bytes) -> bytes:
    return nested(1, text(1, name), *([nested(2, *parts)] if parts else []))


def _is_meta(key: int, value: int) -> bytes:
    load = _expression("meta", be32(1, _REGISTER), be32(2, key))
    return load + _compared(_EQUAL, bytes([value]))


def _is_payload(base: int, offset: int, value: bytes) -> bytes:
    return _payload(base, offset, len(value)) + _compared(_EQUAL, value)


def _payload(base: int, offset: int, size: int) -> bytes:
    location = (be32(2, base), be32(3, offset), be32(4, size))
    return _expression("payload", be32(1, _REGISTER), *location)


def _masked(mask: bytes) -> bytes:
    registers = (be32(1, _REGISTER), be32(2, _REGISTER), be32(3, len(mask)))
    nothing = nested(5, attribute(1, bytes(len(mask))))
    return _expression("bitwise", *registers, nested(4, attribute(1, mask)), nothing)


def _compared(operator: int, value: bytes) -> bytes:
    data = nested(3, attribute(1, value))
    return _expression("cmp", be32(1, _REGISTER), be32(2, operator), data)


def _limit(per_s: int, burst: int, flags: int) -> bytes:
    rate = (be64(1, per_s), be64(2, 1), be32(3, burst))
    return _expression("limit", *rate, be32(4, 0), be32(5, flags))
