"""Any program on loopback as a stand-in, with a directory as its state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.world.registry import load_service
from paddock.world.service import StandInFailed
from paddock.world.services.command import Command
from unit.world.services.app.doorway import ask, body, context

NOTES = """
import http.server, os, pathlib

state = pathlib.Path(os.environ["PADDOCK_STATE"])
(state / "begun").write_text("yes")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/env":
            text = os.environ.get("WORD", "") + os.getcwd()
        elif self.path == "/health" and not (state / "warm").exists():
            (state / "warm").write_text("")
            self.send_error(503)
            return
        elif self.path.startswith("/add/"):
            (state / self.path[5:]).write_text(self.path)
            text = "added"
        else:
            text = ",".join(sorted(p.name for p in state.iterdir()))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
"""
ECHO = """
import socket
listener = socket.create_server(("127.0.0.1", 9000))
while True:
    caller, _ = listener.accept()
    caller.sendall(b"220 hello")
    caller.close()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    (tmp_path / "project" / "notes.py").write_text(NOTES)
    (tmp_path / "project" / "echo.py").write_text(ECHO)
    (tmp_path / "project" / "files").mkdir()
    (tmp_path / "project" / "files" / "first").write_text("1")
    return tmp_path


def command(place: Path, name: str = "service", program: str = "notes.py", **words: Any) -> Command:
    options = {"run": ["python3", program], "port": 9000, **words}
    made = Command(context(place, options, name=name))
    made.check()
    return made


async def said(service: Command, path: str = "/") -> str:
    return body(await ask(service, path)).decode()


def test_the_name_in_a_file_leads_to_it() -> None:
    assert load_service("command") is Command


def test_a_program_answers_with_its_environment_in_its_directory(place: Path) -> None:
    async def main() -> None:
        service = command(place, env={"WORD": "x"}, cwd="sub", run=["python3", "../notes.py"])
        try:
            assert await said(service, "/env") == f"x{place}/project/sub"
        finally:
            await service.close()

    asyncio.run(main())


def test_two_programs_may_listen_on_the_same_port(place: Path) -> None:
    async def main() -> None:
        one, two = command(place, "one"), command(place, "two")
        try:
            await said(one, "/add/a")
            assert await said(two) == "begun"
        finally:
            await one.close()
            await two.close()

    asyncio.run(main())


def test_reset_puts_the_files_back_that_were_there_when_it_was_ready(place: Path) -> None:
    async def main() -> None:
        service = command(place, state="files")
        before = service.extra_digest()
        try:
            assert await said(service) == "begun,first"
            assert service.extra_digest() == before
            await said(service, "/add/more")
            assert service.extra_digest() != before
            assert [change.id for change in service.extra_changes()] == ["more"]
            await service.reset()
            assert service.extra_digest() == before
            assert service.extra_changes() == []
            assert await said(service) == "begun,first"
        finally:
            await service.close()

    asyncio.run(main())


def test_a_fork_begins_with_the_files_and_goes_its_own_way(place: Path) -> None:
    async def main() -> None:
        parent, child = command(place, "parent"), command(place, "child")
        try:
            await said(parent, "/add/both")
            await child.copy_from(parent)
            await said(parent, "/add/parents")
            await said(child, "/add/childs")
            assert await said(parent) == "begun,both,parents"
            assert await said(child) == "begun,both,childs"
            await child.reset()
            assert await said(child) == "begun"
        finally:
            await parent.close()
            await child.close()

    asyncio.run(main())


def test_the_same_files_have_the_same_digest(place: Path) -> None:
    async def main() -> None:
        services = [command(place, "one"), command(place, "two")]
        try:
            for service in services:
                await said(service, "/add/x")
            assert services[0].extra_digest() == services[1].extra_digest()
        finally:
            for service in services:
                await service.close()

    asyncio.run(main())


def test_a_link_that_a_program_made_is_not_followed(place: Path) -> None:
    code = "import os; os.symlink('/etc/passwd', os.environ['PADDOCK_STATE'] + '/l')\n"
    (place / "project" / "links.py").write_text(code + ECHO)

    async def main() -> None:
        service = command(place, program="links.py", tcp=True)
        try:
            (await service.connect()).close()
            assert service.show()["files"] == {"l": {"link": "/etc/passwd"}}
            await service.reset()
            assert (place / "service" / "own" / "state" / "l").is_symlink()
        finally:
            await service.close()

    asyncio.run(main())


def test_ready_waits_until_a_path_is_answered_well(place: Path) -> None:
    async def main() -> None:
        service = command(place, ready="/health")
        try:
            assert await said(service) == "begun,warm"
        finally:
            await service.close()

    asyncio.run(main())


def test_a_path_that_is_never_answered_well_is_given_up(place: Path) -> None:
    (place / "project" / "sick.py").write_text(NOTES.replace("not (state", "(state, state"))

    async def main() -> None:
        service = command(place, program="sick.py", ready="/health", ready_s=2)
        try:
            with pytest.raises(StandInFailed, match="/health was not answered well within 2 s"):
                await service.connect()
        finally:
            await service.close()

    asyncio.run(main())


def test_bare_bytes_are_passed_on(place: Path) -> None:
    async def main() -> None:
        service = command(place, program="echo.py", tcp=True)
        assert not service.is_http
        try:
            with await service.connect() as caller:
                loop = asyncio.get_running_loop()
                async with asyncio.timeout(10):
                    assert await loop.sock_recv(caller, 100) == b"220 hello"
        finally:
            await service.close()

    asyncio.run(main())


@for_each(
    "words",
    [
        {"run": "python3 fake.py"},
        {"run": []},
        {"port": 0},
        {"port": "9000"},
        {"port": True},
        {"tcp": "yes"},
        {"ready": "health"},
        {"ready": "/a b"},
        {"ready": "/health", "tcp": True},
        {"cwd": "../.."},
        {"state": "missing"},
    ],
)
def test_words_that_make_no_sense_are_refused(place: Path, words: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        command(place, **words)
