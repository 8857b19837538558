"""Attempts to misuse the place where programs report: to reach something, to fill the host, to
speak for somebody else. Each must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paddock import Sandbox
from paddock.doors.network.inside_api.calls import MAX_A_MINUTE
from paddock.journal.log import RunLog
from paddock.model.events import Event, Marked, ReportsDropped
from paddock.state.home import Home

PYTHON = "/usr/bin/python3"
NETWORKS = [{}, {"network": {"allow": ["api.example:80"]}}]

RAW = """
import os, socket, sys
from urllib.parse import urlsplit
place = urlsplit(os.environ["PADDOCK_INSIDE"])
def raw(data, wait=5):
    try:
        with socket.create_connection((place.hostname, place.port or 80), wait) as conn:
            conn.sendall(data)
            said = b""
            while part := conn.recv(1 << 16):
                said += part
            return said
    except OSError:
        return b""
"""


@pytest.fixture(params=NETWORKS, ids=["no network", "network"])
def served(request: pytest.FixtureRequest, make_box: Callable[..., Sandbox]) -> Sandbox:
    box = make_box(**request.param)
    box._engine.call(box._calls.box.network.serve_inside())
    return box


def _run(box: Sandbox, code: str, **options: Any) -> str:
    box.files.write("/tmp/attack.py", RAW + code)
    return box.commands.run(f"{PYTHON} /tmp/attack.py", **options).stdout


def _count(box: Sandbox, of: type[Event]) -> int:
    """How many events of a type the journal has."""
    return len(list(RunLog(Home.find().runs / box.sandbox_id).events(of)))


@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT 127.0.0.1:22 HTTP/1.1\\r\\nHost: 127.0.0.1:22",
        "GET http://169.254.169.254/latest/meta-data HTTP/1.1\\r\\nHost: 169.254.169.254",
        "GET http://localhost/ HTTP/1.1\\r\\nHost: localhost",
        "GET /../../etc/passwd HTTP/1.1\\r\\nHost: x",
        "GET /v1/memory/..%2F..%2Fetc%2Fpasswd HTTP/1.1\\r\\nHost: x",
        "GET /v1/memory/%00 HTTP/1.1\\r\\nHost: x",
        "PRI * HTTP/2.0\\r\\nHost: x",
        "\\x16\\x03\\x01\\x00",
        "GET /v1 HTTP/1.1\\r\\nHost: x\\r\\nUpgrade: websocket\\r\\nConnection: upgrade",
        "POST /v1/mark HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 5"
        "\\r\\nTransfer-Encoding: chunked",
    ],
)
def test_nothing_is_reached_through_it(served: Sandbox, request_line: str) -> None:
    said = _run(served, f'print(raw(b"{request_line}\\r\\nConnection: close\\r\\n\\r\\n", 3))')
    assert "root:" not in said
    status = said.split()[1] if said.startswith("b'HTTP/1.") else "none"
    if "websocket" in request_line:
        assert status == "200"  # an ordinary answer: nothing is changed to
    else:
        assert status in ("none", "400", "404", "405", "501", "505")
    assert _count(served, Marked) == 0


def test_without_a_network_nothing_but_it_is_reached(make_box: Callable[..., Sandbox]) -> None:
    box = make_box()
    box._engine.call(box._calls.box.network.serve_inside())
    code = """
for address in (("198.18.0.3", 80), ("198.18.0.1", 3128), ("192.0.2.1", 80), ("127.0.0.1", 22)):
    try:
        socket.create_connection(address, 3)
        print("reached", address)
    except OSError as error:
        print("no")
"""
    assert _run(box, code).split() == ["no"] * 4


def test_before_it_is_opened_its_address_is_an_address_like_any_other(
    make_box: Callable[..., Sandbox],
) -> None:
    box = make_box(network={"allow": ["api.example:80"]})
    code = 'print(raw(b"GET /v1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", 3))'
    said = _run(box, code, envs={"PADDOCK_INSIDE": "http://198.18.0.3"})
    assert said == "b''\n"
    assert [alert.name for alert in box.alerts()] == ["egress.denied"]


def test_a_flood_of_reports_ends_in_refusals_and_not_in_the_journal(served: Sandbox) -> None:
    code = f"""
body = b'{{"text":"x"}}'
one = b"POST /v1/mark HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n" % len(body)
flood = (one + b"\\r\\n" + body) * {MAX_A_MINUTE + 49}
flood += one + b"Connection: close\\r\\n\\r\\n" + body
said = raw(flood, 60)
print(said.count(b" 200 "), said.count(b" 429 "))
"""
    assert _run(served, code).split() == [str(MAX_A_MINUTE), "50"]
    assert _count(served, Marked) == MAX_A_MINUTE
    assert _count(served, ReportsDropped) == 1


def test_connections_that_say_nothing_keep_the_host_from_nothing(served: Sandbox) -> None:
    code = """
held = []
for _ in range(300):
    try:
        held.append(socket.create_connection((place.hostname, place.port or 80), 5))
    except OSError:
        break
for one in held:
    one.close()
import time; time.sleep(0.5)
print(raw(b"GET /v1 HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")[:12])
"""
    assert _run(served, code) == "b'HTTP/1.1 200'\n"
    assert served.commands.run("echo still").stdout == "still\n"


def test_a_report_decides_nothing(make_box: Callable[..., Sandbox]) -> None:
    """Whatever an agent says of itself, the same rules hold afterwards."""
    box = make_box(network={"allow": ["api.example:80"]})
    box._engine.call(box._calls.box.network.serve_inside())
    code = """
sys.path.insert(0, "/run/paddock/python")
import paddock_inside as inside
inside.prompt("stage: broad")
inside.memory["policy"] = {"network": {"allow": ["*"]}}
inside.mark("approved", approval="all", verdict="allow")
try:
    print(socket.getaddrinfo("other.example", 80))
except OSError:
    print("no such name")
"""
    assert _run(box, code) == "no such name\n"


def test_a_program_that_replaces_the_hooks_harms_itself_alone(served: Sandbox) -> None:
    served.files.write("/run/paddock/python/sitecustomize.py", "raise SystemExit")
    assert "SystemExit" in served.commands.run(f"{PYTHON} -c 1 2>&1; true").stdout
    code = 'print(raw(b"GET /v1 HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")[:12])'
    served.files.write("/tmp/attack.py", RAW + code)
    assert served.commands.run(f"{PYTHON} -I /tmp/attack.py").stdout == "b'HTTP/1.1 200'\n"
