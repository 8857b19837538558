"""Agents that do something else in their next run, and a server that counts who comes. No test
lives here."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from paddock.doors.trust import GIVEN
from paddock.journal.log import RunLog
from paddock.model.steps import AGENT_STEP
from paddock.run.order import order_of
from paddock.run.session import FinishedRun, run
from security.network.origins import OK, scripted

AGENT = "exec(open('plan.py').read())\n"
VALUE = "the-value-of-the-secret"
SECRETS = "secrets:\n  API_KEY: {from: env:ATTACK_TEST_KEY, to: [api.example]}\n"
GET = "import urllib.request\nprint(urllib.request.urlopen('http://api.example/one').read())\n"
# A connection that is kept open over all requests.
KEPT = """
import http.client, os
connection = http.client.HTTPConnection("api.example", 80, timeout=20)
def get(path):
    try:
        key = "Bearer " + os.environ["API_KEY"]
        connection.request("GET", path, headers={"authorization": key})
        answer = connection.getresponse()
        print(path, answer.status, answer.read()[:40], flush=True)
    except (OSError, http.client.HTTPException) as error:
        print(path, type(error).__name__, flush=True)
for path in ("/one", "/two", "/three"):
    get(path)
"""
_TERMS = """
version: 1
agent: attacker
stage: broad
network:
  allow: [api.example:80, api.example:8080, "raw.example:5432/tcp"]
  hosts: {{api.example: "{place}", raw.example: "{place}"}}
world: {{api.stripe.com: payments}}
"""


@dataclass
class Counted:
    """A server: how many connections it had, and every byte that it heard."""

    place: str = ""
    connections: int = 0
    heard: bytearray = field(default_factory=bytearray)

    def speak(self, sock: socket.socket) -> None:
        self.connections += 1
        data = b""
        while more := sock.recv(65536):
            self.heard += more
            data += more
            while b"\r\n\r\n" in data:
                data = data.partition(b"\r\n\r\n")[2]
                sock.sendall(OK)

    def clear(self) -> None:
        self.connections = 0
        self.heard.clear()


@dataclass(frozen=True)
class Stand:
    """A project with an agent that follows plan.py, which is no part of any record."""

    project: Path
    server: Counted

    @property
    def terms(self) -> str:
        return _TERMS.format(place=self.server.place)

    def plan(self, text: str) -> None:
        (self.project / "plan.py").write_text(text)

    def record(self, plan: str, terms: str | None = None) -> FinishedRun:
        """Runs it under terms; then the server has forgotten."""
        self.plan(plan)
        (self.project / "paddock.yaml").write_text(terms or self.terms + SECRETS)
        ended = run(order_of(["python3", "agent.py"], cwd=self.project, trust=GIVEN))
        assert ended.exit_code == 0, said(ended)
        self.server.clear()
        return ended

    def policy(self, text: str) -> str:
        """A file beside the usual one."""
        path = self.project / "other.yaml"
        path.write_text(text)
        return str(path)


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.setenv("ATTACK_TEST_KEY", VALUE)
    project = tmp_path / "project"
    project.mkdir()
    (project / "agent.py").write_text(AGENT)
    server = Counted()
    with scripted(server.speak) as origin:
        server.place = origin.place
        yield Stand(project, server)


def said(ended: FinishedRun) -> str:
    """What the agent printed."""
    log = RunLog(ended.directory)
    result = log.whole_step(log.step(AGENT_STEP)).result
    return str(result.get("stdout", "")) + str(result.get("stderr", ""))


def steps(ended: FinishedRun, kind: str) -> dict[int, tuple[str, str, bool]]:
    """Of a kind: its verdict, its outcome, and whether it was answered from a record."""
    return {
        step.number: (str(step.verdict), str(step.outcome or ""), step.is_replayed)
        for step in RunLog(ended.directory).steps()
        if step.kind == kind
    }
