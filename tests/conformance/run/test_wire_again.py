"""What real servers and impatient agents do on the wire comes again in a replay: answers that break
off, words of a server's own, uploads that nobody took, and answers that nobody waited for."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.run.session import FinishedRun, run

Answer = Callable[[socket.socket, bytes], None]  # the request is read up to the end of its head
HEAD = """
import http.client, sys, time
def ask(method, path, body=None, host="api.test", timeout=20, **headers):
    connection = http.client.HTTPConnection(host, 80, timeout=timeout)
    connection.request(method, path, body=body, headers=headers)
    return connection.getresponse()
def told(*words, **more):
    try:
        answer = ask(*words, **more)
        return answer.status, answer.reason, answer.read()[:40]
    except Exception as error:
        return type(error).__name__
"""


class Server:
    """Answers each path as it was told to, byte by byte."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.asked: list[str] = []
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (part := sock.recv(1)):
                head += part
            path = head.split()[1].decode()
            self.asked.append(path)
            self._answers.get(path, _ok)(sock, head)

    def close(self) -> None:
        self._listener.close()


def _ok(sock: socket.socket, head: bytes) -> None:
    sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")


def raw(data: bytes, *, wait_s: float = 0.0) -> Answer:
    def answer(sock: socket.socket, head: bytes) -> None:
        time.sleep(wait_s)
        sock.sendall(data)

    return answer


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    one = Played(tmp_path)
    yield one
    one.server.close()


class Played:
    """An agent, the server that it speaks to, and its record."""

    server: Server
    recorded: FinishedRun

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, text: str, answers: dict[str, Answer], **words: Any) -> list[str]:
        self.server = Server(answers)
        hosts = {"api.test": self.server.place, "dead.test": _nowhere()}
        file = {
            "version": 1,
            "agent": "wired",
            "stage": "broad",
            "network": {"allow": [f"{name}:80" for name in hosts], "hosts": hosts},
            "rules": [{"id": "ok", "match": {"kind": "http"}, "decide": "allow", "why": "fine"}],
            **words,
        }
        (self.directory / "paddock.yaml").write_text(json.dumps(file))
        self.write(text)
        heard = Heard()
        self.recorded = run(order_of(["python3", "own.py"], cwd=self.directory), heard)
        assert self.recorded.exit_code == 0, heard.out
        return heard.lines

    def write(self, text: str) -> None:
        (self.directory / "own.py").write_text(HEAD + text)

    def again(self) -> list[str]:
        heard = Heard()
        again = replay(self.recorded.directory, watch=heard)
        assert again.divergence is None, again.divergence.text if again.divergence else ""
        assert again.exit_code == 0
        return heard.lines

    def divergence(self) -> str:
        again = replay(self.recorded.directory)
        assert again.divergence is not None
        return again.divergence.text


class Heard:
    """What the agent printed."""

    def __init__(self) -> None:
        self.out = b""

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None:
        self.out += data


def _nowhere() -> str:
    with socket.create_server(("127.0.0.1", 0)) as once:
        return f"127.0.0.1:{once.getsockname()[1]}"


BROKEN = {
    "of a length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "after its head": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_answer_that_broke_off_breaks_off_again(played: Played, kind: str) -> None:
    lines = played.run('print(told("GET", "/part"))', {"/part": raw(BROKEN[kind])})
    assert lines == ["ConnectionResetError"]
    assert played.again() == lines


def test_a_server_has_its_own_words_again(played: Played) -> None:
    text = """
answer = ask("GET", "/said")
print(answer.status, answer.reason, sorted(answer.headers.items()), answer.read())
"""
    head = b"HTTP/1.1 404 Gone Fishing\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
    lines = played.run(text, {"/said": raw(head + b"2\r\nhi\r\n0\r\n\r\n")})
    assert "Gone Fishing" in lines[0] and "Transfer-Encoding" in lines[0].title()
    assert played.again()[0].lower() == lines[0].lower()


TRAILERS = """
import socket
sock = socket.create_connection(("api.test", 80))
fields = ["GET /long HTTP/1.1", "Host: api.test", "TE: trailers", "Connection: close", "", ""]
sock.sendall("\\r\\n".join(fields).encode())
print(sock.makefile("rb").read().lower())
"""


def test_trailers_come_again(played: Played) -> None:
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 42\r\n\r\n"
    lines = played.run(TRAILERS, {"/long": raw(said)})
    assert "x-sum: 42" in lines[0]
    assert played.again() == lines


def test_what_an_agent_left_early_is_kept_and_given_again(played: Played) -> None:
    text = """
answer = ask("GET", "/big")
print(len(answer.read(3_000_000)), answer.getheader("content-length"))
answer.close()
"""
    size = 6_000_000
    big = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)
    lines = played.run(text, {"/big": raw(big)})
    assert lines == [f"3000000 {size}"]
    assert played.again() == lines


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_an_upload_that_nobody_took_is_the_same_upload_again(played: Played, size: int) -> None:
    octets = {"content-type": "application/octet-stream"}
    text = f"""
print(told("POST", "/up", b"q" * {size}, host="dead.test", **{octets})[:2])
print(told("POST", "/early", b"q" * {size}, **{octets}))
"""
    early = b"HTTP/1.1 413 Too Much\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    lines = played.run(text, {"/early": raw(early)})
    assert lines[0] == "(502, 'Bad Gateway')"
    assert played.again() == lines


