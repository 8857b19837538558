"""A connection to one name with a request for another: fronting, coalescing, and their kin.

Both names are allowed in most of these. It must fail nevertheless: what a rule decided on is one
name, and a server that answers for both would do what was asked of the other.
"""

from __future__ import annotations

from typing import Any

import pytest

from paddock import Sandbox
from security.network.conftest import Hosts
from security.network.inside import (
    PROXY,
    alerts,
    get,
    refused,
    say,
    say_all,
    status,
)

CONNECT = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n"


@pytest.fixture(autouse=True)
def _silence(hosts: Hosts) -> None:
    for origin in hosts.all:
        origin.clear()


def nobody_heard(hosts: Hosts) -> bool:
    return not any(origin.asked for origin in hosts.all)


@pytest.mark.parametrize(
    "claimed",
    ["other.example", "evil.example", "API.example.evil.example", "api.example:81",
     "api.example:443", "127.0.0.1", "[::1]", "api.example:80:80", "api.example,other.example",
     "user@api.example",
     "api.example@evil.example", "api.example/evil.example", "api%2eexample", "api.example..",
     "api.example:", "", "xn--api.example", "\u0430pi.example"],
)  # fmt: skip
def test_a_host_header_must_be_the_connections_name(
    box: Sandbox, hosts: Hosts, claimed: str
) -> None:
    data = get("/", claimed) if claimed.isascii() else get("/", "?").replace(b"?", claimed.encode())
    answer = say(box, host="api.example", port=80, data=data)
    if claimed == "api.example:":  # an empty port is the usual one, says the standard
        assert [one.host for one in hosts.api.asked] == ["api.example"]
        return
    assert status(answer) in (400, 421), answer
    assert nobody_heard(hosts)
    if status(answer) == 421:
        assert claimed in {about["claimed"] for about in alerts(box, "egress.mismatch")}


@pytest.mark.parametrize("claimed", ["API.EXAMPLE", "api.example.", "api.example:80"])
def test_the_server_gets_the_one_spelling_of_its_name(
    box: Sandbox, hosts: Hosts, claimed: str
) -> None:
    assert status(say(box, host="api.example", port=80, data=get("/", claimed))) == 200
    assert [one.host for one in hosts.api.asked] == ["api.example"]


@pytest.mark.parametrize(
    "lines",
    [["Host: other.example"], ["hOST: other.example"], ["Host : other.example"],
     [" Host: other.example"], ["X: y\n Host: other.example"], ["X: y\nHost: other.example"]],
)  # fmt: skip
def test_a_second_host_header_is_refused(box: Sandbox, hosts: Hosts, lines: list[str]) -> None:
    answer = say(box, host="api.example", port=80, data=get("/", "api.example", *lines))
    assert status(answer) == 400, answer
    assert nobody_heard(hosts)


def test_a_request_without_a_host_goes_to_the_connections_name(box: Sandbox, hosts: Hosts) -> None:
    say(box, host="api.example", port=80, data=b"GET /none HTTP/1.0\r\n\r\n")
    assert [one.host for one in hosts.api.asked] == ["api.example"]


@pytest.mark.parametrize(
    "target",
    ["http://other.example/", "http://evil.example/", "https://other.example/", "//other.example/",
     "http:///", "http://api.example@evil.example/", "other.example:80", "evil.example"],
)  # fmt: skip
def test_an_absolute_target_on_a_redirected_connection_leads_nowhere_else(
    box: Sandbox, hosts: Hosts, target: str
) -> None:
    answer = say(box, host="api.example", port=80, data=get(target, "api.example"))
    if target.startswith("//"):  # a path, of the host that is connected to
        assert [one.host for one in hosts.api.asked] == ["api.example"]
        hosts.api.clear()
    else:
        assert status(answer) in (400, 421), answer
    assert nobody_heard(hosts)


@pytest.mark.parametrize(
    "target, host",
    [("http://api.example/", "other.example"), ("http://api.example/", "evil.example"),
     ("http://evil.example/", "api.example"), ("http://evil.example/", "evil.example"),
     ("http://api.example:8080/", "api.example:8080"),
     ("http://api.example:443/", "api.example:443"), ("http://a:b@api.example/", "api.example"),
     ("http://api.example\\@evil.example/", "api.example"),
     ("http://evil.example#@api.example/", "api.example"), ("HTTP://evil.example/", "evil.example"),
     ("/", "api.example@evil.example"), ("/", "evil.example")],
)  # fmt: skip
def test_the_proxy_takes_one_name_that_is_allowed(
    box: Sandbox, hosts: Hosts, target: str, host: str
) -> None:
    answer = say(box, host=PROXY[0], port=PROXY[1], data=get(target, host))
    assert status(answer) in (400, 403), answer
    assert nobody_heard(hosts)


def test_the_proxy_decides_on_every_request_of_a_connection(box: Sandbox, hosts: Hosts) -> None:
    first = get("http://api.example/1", "api.example").replace(b"Connection: close\r\n", b"")
    second = get("http://evil.example/2", "evil.example")
    answer = say(box, host=PROXY[0], port=PROXY[1], data=first + second)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert answer.count(b"HTTP/1.1 403") == 1
    assert hosts.api.targets == ["/1"]
    assert "evil.example" in {one["host"] for one in refused(box, "connect")}


