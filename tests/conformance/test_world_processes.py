"""Stand-ins that are somebody's own programs: they cannot dial out, what they do wrong is theirs,
and what hangs is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.journal.log import RunLog
from paddock.state.home import Home
from paddock.world.saved_worlds import open_saved_world

APP = """
import asyncio, socket

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    context = scope["state"]["paddock"]
    if scope["path"] == "/raise":
        raise KeyError("oops")
    if scope["path"] == "/hang":
        await asyncio.sleep(1000)
    if scope["path"] == "/spin":
        while True:
            pass
    said = str(context.store.next("visits"))
    if scope["path"] == "/dial":
        try:
            socket.create_connection(("198.51.100.1", 443), 3)
            said = "out"
        except OSError as error:
            said = str(error)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": said.encode()})
"""
PROGRAM = """
import http.server, os, pathlib
visits = pathlib.Path(os.environ["PADDOCK_STATE"]) / "visits"

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        count = 1 + int(visits.read_text() if visits.exists() else 0)
        visits.write_text(str(count))
        body = str(count).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.HTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
"""
FILE = """
version: 1
agent: tester
stage: observe
world:
  crm.example: {service: app, app: "fake_crm:app", timeout: 3s}
  files.example: {service: command, run: [python3, fake.py], port: 9000}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("project")
    directory.joinpath("fake_crm.py").write_text(APP)
    directory.joinpath("fake.py").write_text(PROGRAM)
    directory.joinpath("paddock.yaml").write_text(FILE)
    return directory


@pytest.fixture
def box(project: Path) -> Iterator[Sandbox]:
    with Sandbox.create(policy=project / "paddock.yaml") as made:
        yield made


def get(box: Sandbox, url: str) -> str:
    """The body and the status."""
    command = f"curl -s -m 30 -w ' %{{http_code}}' https://{url}"
    return box.commands.run(command, timeout=40).stdout


def test_an_application_cannot_dial_out(box: Sandbox) -> None:
    assert get(box, "crm.example/dial") == "[Errno 101] Network is unreachable 200"


def test_an_application_that_raises_is_to_blame(box: Sandbox) -> None:
    said = get(box, "crm.example/raise")
    assert said.endswith(" 500")
    assert "oops" not in said
    assert [one.name for one in box.alerts()] == ["world.failed"]
    box.kill()
    steps = RunLog(Home.find().runs / box.sandbox_id).steps()
    step = next(step for step in steps if step.kind == "http")
    assert step.outcome == "failed"
    assert step.error == "the stand-in failed: it raised KeyError: 'oops'"
    assert step.result["fault_of"] == "stand-in"


@pytest.mark.parametrize("path", ["hang", "spin"])
def test_an_application_that_hangs_is_cut_off_and_serves_the_next(box: Sandbox, path: str) -> None:
    assert get(box, f"crm.example/{path}").endswith(" 500")
    assert get(box, "crm.example/") == "1 200"
    assert "gave no answer within 3 s" in box.alerts()[0].about["why"]


def test_forks_of_processes_are_independent_and_reset_is_exact(box: Sandbox) -> None:
    before = box.world_digest()
    assert (get(box, "crm.example/"), get(box, "files.example/")) == ("1 200", "1 200")
    child = box.fork()
    try:
        for url in ("crm.example/", "files.example/"):
            assert [get(one, url) for one in (child, child, box)] == ["2 200", "3 200", "2 200"]
    finally:
        child.kill()
    box.reset_world()
    assert box.world_digest() == before
    assert (get(box, "crm.example/"), get(box, "files.example/")) == ("1 200", "1 200")


def test_what_a_program_wrote_is_told_and_undone_when_the_run_is_over(box: Sandbox) -> None:
    assert get(box, "files.example/") == "1 200"
    box.kill()
    with open_saved_world(Home.find().root, box.sandbox_id, read_only=False) as world:
        kept = world.service("files.example")
        assert [(one.kind, one.id) for one in kept.changes()] == [("file", "visits")]
        assert kept.reset() == 1
        assert kept.changes() == []
