"""The three ways to one server that the network figures compare: directly, through mitmdump, and
through the door. The load is one program; only where it runs and which proxy it names differ.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from bench.network import load, origin
from paddock import Sandbox
from paddock.doors.network.names.table import PROXY_ADDRESS, PROXY_PORT
from paddock.model.errors import HostCannot

MITMDUMP = "PADDOCK_BENCH_MITMDUMP"  # names the program where it is not on the path
NAME = "bench.example"  # what the server is called inside a sandbox
_LOAD = Path(load.__file__)
PYTHON = ["/usr/bin/python3", "-I", "-S"]  # the same interpreter inside and outside
_DOOR_PROXY = (PROXY_ADDRESS, PROXY_PORT)
_READY_S = 30.0
_LOAD_S = 300.0
Words = dict[str, Any]


class Route(msgspec.Struct, frozen=True):
    """One way to the server. `ports`: of plain HTTP and of TLS."""

    name: str
    host: str
    ports: tuple[int, int]
    run: Callable[[list[str]], str]
    proxy: tuple[str, int] | None = None

    def load(self, work: str, *, is_tls: bool, **words: Any) -> Words:
        """Run the load once, and return what it measured. Raises HostCannot when it fails."""
        answer: Words = json.loads(self.run(self.argv(work, is_tls=is_tls, **words)))
        return answer

    def argv(self, work: str, *, is_tls: bool, **words: Any) -> list[str]:
        way = {"host": self.host, "port": self.ports[is_tls], "tls": is_tls, "proxy": self.proxy}
        return [json.dumps({"work": work, "way": way, **words})]


class Routes(msgspec.Struct, frozen=True):
    """All that could be made ready, and why mitmdump is not among them if it is not."""

    direct: Route
    door: Route
    straight: Route  # the door, for a client that knows of no proxy
    mitmdump: Route | None
    absent: str = ""


class Server(msgspec.Struct, frozen=True):
    """The running origin."""

    ports: tuple[int, int]
    certificate: Path

    def network(self) -> dict[str, Any]:
        """The terms under which a sandbox reaches both its ports."""
        return {
            "allow": [f"{NAME}:{port}" for port in self.ports],
            "hosts": {NAME: "127.0.0.1"},
            "tls": {"ca": str(self.certificate)},
        }


@contextlib.contextmanager
def open_routes(scratch: Path) -> Iterator[Routes]:
    """The server and all ways to it, gone after the block."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(open_server(scratch))
        direct = Route("direct", "127.0.0.1", server.ports, _outside)
        peer, absent = _peer(stack, scratch, server)
        box = stack.enter_context(open_box(server))
        inside = inside_of(box)
        straight = Route("door", NAME, server.ports, inside)
        door = Route("door", NAME, server.ports, inside, _DOOR_PROXY)
        yield Routes(direct, door, straight, peer, absent)


@contextlib.contextmanager
def open_server(scratch: Path) -> Iterator[Server]:
    certificate, key = _certified(scratch)
    words = [sys.executable, "-I", "-S", origin.__file__, str(certificate), str(key)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ports = process.stdout.readline().split()
            if len(ports) != 2:
                raise HostCannot("the server of the bench did not start")
            yield Server((int(ports[0]), int(ports[1])), certificate)
        finally:
            process.kill()


@contextlib.contextmanager
def open_box(server: Server) -> Iterator[Sandbox]:
    """A sandbox that may reach the server, with the load in its files and all cores to run it."""
    limits = {"cpu": len(os.sched_getaffinity(0)), "files": 4096}
    with Sandbox.create(limits=limits, network=server.network(), timeout=3600) as box:
        box.files.write("load.py", _LOAD.read_text())
        yield box


def inside_of(box: Sandbox) -> Callable[[list[str]], str]:
    def run(words: list[str]) -> str:
        return box.commands.run([*PYTHON, "load.py", *words], timeout=_LOAD_S).stdout

    return run


def _outside(words: list[str]) -> str:
    ended = subprocess.run(
        [*PYTHON, str(_LOAD), *words], capture_output=True, text=True, timeout=_LOAD_S
    )
    if ended.returncode != 0:
        raise HostCannot(f"the load failed: {ended.stderr.strip()[-300:]}")
    return ended.stdout


def _peer(stack: contextlib.ExitStack, scratch: Path, server: Server) -> tuple[Route | None, str]:
    program = os.environ.get(MITMDUMP) or shutil.which("mitmdump")
    if program is None:
        return None, "mitmdump is not installed: scripts/bench brings it along"
    port = _free_port()
    try:
        stack.enter_context(_mitmdump(program, scratch, port, server.certificate))
    except (OSError, HostCannot) as error:
        return None, f"mitmdump does not run: {error}"
    return Route("mitmdump", "127.0.0.1", server.ports, _outside, ("127.0.0.1", port)), ""


@contextlib.contextmanager
def _mitmdump(program: str, scratch: Path, port: int, certificate: Path) -> Iterator[None]:
    """Run mitmdump, as quiet as it gets and otherwise as it comes."""
    words = [program, "-q", "--mode", "regular", "--listen-host", "127.0.0.1",
             "--listen-port", str(port),
             "--set", f"confdir={scratch / 'mitmproxy'}",
             "--set", f"ssl_verify_upstream_trusted_ca={certificate}"]  # fmt: skip
    with (scratch / "mitmdump.log").open("w+") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait_for(process, port)
            yield
        finally:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.1)
    raise HostCannot("mitmdump did not begin to listen")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _certified(scratch: Path) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Paddock bench")])
    names = [x509.DNSName(NAME), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = scratch / "server.pem", scratch / "server.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, private
