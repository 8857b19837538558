"""Whether the network door works here: a server on loopback, a sandbox that may reach it under one
name, and attempts at everything else.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from paddock.cli.own_sandbox import create_sandbox
from paddock.doors.machine.sandbox import Sandbox
from paddock.fence.driver import ProbeFinding
from paddock.model.errors import CommandExitException, HostCannot, PaddockError

NAME = "network door"
_BY = "every address leads to the gate: allowed names by DNS, TLS ended, the rest refused"
_TRIED_S = 60
# Python inside, because it speaks for itself: no proxy variable, no client with ideas of its own.
_TRIED = """
import socket, ssl, sys
def ask(host, port, wrap=lambda s: s):
    with socket.create_connection((host, port), 10) as plain, wrap(plain) as s:
        s.sendall(b"GET / HTTP/1.0\\r\\nHost: " + host.encode() + b"\\r\\n\\r\\n")
        return b"".join(iter(lambda: s.recv(65536), b"")).decode("latin-1")
def fails(attempt):
    try:
        return not attempt()
    except OSError:
        return True
def tls(s):
    return ssl.create_default_context().wrap_socket(s, server_hostname="door.test")
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect(("192.0.2.1", 443))
        s.send(b"x")
        return s.recv(100)
checks = {
    "an allowed name was not reached": lambda: sys.argv[1] in ask("door.test", 80),
    "TLS was not ended by an authority that programs trust":
        lambda: ask("door.test", 443, tls).startswith("HTTP/1."),
    "a name that is not allowed was found":
        lambda: fails(lambda: socket.getaddrinfo("other.test", 80)),
    "an address that is not allowed was reached": lambda: fails(lambda: ask("192.0.2.1", 80)),
    "a port that is not allowed was reached": lambda: fails(lambda: ask("door.test", 81)),
    "UDP left": lambda: fails(udp),
}
for said, check in checks.items():
    try:
        held = check()
    except Exception as error:
        held, said = False, f"{said}: {type(error).__name__}: {error}"
    if not held:
        sys.exit(said)
"""


def prove_door(runs: list[str]) -> tuple[ProbeFinding, str | None]:
    """Return what was found, and what went wrong if it is there and does not hold. The id of the
    run that showed it is added to `runs`."""
    token = secrets.token_hex(8)
    with _serving(token) as port:
        network = {
            "allow": ["door.test:80", "door.test:443"],
            "hosts": {"door.test": f"127.0.0.1:{port}"},
        }
        try:
            with create_sandbox("doctor", network=network, timeout=120) as box:
                runs.append(box.sandbox_id)
                return ProbeFinding(NAME, True, _BY), _attempted(box, token)
        except HostCannot as error:
            return ProbeFinding(NAME, False, "", error.message, error.hint), None
        except PaddockError as error:
            return ProbeFinding(NAME, True, _BY), error.message


def _attempted(box: Sandbox, token: str) -> str | None:
    try:
        box.commands.run(["python3", "-c", _TRIED, token], timeout=_TRIED_S)
    except CommandExitException as error:
        return error.stderr.strip()[-300:] or f"the attempts ended with {error.exit_code}"
    return None


@contextlib.contextmanager
def _serving(token: str) -> Iterator[int]:
    """A web server on loopback that knows the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(token)))
            self.end_headers()
            self.wfile.write(token.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(timeout=5)