STRICT = {
    "blocked": {"rules": [{"id": "no", "match": {"kind": "http"}, "decide": "block", "why": "no"}]},
    "drafted": {"stage": "draft", "rules": []},
    "faulted": {"faults": [{"id": "no", "match": {"kind": "http"}, "fault": {"status": 503}}]},
    "failed": {},
}


@pytest.mark.parametrize("outcome", STRICT)
def test_an_upload_that_is_another_one_is_told_whatever_came_of_it(
    played: Played, outcome: str
) -> None:
    text = """
print(told("POST", "/up", b"q" * 100, "dead.test", **{"content-type": "application/octet-stream"}))
"""
    played.run(text, {}, **STRICT[outcome])
    played.again()
    played.write(text.replace('"q"', '"r"'))
    assert "body_sha256 was" in played.divergence()


def test_numbers_that_are_spelled_otherwise_are_another_body(played: Played) -> None:
    text = """
body = '{"a": 1, "b": 1.0, "c": [1e2, 100]}'
print(told("POST", "/up", body, **{"content-type": "application/json"}))
"""
    played.run(text, {})
    played.write(text.replace('"a": 1, "b": 1.0,', '"b": 1.0, "a": 1,'))
    played.again()
    played.write(text.replace('"a": 1, "b": 1.0,', '"a": 1.0, "b": 1,'))
    assert "body_spelling was" in played.divergence()


RETRYING = """
print(told("GET", "/slow", timeout=0.5))
print(told("GET", "/fast"))
time.sleep(0.3)
print(told("GET", "/work"))
print(told("GET", "/more"))
"""
SLOW = {"never": 20.0, "soon": 0.7}


@pytest.mark.parametrize("answers", SLOW)
def test_an_agent_that_did_not_wait_does_not_wait_again(played: Played, answers: str) -> None:
    slow = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", wait_s=SLOW[answers])
    lines = played.run(RETRYING, {"/slow": slow})
    assert lines[0] == "TimeoutError"
    assert played.again() == lines
    heard = Heard()
    (made,) = fork(played.recorded.directory, ForkOptions(_last(played)), watch=heard)
    assert made.divergence is None and made.exit_code == 0
    assert heard.lines == lines
    assert played.server.asked[-1] == "/more" and played.server.asked.count("/slow") == 1


def test_an_agent_that_left_in_the_middle_of_an_answer_leaves_there_again(played: Played) -> None:
    def half(sock: socket.socket, head: bytes) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
        time.sleep(3)
        sock.sendall(b"cde")

    lines = played.run('print(told("GET", "/half", timeout=0.5))', {"/half": half})
    assert lines == ["TimeoutError"]
    assert played.again() == lines


def test_an_agent_that_ended_before_an_answer_came_ends_before_it_again(played: Played) -> None:
    text = """
import threading
threading.Thread(target=told, args=("GET", "/slow"), daemon=True).start()
time.sleep(0.3)
print(told("GET", "/fast"))
"""
    slow = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", wait_s=1.0)
    lines = played.run(text, {"/slow": slow})
    assert played.again() == lines
    (made,) = fork(played.recorded.directory, ForkOptions(_last(played)))
    assert made.divergence is None and made.exit_code == 0


SHOP = """
import asyncio
async def app(scope, receive, send):
    await asyncio.sleep(float(scope["path"][1:]))
    head = {"type": "http.response.start", "status": 200, "headers": []}
    await send(head)
    await send({"type": "http.response.body", "body": b"ok"})
"""
AT_SHOP = """
import urllib.request
def get(path, timeout):
    try:
        with urllib.request.urlopen("https://shop.test" + path, timeout=timeout) as answer:
            return answer.read()
    except OSError as error:
        return type(getattr(error, "reason", error)).__name__
for path in ("/0.9", "/0", "/0.1"):
    print(path, get(path, 0.5))
"""


def test_a_stand_in_that_nobody_waited_for_is_not_waited_for_again(played: Played) -> None:
    (played.directory / "shop.py").write_text(SHOP)
    world = {"shop.test": {"service": "app", "app": "shop:app"}}
    lines = played.run(AT_SHOP, {}, world=world, network={}, rules=[])
    assert lines == ["/0.9 TimeoutError", "/0 b'ok'", "/0.1 b'ok'"]
    assert played.again() == lines


HALF_CLOSED = """
import socket
sock = socket.create_connection(("api.test", 80))
sock.sendall(b"GET /slow HTTP/1.0\\r\\nHost: api.test\\r\\n\\r\\n")
sock.shutdown(socket.SHUT_WR)
print(sock.makefile("rb").read()[-2:])
"""


def test_a_client_that_will_write_no_more_gets_its_answer(played: Played) -> None:
    slow = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", wait_s=0.5)
    lines = played.run(HALF_CLOSED, {"/slow": slow})
    assert lines == ["b'ok'"]
    assert played.again() == lines


def _last(played: Played) -> int:
    return RecordedRun(played.recorded.directory).last_step
