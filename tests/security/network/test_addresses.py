"""Reaching the host, its network or the world by an address, in whatever notation."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator

import pytest

from paddock import Sandbox
from security.attack import eventually, probe, shell
from security.network.conftest import Hosts
from security.network.inside import PROXY, alerts, get, refused, say, say_all, status
from security.network.origins import Origin, careless

DIRECT = "env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY"
# What reaches the door is another address than loopback; the sandbox's own loopback has nobody.
WORLD = {
    "1.1.1.1": "1.1.1.1",
    "16843009": "1.1.1.1",  # one number
    "0x01010101": "1.1.1.1",
    "0x1.0x1.0x1.0x1": "1.1.1.1",
    "01.01.01.01": "1.1.1.1",
    "1.1": "1.0.0.1",  # parts left out
    "1.257": "1.0.1.1",
    "169.254.169.254": "169.254.169.254",
    "2852039166": "169.254.169.254",
    "0xa9fea9fe": "169.254.169.254",
    "0251.0376.0251.0376": "169.254.169.254",
    "::ffff:169.254.169.254": "169.254.169.254",
    "::ffff:0a00:0001": "10.0.0.1",
    "fd00:ec2::254": "fd00:ec2::254",
    "64:ff9b::a9fe:a9fe": "64:ff9b::a9fe:a9fe",
    "2001:4860:4860::8888": "2001:4860:4860::8888",
    "10.0.0.1": "10.0.0.1",
    "192.168.0.1": "192.168.0.1",
    "172.17.0.1": "172.17.0.1",
    "100.64.0.1": "100.64.0.1",
    "198.18.0.1": "198.18.0.1",  # the proxy's address, at another port
    "198.18.0.2": "198.18.0.2",  # the name server's
    "198.18.200.7": "198.18.200.7",  # stands for nothing
}
LOOPBACK = ("127.0.0.1", "localhost", "127.1", "0177.1", "2130706433", "0x7f000001", "0.0.0.0",
            "0", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1",
            "0:0:0:0:0:0:0:1")  # fmt: skip
CONNECT = """
import socket
for name, port in json.loads(sys.argv[1]):
    try:
        family, kind, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as sock:
            sock.settimeout(10)
            sock.connect(address)
            sock.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            found[name] = sock.recv(100).decode("latin-1") or "closed"
    except OSError as error:
        found[name] = type(error).__name__
"""


@pytest.fixture
def service() -> Iterator[Origin]:
    """Something on the host's loopback that is no business of a sandbox."""
    with careless() as origin:
        yield origin


def test_no_address_is_reached_in_any_notation(box: Sandbox) -> None:
    found = probe(box, CONNECT, json.dumps([[name, 80] for name in WORLD]))
    assert set(found.values()) <= {"ConnectionResetError", "closed", "OSError"}, found
    assert set(WORLD.values()) - _denied(box) == set()
    assert set(WORLD.values()) <= {about["host"] for about in alerts(box, "egress.denied")}


def test_an_address_with_a_zone_is_not_reached(box: Sandbox) -> None:
    found = probe(
        box,
        CONNECT,
        json.dumps([[one, 80] for one in ("fe80::1%lo", "fe80::1%1", "fe80::a9fe:a9fe")]),
    )
    assert set(found.values()) <= {"ConnectionResetError", "closed", "OSError"}, found


@pytest.mark.parametrize("way", ["straight", "CONNECT", "absolute"])
def test_the_hosts_loopback_is_not_reached(box: Sandbox, service: Origin, way: str) -> None:
    port = int(service.place.rpartition(":")[2])
    names = [*LOOPBACK, socket.gethostname(), "198.18.0.1", "198.18.0.2", "198.18.1.1"]
    if way == "straight":
        probe(box, CONNECT, json.dumps([[name, port] for name in names]))
    else:
        written = [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names]
        said = {
            one: _by_proxy(get(f"http://{one}/", one))
            if way == "absolute"
            else _by_proxy(_connect(one))
            for one in written
        }
        answers = say_all(box, said)
        assert {status(answer) for answer in answers.values()} <= {400, 403}, answers
    assert service.asked == []
    assert bytes(service.heard) == b""


