"""Measures what one sandbox can do to another one of the same process: how long a command takes in
one while the other floods the door with JSON of small values, backslashes and escapes, all of which
the host must look at.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from bench.figures import Figure, Limit, number, percentile_ms
from bench.rig import TRUE, Rig
from paddock import Sandbox
from paddock.model.errors import HostCannot

_HOST = "bench.example"
_VARIABLE = "PADDOCK_BENCH_NEIGHBOUR_KEY"
_CLIENTS = 8
_WARM_UP_S = 1.0
# Answers with escapes, in which the door looks for the value of the secret.
_ORIGIN = r"""
import http.server, sys
ANSWER = (b"\\" * 4096 + b"%41%2541&#65;\\u0041" * 256) * 16
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left > 0:
            left -= len(self.rfile.read(min(left, 65536))) or left
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)
    def log_message(self, *_):
        pass
class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass
server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
_FLOOD = r"""
import http.client, itertools, sys, threading
SIZE = (1 << 20) - 64
BODIES = [b"[" + b"1," * (SIZE // 2) + b"1]", b"[" + b'"",' * (SIZE // 3) + b'""]',
          b"[" + b"{}," * (SIZE // 3) + b"{}]", b'"' + b"\\\\" * (SIZE // 2) + b'"',
          b'"' + b"%41" * (SIZE // 3) + b'"', b'"' + b"\\u0041" * (SIZE // 6) + b'"']
def flood(at):
    for body in itertools.islice(itertools.cycle(BODIES), at, None):
        try:
            link = http.client.HTTPConnection(sys.argv[1], 80, timeout=60)
            link.request("POST", "/", body, {"Content-Type": "application/json"})
            link.getresponse().read()
            link.close()
        except OSError:
            pass
for at in range(int(sys.argv[2])):
    threading.Thread(target=flood, args=(at,)).start()
"""


def neighbour(rig: Rig) -> list[Figure]:
    """The longest of many commands in a sandbox beside one that floods the door."""
    count = rig.count(200, 40)
    with _flooding() as start_flood, Sandbox.create(timeout=3600) as quiet:
        alone = _samples(quiet, count)
        start_flood()
        time.sleep(_WARM_UP_S)
        beside = _samples(quiet, count)
    worst, middle = max(beside) * 1000, percentile_ms(beside, 50)
    note = f"p50 {number(middle)} ms; without the flood {number(max(alone) * 1000)} ms at most"
    return [
        Figure(
            name="neighbour",
            title="longest command beside a sandbox that floods the door",
            value=worst,
            unit="ms",
            n=count,
            limit=Limit(1000),
            note=note,
        )
    ]


def _samples(box: Sandbox, count: int) -> list[float]:
    samples: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        box.commands.run(TRUE)
        samples.append(time.perf_counter() - began)
    return samples


@contextlib.contextmanager
def _flooding() -> Iterator[Callable[[], object]]:
    """A sandbox that floods when the function that this gives is called."""
    os.environ[_VARIABLE] = os.urandom(24).hex()
    words = [sys.executable, "-I", "-S", "-c", _ORIGIN]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as origin:
        try:
            assert origin.stdout is not None
            port = origin.stdout.readline().strip()
            if not port:
                raise HostCannot("the server of the bench did not start")
            network = {"allow": [f"{_HOST}:80"], "hosts": {_HOST: f"127.0.0.1:{port}"}}
            secrets = {"KEY": {"from": f"env:{_VARIABLE}", "to": [_HOST]}}
            with Sandbox.create(network=network, secrets=secrets, timeout=3600) as box:
                box.files.write("flood.py", _FLOOD)
                argv = ["/usr/bin/python3", "-I", "-S", "flood.py", _HOST, str(_CLIENTS)]
                yield lambda: box.commands.run(argv, background=True)
        finally:
            origin.kill()
            del os.environ[_VARIABLE]
