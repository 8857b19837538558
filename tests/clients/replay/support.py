"""Agents with real clients, the servers they speak to, and their replays. No test lives here."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from paddock.run.order import order_of
from paddock.run.replay.replay import RECORDED, PastOptions, replay
from paddock.run.session import FinishedRun, run

_BLOCK = 64 << 10


class Heard:
    """What the agent printed."""

    def __init__(self) -> None:
        self.out = b""

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None:
        self.out += data


class Site(ThreadingHTTPServer):
    """Answers every request with the size of its body and how many came before; `/large/N` with N
    bytes; `/until/N` begins at once, and ends after N others of these have ended."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = self.ended = 0
        self.has_ended = threading.Condition()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        self._answer(0)

    def do_POST(self) -> None:
        length = self.headers.get("content-length")
        self._answer(self._chunked() if length is None else len(self.rfile.read(int(length))))

    do_PUT = do_POST

    def _answer(self, size: int) -> None:
        self.server.asked += 1
        if self.path.startswith("/large/"):
            return self._large(int(self.path.rpartition("/")[2]))
        if self.path.startswith("/until/"):
            return self._until(int(self.path.rpartition("/")[2]))
        body = json.dumps({"bytes": size, "number": self.server.asked}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _large(self, size: int) -> None:
        self.send_response(200)
        self.send_header("content-length", str(size))
        self.end_headers()
        for at in range(0, size, _BLOCK):  # no two blocks are the same: such ones are kept once
            self.wfile.write((at.to_bytes(8, "big") * (_BLOCK // 8))[: size - at])

    def _until(self, count: int) -> None:
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nbegin\r\n")
        server = self.server
        with server.has_ended:
            server.has_ended.wait_for(lambda: server.ended >= count, timeout=60)
        time.sleep(0.2)  # so that who reads them has seen the one before end
        self.wfile.write(b"3\r\nend\r\n0\r\n\r\n")
        with server.has_ended:
            server.ended += 1
            server.has_ended.notify_all()

    def _chunked(self) -> int:
        size = 0
        while length := int(self.rfile.readline(), 16):
            size += len(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return size

    def log_message(self, *_: Any) -> None: ...


def record(
    place: Path, agent: str, hosts: Mapping[str, str], name: str = "agent.py", **words: Any
) -> tuple[FinishedRun, str]:
    """Run an agent against real servers on this machine, and return what it printed."""
    file: dict[str, Any] = {"version": 1, "agent": "client", "stage": "broad", **words}
    if hosts:
        names = {place.partition(":")[0]: server for place, server in hosts.items()}
        file["network"] = {"allow": list(hosts), "hosts": names}
    (place / "paddock.yaml").write_text(json.dumps(file))
    (place / name).write_text(agent)
    heard = Heard()
    ended = run(order_of([sys.executable, name], cwd=place, timeout=100), heard)
    assert ended.exit_code == 0, heard.out.decode()
    return ended, heard.out.decode()


def again(ended: FinishedRun, *vary: str, clock: str = RECORDED) -> tuple[FinishedRun, str]:
    """Replay it without its servers. Only what is named may vary."""
    heard = Heard()
    past = PastOptions(vary=vary)
    replayed = replay(ended.directory, watch=heard, past=past, clock=clock)
    assert replayed.divergence is None, replayed.divergence.text
    return replayed, heard.out.decode()