def test_the_proxy_refuses_addresses_in_every_notation(box: Sandbox) -> None:
    places = [f"[{name}]:443" if ":" in name else f"{name}:443" for name in (*WORLD, *LOOPBACK)]
    said = {one: _by_proxy(_connect(one))
            for one in places}  # fmt: skip
    answers = say_all(box, said)
    assert {status(answer) for answer in answers.values()} <= {400, 403}, answers


def test_the_proxys_own_address_has_nothing_to_show(box: Sandbox) -> None:
    said = {
        "plain": get("/", "198.18.0.1:3128"),
        "own": get("http://198.18.0.1:3128/", "198.18.0.1:3128"),
        "own name": get("http://localhost:3128/", "localhost:3128"),
        "tunnel": _connect("198.18.0.1:3128"),
        "star": get("*", "198.18.0.1:3128", method="OPTIONS"),
        "trace": get("/", "198.18.0.1:3128", method="TRACE"),
        "https": get("https://api.example/", "api.example"),
        "ftp": get("ftp://api.example/", "api.example"),
        "magic": get("http://mitm.it/", "mitm.it"),
    }
    answers = say_all(box, {name: _by_proxy(data) for name, data in said.items()})
    assert {status(answer) for answer in answers.values()} <= {400, 403, 405}, answers
    assert "198.18.0.1" in _denied(box)


def test_the_listeners_own_port_leads_nowhere(box: Sandbox, hosts: Hosts) -> None:
    """It can be found: it is on the sandbox's loopback."""
    listing = shell(box, "cat /proc/net/tcp /proc/net/tcp6").stdout
    ports = {int(port, 16) for port in re.findall(r"(?m)^ *\d+: \w+:(\w{4}) \w+:0000 0A", listing)}
    assert ports
    before = len(hosts.api.asked)
    for port in ports:
        for host in ("127.0.0.1", "::1", "198.18.0.1", "127.0.0.2"):
            answer = say(box, host=host, port=port, data=get("/", "api.example"))
            assert status(answer) == 0, answer
    assert len(hosts.api.asked) == before

    def own() -> set[int]:
        return {
            a["port"] for a in alerts(box, "egress.denied") if a["host"] in ("127.0.0.1", "::1")
        }

    eventually(lambda: ports <= own(), what=f"alerts about {ports}")


def test_a_scan_of_the_stand_in_addresses_finds_only_what_was_asked_for(box: Sandbox) -> None:
    program = """
    import socket
    known = socket.gethostbyname("api.example")
    for number in range(256, 1280, 8):
        address = f"198.18.{number >> 8}.{number & 255}"
        with socket.socket() as sock:
            sock.settimeout(10)
            try:
                sock.connect((address, 80))
                sock.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                answer = sock.recv(10)
            except OSError:
                answer = b""
        if answer and address != known:
            found[address] = answer.decode()
    """
    assert probe(box, program) == {}


def test_an_address_of_another_sandbox_means_nothing_here(hosts: Hosts, box: Sandbox) -> None:
    network = {"allow": ["own.example:80"], "hosts": {"own.example": hosts.other.place}}
    with Sandbox.create(network=network) as second:
        program = "import socket; found['it'] = socket.gethostbyname('api.example')"
        address = probe(box, program)["it"]
        before = len(hosts.api.asked)
        answer = say(second, host=address, port=80, data=get("/", "api.example"))
        assert status(answer) == 0
        assert len(hosts.api.asked) == before
        assert refused(second, "connect")


def test_a_redirect_to_a_denied_host_is_a_new_request(hosts: Hosts, box: Sandbox) -> None:
    location = b"Location: http://169.254.169.254/latest/meta-data/"
    redirect = b"HTTP/1.1 302 Found\r\n" + location + b"\r\nContent-Length: 0\r\n\r\n"
    hosts.api.answer = lambda asked: redirect
    try:
        for lead in (DIRECT, "env"):
            done = shell(box, f"{lead} curl -sSL -m 20 -w '%{{http_code}}' http://api.example/r")
            assert done.exit_code != 0 or done.stdout.endswith("403"), done
    finally:
        hosts.api.answer = Origin("").answer
    assert "169.254.169.254" in _denied(box)
    assert "169.254.169.254" in {about["host"] for about in alerts(box, "egress.denied")}


def _connect(place: str) -> bytes:
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode()


def _by_proxy(data: bytes) -> dict[str, object]:
    return {"host": PROXY[0], "port": PROXY[1], "data": data}


def _denied(box: Sandbox) -> set[str]:
    return {one["host"] for one in refused(box, "connect")}
