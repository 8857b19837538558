"""Long answers and WebSockets are recorded whole, and come again in replays and in forks' pasts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.server import Server, ServerConnection, serve

from clients.replay.support import Heard, Site, again, record
from paddock.gate.run_gate import signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.run.files import home_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.run.session import FinishedRun

SIZE = 20_000_000
DOWNLOAD = f"""
import hashlib, urllib.request
answer = urllib.request.urlopen("http://up.test/large/{SIZE}", timeout=60)
digest, size = hashlib.sha256(), 0
while part := answer.read(65536):
    digest.update(part)
    size += len(part)
print(size, answer.headers["content-length"], digest.hexdigest())
print(urllib.request.urlopen("http://up.test/after", timeout=20).read())
"""
SIDE_BY_SIDE = """
import json, urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed

def read(path):
    answer = urllib.request.urlopen("http://up.test" + path, timeout=60)
    return path, len(answer.read())

with ThreadPoolExecutor(4) as threads:
    paths = ["/until/3", "/until/2", "/until/1", "/until/0"]
    order = [done.result() for done in as_completed([threads.submit(read, p) for p in paths])]
request = urllib.request.Request("http://up.test/order", json.dumps(order).encode())
request.add_header("content-type", "application/json")
print(order, urllib.request.urlopen(request, timeout=20).read())
"""
TALK = """
import json, time, urllib.request, uuid
from websockets.sync.client import connect
with connect("ws://up.test/chat", proxy=None, max_size=None) as ws:
    ws.send(json.dumps({"say": "hello", "at": time.time(), "id": str(uuid.uuid1())}))
    print(ws.recv())
    ws.send(b"\\x00\\xff" * 10)
    print(ws.recv())
    ws.send("x" * 3_000_000)
    print(len(ws.recv()))
    print(urllib.request.urlopen("http://api.test/between", timeout=20).read())
    ws.send("push")
    print([ws.recv() for _ in range(3)])
print("closed", ws.protocol.close_code)
with connect("ws://up.test/leave", proxy=None) as ws:
    ws.send("bye")
    try:
        ws.recv()
    except Exception as error:
        print(type(error).__name__, error.rcvd.code, error.rcvd.reason)
print(urllib.request.urlopen("http://api.test/after", timeout=20).read())
"""


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.shutdown()
    server.server_close()


def _talk(ws: ServerConnection) -> None:
    for said in ws:
        if said == "push":
            for number in range(3):
                ws.send(f"event {number}")
        elif said == "bye":
            ws.close(4001, "go away")
        else:
            ws.send(said if isinstance(said, bytes) else f"you said {said}")


@pytest.fixture
def chat() -> Iterator[Server]:
    with serve(_talk, "127.0.0.1", 0, max_size=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server


def _hosts(site: Site, chat: Server) -> dict[str, str]:
    port = chat.socket.getsockname()[1]
    return {"up.test:80": f"127.0.0.1:{port}", "api.test:80": site.place}


def _result(ended: FinishedRun, part: str) -> dict[str, Any]:
    """The recorded answer of the first request whose path has that part."""
    for step in RunLog(ended.directory).steps():
        if part in str(step.arguments.get("path")):
            assert step.settled is not None
            return dict(step.result)
    raise AssertionError(part)


def _is_intact(ended: FinishedRun) -> bool:
    key = signing_key(home_of(ended.directory)).public
    return not verify(ended.directory, key).problems


def test_a_long_answer_comes_again_in_replays_and_forks(tmp_path: Path, site: Site) -> None:
    ended, out = record(tmp_path, DOWNLOAD, {"up.test:80": site.place})
    assert out.startswith(f"{SIZE} {SIZE} ")
    assert len(_result(ended, "/large")["pieces"]) == -(-SIZE // (1 << 20))
    asked = site.asked
    replayed, shown = again(ended)
    assert (shown, site.asked) == (out, asked)
    assert _is_intact(ended) and _is_intact(replayed)
    last = RecordedRun(ended.directory).last_step
    heard = Heard()
    forked = fork(ended.directory, ForkOptions(at=last), watch=heard)[0]
    assert forked.divergence is None and heard.out.decode().splitlines()[0] in out
    twice = Heard()  # the past of a fork of a fork is in the fork
    second = fork(forked.directory, ForkOptions(at=last), watch=twice)[0]
    assert second.divergence is None and twice.out.splitlines()[0] == heard.out.splitlines()[0]


def test_answers_that_stream_side_by_side_end_in_their_recorded_order(
    tmp_path: Path, site: Site
) -> None:
    ended, out = record(tmp_path, SIDE_BY_SIDE, {"up.test:80": site.place})
    assert out.startswith("[('/until/0', ")
    assert again(ended)[1] == out


def test_what_the_budget_had_no_room_for_ends_a_replay_with_that_reason(
    tmp_path: Path, site: Site
) -> None:
    hosts = {"up.test:80": site.place}
    ended, _ = record(tmp_path, DOWNLOAD, hosts, record={"budget": "16MiB"})
    replayed = replay(ended.directory)
    assert replayed.divergence is not None
    assert replayed.divergence.kind == "unkept"
    assert "only the beginning is kept: the budget" in replayed.divergence.text


def test_websockets_come_again_in_replays_and_forks(
    tmp_path: Path, site: Site, chat: Server
) -> None:
    ended, out = record(tmp_path, TALK, _hosts(site, chat))
    assert "ConnectionClosedError 4001 go away" in out
    chat.shutdown()
    asked = site.asked
    replayed, shown = again(ended)
    assert site.asked == asked
    # What was said is compared; what the server answered is what it answered then.
    assert shown == out
    assert _is_intact(ended) and _is_intact(replayed)
    assert _result(replayed, "/leave")["frames"]["bytes"] > 0
    last = RecordedRun(ended.directory).last_step
    heard = Heard()
    forked = fork(ended.directory, ForkOptions(at=last), watch=heard)[0]
    assert forked.divergence is None
    assert heard.out.decode().splitlines()[:-1] == out.splitlines()[:-1]


def test_another_message_leaves_the_record(tmp_path: Path, site: Site, chat: Server) -> None:
    ended, _ = record(tmp_path, TALK, _hosts(site, chat))
    other = TALK.replace("push", "PUSH")
    replayed = replay(ended.directory, command=[sys.executable, "-c", other])
    assert replayed.divergence is not None
    assert replayed.divergence.differences[0].at == "websocket message 4"
