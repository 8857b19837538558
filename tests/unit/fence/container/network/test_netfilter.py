"""The rules as the kernel has them, read back by nftables' own program in a network of the test's.

What they do to packets is tested in a sandbox (tests/conformance/test_network_namespace.py).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.fence.container.network import namespace, netfilter, netlink
from paddock.fence.network import NetworkAttempt

PORTS = [
    netfilter.Ports(socket.AF_INET, 4001, 4002),
    netfilter.Ports(socket.AF_INET6, 6001, 6002),
]
# In namespaces of its own: installs, and prints what the kernel says and what the programs show.
_INSTALL = """
import json, socket, subprocess, sys
from paddock.fence.container.network import netfilter
from paddock.fence.container.network import netlink
from paddock.fence.container.network import namespace
ports = [netfilter.Ports(*p) for p in json.loads(sys.argv[1])]
rules = netfilter.chains(ports)
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netlink.exchange(sock, netfilter.batch(rules))
counted = netfilter.counted(netlink.exchange(sock, netfilter.rules_in_force()))
subprocess.run([sys.argv[3], "link", "set", "lo", "up"], check=True)
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
netlink.exchange(route, [namespace.everywhere_is_local(p.family) for p in ports])
def show(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
print(json.dumps({
    "counted": counted,
    "rules": show(sys.argv[2], "list", "ruleset"),
    "v4": show(sys.argv[3], "-4", "route", "show", "table", "local"),
    "v6": show(sys.argv[3], "-6", "route", "show", "table", "local"),
}))
"""


@pytest.fixture(scope="module")
def installed() -> dict[str, object]:
    paths = os.environ["PATH"] + ":/usr/sbin:/sbin"
    nft, ip = shutil.which("nft", path=paths), shutil.which("ip", path=paths)
    if nft is None or ip is None:
        pytest.skip("nft and ip, to compare with, are not installed")
    ports = json.dumps([[p.family, p.tcp, p.dns] for p in PORTS])
    words = ["unshare", "-Urn", sys.executable, "-c", _INSTALL, ports, nft, ip]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def _chain(installed: dict[str, object], name: str) -> list[str]:
    text = str(installed["rules"]).partition(f"chain {name} {{")[2].partition("}")[0]
    return [line.strip() for line in text.strip().splitlines()]


def test_redirect_leads_tcp_and_dns_of_each_family_to_its_own_ports(
    installed: dict[str, object],
) -> None:
    assert _chain(installed, "redirect")[1:] == [
        "ip daddr 127.0.0.0/8 accept",
        "ip6 daddr ::1 accept",
        "meta nfproto ipv4 meta l4proto tcp redirect to :4001",
        "meta nfproto ipv4 udp dport 53 redirect to :4002",
        "meta nfproto ipv6 meta l4proto tcp redirect to :6001",
        "meta nfproto ipv6 udp dport 53 redirect to :6002",
    ]


def test_refusal_is_what_is_left(installed: dict[str, object]) -> None:
    head, *rules = _chain(installed, "refuse")
    assert "hook input" in head and "policy drop" in head
    assert rules[:3] == [
        "ip daddr 127.0.0.0/8 accept",
        "ip6 daddr ::1 accept",
        "ct state established,related accept",
    ]
    logged = "limit rate 50/second burst 100 packets log group 1 snaplen 320"
    assert rules[3].startswith(f"meta l4proto tcp {logged}")
    assert rules[4].endswith("reject with tcp reset")
    assert rules[5].startswith(f"udp dport 53 {logged}")
    assert rules[6].startswith("udp dport 53 reject")
    assert rules[7].startswith(logged)
    assert rules[8].startswith("reject")


def test_records_are_kept_of_connections_to_the_door_alone(installed: dict[str, object]) -> None:
    head, *rules = _chain(installed, "track")
    assert "hook output priority raw" in head
    assert "ip daddr 127.0.0.1 tcp dport 4001 reject with tcp reset" in rules
    assert "ip6 saddr ::1 udp sport 6002 accept" in rules
    assert "ip daddr 127.0.0.0/8 notrack accept" in rules
    assert "udp dport 53 limit rate over 500/second burst 1000 packets drop" in rules
    assert rules[-1] == "notrack"


def test_every_rule_is_counted_when_the_table_is_read_back(installed: dict[str, object]) -> None:
    wanted = {name: len(rules) for name, rules in netfilter.chains(PORTS).items()}
    assert installed["counted"] == wanted


def test_every_address_is_local_beside_loopback(installed: dict[str, object]) -> None:
    v4, v6 = str(installed["v4"]), str(installed["v6"])
    assert "local default dev lo" in v4 and "local 127.0.0.0/8 dev lo" in v4
    assert "local default dev lo" in v6 and "local ::1 dev lo" in v6


def test_family_without_a_listener_has_no_redirect() -> None:
    both, one = netfilter.chains(PORTS), netfilter.chains(PORTS[:1])
    assert len(one["redirect"]) == len(both["redirect"]) - 2
    assert one["refuse"] == both["refuse"]


# ---- logged packets ------------------------------------------------------------------------------


def _logged(packet: bytes) -> list[NetworkAttempt]:
    """As a reader of the log gets it."""
    body = struct.pack("!BBH", 0, 0, 1) + netlink.attribute(9, packet)
    return list(
        namespace.attempts_in(netlink.packed({0: netlink.NetlinkMessage("", 4 << 8, body)}))
    )


def _v4(protocol: int, rest: bytes, *, fragment: int = 0, words: int = 5) -> bytes:
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 0, 0, fragment, 64, protocol, 0,
                       b"\x7f\0\0\1", b"\x09\x09\x09\x09")  # fmt: skip
    return head + bytes(4 * (words - 5)) + rest


def test_datagram_is_an_attempt_with_its_port() -> None:
    assert _logged(_v4(17, struct.pack("!HH", 999, 443))) == [NetworkAttempt("udp", "9.9.9.9", 443)]


def test_options_of_a_header_are_passed_over() -> None:
    packet = _v4(17, struct.pack("!HH", 999, 443), words=8)
    assert _logged(packet) == [NetworkAttempt("udp", "9.9.9.9", 443)]


def test_later_fragment_has_no_port() -> None:
    packet = _v4(17, struct.pack("!HH", 999, 443), fragment=5)
    assert _logged(packet) == [NetworkAttempt("udp", "9.9.9.9", None)]


def test_ping_has_no_port_and_unknown_protocol_its_number() -> None:
    assert _logged(_v4(1, bytes(8))) == [NetworkAttempt("icmp", "9.9.9.9", None)]
    assert _logged(_v4(99, bytes(8))) == [NetworkAttempt("99", "9.9.9.9", None)]


@given(st.binary(max_size=100))
def test_any_packet_is_at_most_one_attempt(packet: bytes) -> None:
    assert len(_logged(packet)) <= 1


@given(st.binary(max_size=200))
def test_any_datagram_of_the_log_is_read_without_an_error(datagram: bytes) -> None:
    list(namespace.attempts_in(datagram))
