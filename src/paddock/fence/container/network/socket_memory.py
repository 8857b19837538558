"""Counts the memory of the kernel that the sockets of a sandbox hold, as sock_diag tells it.

Bytes that wait in a socket belong to no process, and control groups count only some of them:

| | cgroup v2 | cgroup v1 | no cgroup |
|---|---|---|---|
| TCP, UDP | part of the memory limit | a limit of their own (`memory.kmem.tcp`) | not counted |
| TCP that nobody has accepted | not counted | not counted | not counted |
| Unix sockets, pipes | part of the memory limit | part of the memory limit | not counted |
| netlink, ping | not counted | not counted | not counted |

What is not counted is looked at here, through a socket in the sandbox's network namespace. The
dumps list every socket of the namespace, also one that no process has open any more because its
descriptor is under way in a message (SCM_RIGHTS), and the ends that the host's network door holds.
sock_diag says nothing about ping sockets; procfs does.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable

import msgspec

from paddock.fence.container.network import netlink

WATCH_S = 0.25  # between two looks
NEAR_S = 0.05  # between two looks when much is held
# On top of the memory limit: what an honest sandbox has in buffers of connections to the door.
ALLOWED_BYTES = 32 << 20
_BY_FAMILY = 20
_ALL_STATES = 0xFFFFFFFF
_ALL_PROTOCOLS = 255
_AF_NETLINK = 16
_INET_MEMORY, _UNIX_MEMORY, _NETLINK_MEMORY = 7, 5, 0  # attributes with the counters
_SHOW_UNIX_MEMORY, _SHOW_NETLINK_MEMORY = 0x20, 0x01
# Of the counters: bytes received and not read, bytes sent and not delivered, the backlog.
_RECEIVED, _SENT, _QUEUED, _BACKLOG = 0, 2, 5, 7
_COUNTERS = 8


class SocketKind(msgspec.Struct, frozen=True):
    """One kind of sockets: how to ask for all of them, and where an answer has its counters."""

    name: str
    request: bytes
    answer_size: int
    counters: int  # the attribute


def _inet(name: str, family: int, protocol: int) -> SocketKind:
    extension = 1 << (_INET_MEMORY - 1)
    request = struct.pack("=BBBBI48x", family, protocol, extension, 0, _ALL_STATES)
    return SocketKind(name, request, 72, _INET_MEMORY)


NETLINK = SocketKind(
    "netlink",
    struct.pack("=BBHIIII", _AF_NETLINK, _ALL_PROTOCOLS, 0, 0, _SHOW_NETLINK_MEMORY, 0, 0),
    28,
    _NETLINK_MEMORY,
)
UNIX = SocketKind(
    "unix",
    struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_UNIX_MEMORY, 0, 0),
    16,
    _UNIX_MEMORY,
)
UDP = (
    _inet("udp", socket.AF_INET, socket.IPPROTO_UDP),
    _inet("udp", socket.AF_INET6, socket.IPPROTO_UDP),
)
TCP = (
    _inet("tcp", socket.AF_INET, socket.IPPROTO_TCP),
    _inet("tcp", socket.AF_INET6, socket.IPPROTO_TCP),
)


def watched_kinds(cgroup_version: int) -> tuple[SocketKind, ...]:
    """Return the kinds whose memory a control group of that version (0: none) does not count, or
    not all of it."""
    counted = (NETLINK, *UDP, *TCP)
    return counted if cgroup_version else (*counted, UNIX)


def held_bytes(diag: socket.socket, kinds: Iterable[SocketKind]) -> int | None:
    """Return the bytes that sockets of these kinds hold; None if there are more of them than the
    kernel tells in one go. Raises OSError for a kind that it cannot tell about."""
    total = 0
    for kind in kinds:
        flags = netlink.REQUEST | netlink.DUMP
        what = f"the memory of {kind.name} sockets"
        question = netlink.NetlinkMessage(what, _BY_FAMILY, kind.request, flags)
        try:
            answers = netlink.exchange(diag, [question])
        except TimeoutError:
            return None
        total += sum(_memory(answer.body, kind) for answer in answers)
    return total


def ping_bytes(init_pid: int) -> int:
    """Return the bytes that ping sockets hold in the network namespace of a process. Raises OSError
    when it has ended."""
    total = 0
    for family in ("icmp", "icmp6"):
        try:
            with open(f"/proc/{init_pid}/net/{family}", "rb") as file:
                lines = file.readlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            os.stat(f"/proc/{init_pid}")
            continue
        for line in lines:
            sent, _, received = line.split()[4].partition(b":")
            total += int(sent, 16) + int(received, 16)
    return total


def _memory(body: bytes, kind: SocketKind) -> int:
    raw = netlink.attributes(body[kind.answer_size :]).get(kind.counters, b"")
    if len(raw) < 4 * _COUNTERS:
        return 0
    counters = struct.unpack_from(f"={_COUNTERS}I", raw)
    sent = max(counters[_SENT], counters[_QUEUED])
    return int(counters[_RECEIVED] + sent + counters[_BACKLOG])
