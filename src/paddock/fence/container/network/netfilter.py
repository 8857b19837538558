"""The rules of a sandbox's network as messages to the kernel, one batch, all or nothing.

TCP and DNS to any address but loopback end at the host's sockets. All else that is not for
loopback is logged and refused: without the rules it would come back to the sandbox itself.
Where the host has no sockets, because the sandbox has no network, everything is.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from paddock.fence.container.network import expressions as ex
from paddock.fence.container.network.netlink import (
    ACK,
    APPEND,
    CREATE,
    DUMP,
    EXCL,
    REQUEST,
    NetlinkAnswer,
    NetlinkMessage,
    attribute,
    attributes,
    be32,
    nested,
    text,
)

TABLE = "paddock"
LOG_GROUP = 1
LOGGED_BYTES = 320  # of a packet: the headers, and the name in a DNS query
LOGS = (50, 100)  # a second, and at once; beyond, packets are refused without a word
# The kernel remembers a connection for up to two minutes, in memory that no limit of the sandbox
# counts. So it is not told of any but those for the door, and of no more than these of them.
SYNS = (1000, 2000)
QUESTIONS = (500, 1000)
_LOOPBACK: dict[int, bytes] = {socket.AF_INET: b"\x7f\0\0\1", socket.AF_INET6: bytes(15) + b"\1"}
_DNS_PORT = 53
_TABLES, _LOG = 10 << 8, 4 << 8  # subsystems of netfilter's netlink
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE, _GET_RULE = (_TABLES | n for n in (0, 2, 3, 6, 7))
_LOGGED_PACKET, _LOG_CONFIG = _LOG, _LOG | 1
_COPY_PACKET = 2
_NEW = REQUEST | CREATE | EXCL
_INET = 1
_HOOK_INPUT, _HOOK_OUTPUT = 1, 3
_BEFORE_TRACKING, _BEFORE_FILTERS, _AT_FILTERS = -300, -100, 0
_RULE_TABLE, _RULE_CHAIN, _RULE_EXPRESSIONS = 1, 2, 4
_MESSAGE_HEADER = 4
_LOGGED_PAYLOAD = 9


class Ports(msgspec.Struct, frozen=True):
    """The ports of loopback at which the host listens, for one family of addresses."""

    family: int
    tcp: int
    dns: int


def chains(ports: Sequence[Ports]) -> dict[str, tuple[bytes, ...]]:
    """Return the rules of each chain, in order. A family without ports is refused as a whole."""
    v4 = ex.is_family(socket.AF_INET) + ex.is_to(socket.AF_INET, b"\x7f")
    v6 = ex.is_family(socket.AF_INET6) + ex.is_to(socket.AF_INET6, _LOOPBACK[socket.AF_INET6])
    is_dns = _is_dns()
    is_logged = ex.is_within(*LOGS) + ex.log(LOG_GROUP, LOGGED_BYTES)
    accept, drop = ex.verdict(ex.ACCEPT), ex.verdict(ex.DROP)
    return {
        "track": (
            *(rule for each in ports for rule in _straight_to_door(each, is_logged)),
            *(rule + accept for each in ports for rule in _from_door(each)),
            # It finds its way back only if it is known what it is about; it adds no record.
            *(ex.is_unreachable(family) + accept for family in _LOOPBACK),
            v4 + ex.untracked() + accept,
            v6 + ex.untracked() + accept,
            *(rule for family in _LOOPBACK for rule in _to_many(family, is_logged)),
            ex.is_tcp() + ex.is_syn() + ex.is_over(*SYNS) + drop,
            ex.is_tcp() + accept,
            is_dns + ex.is_over(*QUESTIONS) + drop,
            is_dns + accept,
            ex.untracked(),
        ),
        "redirect": (
            v4 + accept,
            v6 + accept,
            *(
                ex.is_family(each.family) + rule
                for each in ports
                for rule in (ex.is_tcp() + ex.redirect(each.tcp), is_dns + ex.redirect(each.dns))
            ),
        ),
        "refuse": (
            # Without a name server, a resolver asks loopback, where nobody listens.
            *(() if ports else (v4 + is_dns + is_logged, v6 + is_dns + is_logged)),
            v4 + accept,
            v6 + accept,
            ex.is_known() + accept,
            # Each kind has a limit of its own: a flood of one hides no attempt of another.
            ex.is_tcp() + is_logged,
            ex.is_tcp() + ex.reset(),
            is_dns + is_logged,
            is_dns + ex.unreachable(),
            is_logged,
            ex.unreachable(),
        ),
    }


def batch(rules: Mapping[str, Sequence[bytes]]) -> list[NetlinkMessage]:
    """Return the messages for what `chains` gives. The kernel does all of them or none, and
    reports a failure in any case: the last one alone asks for an answer."""
    numbered = list(enumerate(((chain, rule) for chain in rules for rule in rules[chain]), 1))
    last = len(numbered)
    return [
        NetlinkMessage("begin of the rules", _BATCH_BEGIN, _header(0, _TABLES >> 8), REQUEST),
        # Made, removed and made: rules that were there before are replaced in the same step.
        NetlinkMessage("a table", _NEW_TABLE, _header() + text(1, TABLE), REQUEST | CREATE),
        NetlinkMessage("removing the table", _DELETE_TABLE, _header() + text(1, TABLE), REQUEST),
        NetlinkMessage("a new table", _NEW_TABLE, _header() + text(1, TABLE), _NEW),
        _chain("track", "filter", (_HOOK_OUTPUT, _BEFORE_TRACKING), ex.ACCEPT),
        _chain("redirect", "nat", (_HOOK_OUTPUT, _BEFORE_FILTERS), ex.ACCEPT),
        # On the way in, as a port at which nobody listens: a program sees the errors that it
        # knows. On the way out the sending itself would fail, with EPERM.
        _chain("refuse", "filter", (_HOOK_INPUT, _AT_FILTERS), ex.DROP),
        *(_rule(chain, rule, n, is_last=n == last) for n, (chain, rule) in numbered),
        NetlinkMessage("end of the rules", _BATCH_END, _header(0, _TABLES >> 8), REQUEST),
    ]


def listen_to_log() -> NetlinkMessage:
    """Makes the asking socket the one that is told of logged packets. EBUSY: it is already."""
    return NetlinkMessage(
        "listening to the log", _LOG_CONFIG, _header(0, LOG_GROUP) + attribute(1, b"\1")
    )


def log_settings() -> NetlinkMessage:
    """Has the socket that listens told of the beginning of each packet, at once."""
    mode = struct.pack("!IBB", LOGGED_BYTES, _COPY_PACKET, 0)
    body = _header(0, LOG_GROUP) + attribute(2, mode) + be32(5, 1)
    return NetlinkMessage("settings of the log", _LOG_CONFIG, body)


def rules_in_force() -> list[NetlinkMessage]:
    """Asks for the table as the kernel has it; `counted` reads the answer."""
    body = _header() + text(_RULE_TABLE, TABLE)
    return [NetlinkMessage("reading the rules", _GET_RULE, body, REQUEST | DUMP)]


def counted(answers: Sequence[NetlinkAnswer]) -> dict[str, int]:
    """Count the rules of each chain."""
    rules = (attributes(a.body[_MESSAGE_HEADER:]) for a in answers if a.kind == _NEW_RULE)
    names = (rule.get(_RULE_CHAIN, b"").rstrip(b"\0") for rule in rules)
    return dict(Counter(name.decode("ascii", "replace") for name in names))


def logged_payload(answer: NetlinkAnswer) -> bytes:
    """Return the beginning of a logged packet, from its network header on; empty if there is
    none."""
    if answer.kind != _LOGGED_PACKET:
        return b""
    return attributes(answer.body[_MESSAGE_HEADER:]).get(_LOGGED_PAYLOAD, b"")


@cache
def _is_dns() -> bytes:
    return ex.is_udp() + ex.is_to_port(_DNS_PORT)


def _straight_to_door(ports: Ports, logged: bytes) -> tuple[bytes, ...]:
    """Return rules that refuse connections to the listeners themselves: where such a connection
    wants to go cannot be known. Those for another address are not redirected yet at this point."""
    door = ex.is_family(ports.family) + ex.is_to(ports.family, _LOOPBACK[ports.family])
    tcp = door + ex.is_tcp() + ex.is_to_port(ports.tcp)
    udp = door + ex.is_udp() + ex.is_to_port(ports.dns)
    return tcp + logged, tcp + ex.reset(), udp + logged, udp + ex.unreachable()


def _from_door(ports: Ports) -> tuple[bytes, bytes]:
    """Match answers of the door, by port and by address: no program inside can send from there
    too."""
    source = ex.is_family(ports.family) + ex.is_from(ports.family, _LOOPBACK[ports.family])
    return (
        source + ex.is_tcp() + ex.is_from_port(ports.tcp),
        source + ex.is_udp() + ex.is_from_port(ports.dns),
    )


def _to_many(family: int, logged: bytes) -> tuple[bytes, bytes]:
    """Multicast is refused here: loopback does not bring it back, so that it never comes in."""
    condition = ex.is_family(family) + ex.is_to_many(family)
    return condition + logged, condition + ex.verdict(ex.DROP)


def _header(family: int = _INET, resource: int = 0) -> bytes:
    return struct.pack("!BBH", family, 0, resource)


def _chain(name: str, kind: str, where: tuple[int, int], policy: int) -> NetlinkMessage:
    hook = nested(4, be32(1, where[0]), be32(2, where[1]))
    body = _header() + text(1, TABLE) + text(3, name) + hook + be32(5, policy) + text(7, kind)
    return NetlinkMessage(f"a chain of type {kind}", _NEW_CHAIN, body, _NEW)


def _rule(chain: str, rule: bytes, number: int, *, is_last: bool) -> NetlinkMessage:
    body = _rule_start(chain) + nested(_RULE_EXPRESSIONS, rule)
    flags = REQUEST | CREATE | APPEND | (ACK if is_last else 0)
    return NetlinkMessage(f"rule {number} ({chain})", _NEW_RULE, body, flags)


@cache
def _rule_start(chain: str) -> bytes:
    return _header() + text(_RULE_TABLE, TABLE) + text(_RULE_CHAIN, chain)