@pytest.mark.parametrize(
    "place", ["evil.example:443", "api.example:22", "secure.example:22", "secure.example:80",
              "secure.example:0", "secure.example:65979", "secure.example:443:80", "secure.example",
              "http://secure.example:443", "secure.example:443@evil.example:443"],
)  # fmt: skip
def test_connect_to_another_host_or_port_is_refused(box: Sandbox, hosts: Hosts, place: str) -> None:
    data = CONNECT % (place.encode(), b"secure.example:443")
    answer = say(box, host=PROXY[0], port=PROXY[1], data=data)
    assert status(answer) in (400, 403), answer
    assert nobody_heard(hosts)
    if status(answer) == 403:
        host, _, port = place.rpartition(":")
        about = {"host": host, "port": int(port), "transport": "tcp"}
        assert about in alerts(box, "egress.denied")


@pytest.mark.parametrize(
    "tunnel, sni, host",
    [("secure.example:443", "front.example", "front.example"),
     ("secure.example:443", "evil.example", "evil.example"),
     ("secure.example:443", "secure.example", "front.example"),
     ("secure.example:443", "secure.example", "evil.example"),
     ("secure.example:443", "secure.example", "secure.example:80"),
     ("secure.example:443", "", "front.example"),
     (None, "front.example", "secure.example"),
     (None, "secure.example.evil.example", "secure.example"),
     (None, "secure.example", "front.example"),
     (None, "", "evil.example")],
)  # fmt: skip
def test_domain_fronting_fails(
    box: Sandbox, hosts: Hosts, tunnel: str | None, sni: str, host: str
) -> None:
    answer = say(box, **_by_tls(tunnel, sni, get("/", host)))
    assert status(answer) in (0, 421), answer
    assert nobody_heard(hosts)
    claimed = host if sni in ("", "secure.example") else sni
    assert {"host": "secure.example", "port": 443, "claimed": claimed} in alerts(
        box, "egress.mismatch"
    )


def test_tls_for_the_right_name_is_answered(box: Sandbox, hosts: Hosts) -> None:
    """Otherwise the attempts above would prove nothing."""
    for tunnel in (None, "secure.example:443"):
        for sni in ("secure.example", ""):
            answer = say(box, **_by_tls(tunnel, sni, get("/yes", "secure.example")))
            assert status(answer) == 200, answer
    assert hosts.secure.targets == ["/yes"] * 4


def test_a_tunnel_with_plain_http_inside_is_for_its_own_name(box: Sandbox, hosts: Hosts) -> None:
    tunnel = CONNECT % (b"api.example:80", b"api.example:80")
    words: dict[str, Any] = {"host": PROXY[0], "port": PROXY[1], "tunnel": tunnel}
    answers = say_all(
        box,
        {
            "right": {**words, "data": get("/in", "api.example")},
            "wrong": {**words, "data": get("/in", "other.example")},
            "absolute": {**words, "data": get("http://evil.example/", "evil.example")},
            "nested": {**words, "data": CONNECT % (b"evil.example:80", b"evil.example:80")},
        },
    )
    assert status(answers["right"]) == 200
    assert all(status(answers[one]) in (400, 405, 421) for one in ("wrong", "absolute", "nested"))
    assert hosts.api.targets == ["/in"]
    hosts.api.clear()
    assert nobody_heard(hosts)


@pytest.mark.parametrize("sni", ["evil.example", "secure.example"])
def test_tls_that_is_not_ended_must_ask_for_its_own_name(
    box: Sandbox, hosts: Hosts, sni: str
) -> None:
    words = {**_by_tls("pinned.example:443", sni, get("/", "pinned.example"))}
    assert status(say(box, **words)) == 0
    assert bytes(hosts.pinned.heard) == b""
    assert sni in {about["claimed"] for about in alerts(box, "egress.mismatch")}


def test_what_is_neither_http_nor_tls_does_not_pass_an_entry_without_tcp(
    box: Sandbox, hosts: Hosts
) -> None:
    said = {
        "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
        "binary": bytes(range(64)),
        "socks5": b"\x05\x01\x00\x05\x01\x00\x03\x0cevil.example\x00\x50",
        "socks4": b"\x04\x01\x00\x50\x7f\x00\x00\x01x\x00",
        "proxy protocol": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 80\r\n" + get("/", "api.example"),
        "haproxy 2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12),
        "smtp": b"EHLO x\r\nMAIL FROM:<a@b>\r\n",
        "nothing": b"",
    }
    answers = say_all(box, {k: {"host": "api.example", "port": 80, "data": v, "is_done": True}
                            for k, v in said.items()})  # fmt: skip
    assert not any(b" 200 " in answer for answer in answers.values()), answers
    assert bytes(hosts.api.heard) == b""


def _by_tls(tunnel: str | None, sni: str, data: bytes) -> dict[str, Any]:
    if tunnel is None:
        return {"host": "secure.example", "port": 443, "sni": sni, "data": data}
    words = CONNECT % (tunnel.encode(), tunnel.encode())
    return {"host": PROXY[0], "port": PROXY[1], "sni": sni, "data": data, "tunnel": words}
