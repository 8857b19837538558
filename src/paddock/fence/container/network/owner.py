"""Whose connection it is: which process of a sandbox holds the other end of it.

An answer is a help to those who read what happened, not a basis for decisions: a process can hand
its socket to another, and end.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from itertools import islice

from paddock.fence.container.network import netlink
from paddock.fence.network import original_destination
from paddock.fence.processes.tree import descendants, status_pids

MAX_PROCESSES = 2000  # of a sandbox that are looked at
MAX_DESCRIPTORS = 20_000  # of all of them together
_BY_FAMILY = 20
_LISTEN = 10
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, b"\xff" * 8
_ID = struct.Struct("!HH16s16s")  # ports of and to, addresses of and to
_STATE_AT, _INODE_AT, _ANSWER_SIZE = 1, 68, 72

Address = tuple[str, int]


def owner_of(diag: socket.socket | None, accepted: socket.socket, init_pid: int) -> int | None:
    """Return the pid, as the sandbox counts, of the process that made the connection; None when it
    cannot be told, also because it has ended. `diag` is a socket-diagnosis socket of the sandbox's
    network, if its kernel has them."""
    try:
        # As the process sees it: the kernel knows its socket by the destination that it wanted.
        destination = original_destination(accepted) or accepted.getsockname()[:2]
        inode = None if diag is None else _inode(diag, accepted.getpeername()[:2], destination)
        return _holder(init_pid, f"socket:[{inode}]") if inode else None
    except (OSError, ValueError):
        return None


def _inode(diag: socket.socket, peer: Address, destination: Address) -> int | None:
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    source, target = socket.inet_pton(family, peer[0]), socket.inet_pton(family, destination[0])
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE)
    body += _ID.pack(peer[1], destination[1], source, target) + bytes(4) + _NO_COOKIE
    question = netlink.NetlinkMessage("the socket of a connection", _BY_FAMILY, body)
    for answer in netlink.exchange(diag, [question]):
        # Without the connection, the kernel answers with a listener at its port.
        if len(answer.body) >= _ANSWER_SIZE and answer.body[_STATE_AT] != _LISTEN:
            return int.from_bytes(answer.body[_INODE_AT:_ANSWER_SIZE], sys.byteorder)
    return None


def _holder(init_pid: int, link: str) -> int | None:
    left = MAX_DESCRIPTORS
    for pid in islice(descendants(init_pid), MAX_PROCESSES):
        directory = f"/proc/{pid}/fd"
        try:
            names = os.listdir(directory)[:left]
        except OSError:
            continue  # it has ended
        left -= len(names)
        if any(_target(f"{directory}/{name}") == link for name in names):
            return status_pids(pid)[0]
    return None


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
