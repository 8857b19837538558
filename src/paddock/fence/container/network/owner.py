"""Whose connection it is: which process of a sandbox holds the other end of it.

An answer is a help to those who read what happened, not a basis for decisions: a process can hand
its socket to another, and end.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator

from paddock.fence.container.network import netlink
from paddock.fence.container.network.namespace import NamespaceSockets, original_destination

MAX_PROCESSES = 2000  # of a sandbox that are looked at
MAX_DESCRIPTORS = 20_000  # of all of them together
_BY_FAMILY = 20
_LISTEN = 10
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, b"\xff" * 8
_ID = struct.Struct("!HH16s16s")  # ports of and to, addresses of and to
_STATE_AT, _INODE_AT, _ANSWER_SIZE = 1, 68, 72

Address = tuple[str, int]


def owner_of(sockets: NamespaceSockets, accepted: socket.socket, init_pid: int) -> int | None:
    """The pid, as the sandbox counts, of the process that made the connection; None when it cannot
    be told, also because it has ended."""
    try:
        # As the process sees it: the kernel knows its socket by the destination that it wanted.
        destination = original_destination(accepted) or accepted.getsockname()[:2]
        peer = accepted.getpeername()[:2]
    except OSError:
        return None
    return _owner(sockets, peer, destination, init_pid, socket.IPPROTO_TCP)


def asker_of(
    sockets: NamespaceSockets, peer: Address, server: Address, init_pid: int
) -> int | None:
    """The same of who sent a datagram from `peer` to a name server."""
    return _owner(sockets, peer, server, init_pid, socket.IPPROTO_UDP)


def _owner(
    sockets: NamespaceSockets, peer: Address, destination: Address, init_pid: int, protocol: int
) -> int | None:
    try:
        inode = _inode(sockets, peer, destination, protocol)
        return _holder(init_pid, f"socket:[{inode}]") if inode else None
    except (OSError, ValueError):
        return None


def _inode(
    sockets: NamespaceSockets, peer: Address, destination: Address, protocol: int
) -> int | None:
    diag = sockets.get("diag")
    if diag is None:
        return None
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    ends = [(socket.inet_pton(family, host), port) for host, port in (peer, destination)]
    if protocol == socket.IPPROTO_UDP:
        ends.reverse()  # so the kernel has it, for UDP alone
    (source, source_port), (target, target_port) = ends
    body = struct.pack("=BBBBI", family, protocol, 0, 0, _ANY_STATE)
    body += _ID.pack(source_port, target_port, source, target) + bytes(4) + _NO_COOKIE
    question = netlink.Message("the socket of a connection", _BY_FAMILY, body)
    for answer in netlink.exchange(diag, [question]):
        # Without the connection, the kernel answers with a listener at its port.
        if len(answer.body) >= _ANSWER_SIZE and answer.body[_STATE_AT] != _LISTEN:
            return int.from_bytes(answer.body[_INODE_AT:_ANSWER_SIZE], sys.byteorder)
    return None


def _holder(init_pid: int, link: str) -> int | None:
    left = MAX_DESCRIPTORS
    for pid in _processes(init_pid):
        directory = f"/proc/{pid}/fd"
        try:
            names = os.listdir(directory)[:left]
        except OSError:
            continue  # it has ended
        left -= len(names)
        if any(_target(f"{directory}/{name}") == link for name in names):
            return _inner_pid(pid)
    return None


def _processes(init_pid: int) -> Iterator[int]:
    """Of the sandbox but its first, which holds no connection; parents before children."""
    waiting, count = [init_pid], 0
    while waiting and count < MAX_PROCESSES:
        pid = waiting.pop()
        count += 1
        if pid != init_pid:
            yield pid
        waiting += _children(pid)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += map(int, file.readall().split())
    except OSError:
        pass  # it has ended; its children are the first process's now
    return found


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _inner_pid(pid: int) -> int | None:
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
    return None
