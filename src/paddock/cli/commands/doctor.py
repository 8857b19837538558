"""`paddock doctor`: what can be enforced on this host, what not, why, and what fixes it.

It does not stop at looking: it starts a sandbox with small limits and tries to break each of them.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from paddock.cli.output import is_coloured, say_json
from paddock.cli.parser import CommandParser
from paddock.cli.render.cells import labelled, paint
from paddock.cli.render.progress import Progress
from paddock.cli.render.table import line_width
from paddock.model.errors import CommandExitException, HostCannot, PaddockError

if TYPE_CHECKING:
    from paddock.doors.machine.sandbox import Sandbox
    from paddock.fence.driver import ProbeFinding
    from paddock.state.home import Home

_LIMITS = {"memory": "128MiB", "pids": 24, "disk": "32MiB", "cpu": 1}
_COLOURS = {"ok": "32", "no": "33", "BROKEN": "31"}
DOOR = "network door"
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


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock doctor", description=__doc__)
    parser.add_json()
    parser.add_flag("--no-tests", "look only, start no sandbox")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    from paddock.fence.registry import driver_class
    from paddock.state.home import Home

    home = Home.find()
    is_tested = not options.no_tests
    checks = 1 + (1 + len(_ATTEMPTS) if is_tested else 0)
    progress = Progress(checks, is_shown=is_tested and not options.json)
    progress.begin("this host")
    probed = driver_class().probe(home)
    progress.end()
    findings, proofs = probed.findings, {}
    runs: list[str] = []
    if probed.is_usable and is_tested:
        progress.begin(DOOR)
        door, failure = prove_door(runs)
        progress.end(failure)
        findings = (*findings, door)
        proofs = prove(progress, runs) | ({DOOR: failure} if door.is_enforced else {})
    is_sound = probed.is_usable and all(p is None for p in proofs.values())
    if options.json:
        say_json({**_plain(home, findings, proofs, is_sound), "runs": runs})
    else:
        _show(home, findings, proofs)
        if runs:
            print(f"tried in the runs {' and '.join(runs)}")
    return 0 if is_sound else 3


def prove(progress: Progress, runs: list[str]) -> dict[str, str | None]:
    """Attack each boundary: None when it held, else what happened. The id of the run in which that
    was done is added to `runs`."""
    from paddock.cli.own_sandbox import create_sandbox

    proofs: dict[str, str | None] = {}
    try:
        with create_sandbox("doctor", limits=_LIMITS, timeout=120) as box:
            runs.append(box.sandbox_id)
            for name, attempt in _ATTEMPTS.items():
                progress.begin(name)
                proofs[name] = attempt(box)
                progress.end(proofs[name])
    except PaddockError as error:
        proofs["isolation"] = error.message
    return proofs


def _isolation(box: Sandbox) -> str | None:
    tried = "cat /etc/shadow || ls /root || mount -t tmpfs x /mnt || unshare -U true"
    return _must_fail(box, tried)


def _no_network(box: Sandbox) -> str | None:
    return _must_fail(box, "exec 3<>/dev/tcp/192.0.2.1/53")


def _memory(box: Sandbox) -> str | None:
    hog = "import mmap\nm=[]\nwhile True: m.append(bytearray(8<<20))"
    return _must_fail(box, ["python3", "-c", hog], "memory")


def _pids(box: Sandbox) -> str | None:
    return _must_fail(box, "for i in $(seq 100); do sleep 5 & done; wait", timeout=15)


def _disk(box: Sandbox) -> str | None:
    failure = _must_fail(box, "dd if=/dev/zero of=big bs=1M count=256; sleep 3; exit 1", "disk")
    box.commands.run("rm -f big")
    return failure


def _exec_events(box: Sandbox) -> str | None:
    box.commands.run("env true")
    seen = [e.argv for e in box.exec_events()]
    return None if ("true",) in seen else "a nested exec was not reported"


def _pause(box: Sandbox) -> str | None:
    box.pause()
    state = box.get_info().state
    box.resume()
    return None if state == "paused" else f"state is {state}"


_ATTEMPTS: dict[str, Callable[[Sandbox], str | None]] = {
    "isolation": _isolation,
    "network": _no_network,
    "exec events": _exec_events,
    "pause": _pause,
    "memory": _memory,
    "disk": _disk,
    "pids": _pids,
}


def _must_fail(
    box: Sandbox, cmd: str | list[str], limit: str | None = None, timeout: float = 30
) -> str | None:
    try:
        box.commands.run(cmd, timeout=timeout)
    except CommandExitException as error:
        is_by_limit = limit in error.result.limits_hit or "MemoryError" in error.stderr
        if limit is None or is_by_limit:
            return None
        return f"stopped, but not by the {limit} limit"
    return "it was possible"


def _plain(
    home: Home, findings: tuple[ProbeFinding, ...], proofs: dict[str, str | None], is_sound: bool
) -> dict[str, object]:
    return {
        "ok": is_sound,
        "home": str(home.root),
        "kernel": platform.release(),
        "root": os.geteuid() == 0,
        "findings": [msgspec.structs.asdict(finding) for finding in findings],
        "proved": {name: failure is None for name, failure in proofs.items()},
        "failures": {name: failure for name, failure in proofs.items() if failure},
    }


def _show(home: Home, findings: tuple[ProbeFinding, ...], proofs: dict[str, str | None]) -> None:
    from paddock.fence.driver import ProbeFinding

    width = line_width()
    who = "root" if os.geteuid() == 0 else "ordinary user"
    print("\n".join(labelled("", f"Linux {platform.release()}, {who}, {home.root}", width)))
    network = ProbeFinding(
        "network", True, "own namespace, loopback only unless the file allows more"
    )
    for finding in (*findings[:2], network, *findings[2:]):
        failure = proofs.get(finding.name)
        if not finding.is_enforced:
            mark = "no"
        elif failure:
            mark = "BROKEN"
        else:
            mark = "ok"
        proved = ", proved" if finding.name in proofs and not failure else ""
        label = f"{mark:6} {finding.name:12} "
        first, *rest = labelled(label, f"{finding.by or 'not available'}{proved}", width)
        if is_coloured():
            first = first.replace(mark, paint(mark, _COLOURS[mark]), 1)
        print("\n".join([first, *rest]))
        for label, text in (("", failure), ("", finding.why_not), ("fix: ", finding.fix)):
            if text:
                print("\n".join(labelled(f"{'':20}{label}", text, width)))


def prove_door(runs: list[str]) -> tuple[ProbeFinding, str | None]:
    """Return what was found, and what went wrong if it is there and does not hold. The id of the
    run that showed it is added to `runs`."""
    from paddock.cli.own_sandbox import create_sandbox
    from paddock.fence.driver import ProbeFinding

    token = os.urandom(8).hex()
    with _serve(token) as port:
        network = {
            "allow": ["door.test:80", "door.test:443"],
            "hosts": {"door.test": f"127.0.0.1:{port}"},
        }
        try:
            with create_sandbox("doctor", network=network, timeout=120) as box:
                runs.append(box.sandbox_id)
                return ProbeFinding(DOOR, True, _BY), _attempt_network(box, token)
        except HostCannot as error:
            return ProbeFinding(DOOR, False, "", error.message, error.hint), None
        except PaddockError as error:
            return ProbeFinding(DOOR, True, _BY), error.message


def _attempt_network(box: Sandbox, token: str) -> str | None:
    try:
        box.commands.run(["python3", "-c", _TRIED, token], timeout=_TRIED_S)
    except CommandExitException as error:
        return error.stderr.strip()[-300:] or f"the attempts ended with {error.exit_code}"
    return None


@contextlib.contextmanager
def _serve(token: str) -> Iterator[int]:
    """Run a web server on loopback that knows the token. Give its port."""
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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
