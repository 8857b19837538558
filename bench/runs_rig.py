"""The rig of the figures of runs: a home of their own, agents, a project with many files,
and a model that takes its time. Nothing of it is left afterwards.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.rig import Rig
from paddock import Sandbox
from paddock.doors.machine.engine import Engine
from paddock.model.errors import HostCannot
from paddock.model.events import Configured, Record, WentLive
from paddock.run.order import Order, order_of
from paddock.run.session import run

PYTHON = ["/usr/bin/python3", "-I", "-S"]
CALLS = 100
DELAY_S = 0.02
FILES = 10_000
AT = 100  # the step that forks begin at
_HOST = "api.openai.com"
_ANSWER = "It has left our house, and is near."
# Asks a model some times over one kept connection, and says how many seconds that took.
ASKS = """
import http.client, json, ssl, sys, time
host, port, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kind = http.client.HTTPSConnection if port == 443 else http.client.HTTPConnection
link = kind(host, port)
link.connect()
head = {"Content-Type": "application/json", "Authorization": "Bearer sk_test_bench"}
began = time.perf_counter()
said = []
for number in range(calls):
    said.append({"role": "user", "content": "where is my order %d?" % number})
    body = {"model": "gpt-5", "messages": said[-8:]}
    link.request("POST", "/v1/chat/completions", json.dumps(body), head)
    answer = link.getresponse()
    text = json.load(answer)["choices"][0]["message"]["content"]
    assert answer.status == 200, answer.status
    said.append({"role": "assistant", "content": text})
print(time.perf_counter() - began)
"""
IN_SHELL = "i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done"


class Hearing:
    """Watches a run: what its agent says, and when it is told that a fork is live."""

    def __init__(self) -> None:
        self.live_at: float | None = None
        self.output = b""

    def began(self, run: str, configured: Configured) -> None: ...

    def told(self, record: Record) -> None:
        if self.live_at is None and isinstance(record.event, WentLive):
            self.live_at = time.perf_counter()

    def said(self, stream: str, data: bytes) -> None:
        if stream == "stdout":
            self.output += data


@contextlib.contextmanager
def home_of_runs(rig: Rig, name: str) -> Iterator[None]:
    """A home below the scratch directory, which its runs are removed with."""
    before = os.environ.get("PADDOCK_HOME")
    os.environ["PADDOCK_HOME"] = str(rig.scratch / f"home-{name}")
    try:
        yield
    finally:
        Engine.current().close()
        if before is None:
            del os.environ["PADDOCK_HOME"]
        else:
            os.environ["PADDOCK_HOME"] = before


def project(rig: Rig, files: int = 0) -> Path:
    """A directory with so many small files, a hundred to a directory."""
    top = rig.scratch / f"project-{files}"
    top.mkdir(exist_ok=True)
    for number in range(files):
        directory = top / f"part{number // 100}"
        if number % 100 == 0:
            directory.mkdir(exist_ok=True)
        (directory / f"note{number}.txt").write_text(f"note {number}\n" * 10)
    return top


def model_words(delay_s: float) -> dict[str, Any]:
    """A world with a model that answers after so long."""
    answer = {"text": _ANSWER, "delay": f"{round(1000 * delay_s)}ms"} if delay_s else _ANSWER
    rule = {"match": {"user": "where is my order"}, "answer": answer}
    return {_HOST: {"service": "model", "script": {"rules": [rule]}}}


def asking(cwd: Path, *, calls: int = CALLS, delay_s: float = DELAY_S) -> Order:
    """An order for the agent that asks a model."""
    command = [*PYTHON, "-c", ASKS, _HOST, "443", str(calls)]
    return order_of(command, cwd=cwd, world=model_words(delay_s))


def in_shell(cwd: Path, count: int) -> Order:
    """An order for an agent in sh that starts so many programs."""
    return order_of(["/bin/sh", "-c", IN_SHELL.format(count=count)], cwd=cwd)


def recorded(order: Order) -> Path:
    """The directory of a run that went well."""
    ended = run(order)
    if ended.exit_code != 0:
        raise HostCannot(f"the agent of the bench failed: {ended.error or ended.ended_by}")
    return ended.directory


def seconds_recorded(cwd: Path) -> float:
    """Return the seconds that the agent needs for its questions in a run."""
    hearing = Hearing()
    ended = run(asking(cwd), hearing)
    if ended.exit_code != 0:
        raise HostCannot(f"the agent of the bench failed: {ended.error or ended.ended_by}")
    return float(hearing.output)


def seconds_unrecorded(box: Sandbox) -> float:
    """The same as a command of a sandbox with the same world: files are not followed."""
    return float(box.commands.run([*PYTHON, "-c", ASKS, _HOST, "443", str(CALLS)]).stdout)


def seconds_outside(port: int) -> float:
    """The same without a sandbox, without TLS, at a server on loopback that waits as long."""
    words = [*PYTHON, "-c", ASKS, "127.0.0.1", str(port), str(CALLS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return float(done.stdout)


@contextlib.contextmanager
def slow_server() -> Iterator[int]:
    """The port of a server that says the model's words after the model's time."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Slow(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet: otherwise the peer's delayed ACK is measured

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(DELAY_S)
        body = json.dumps({"choices": [{"message": {"content": _ANSWER}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...
