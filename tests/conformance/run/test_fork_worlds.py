"""A fork has the world of its step, or none at all: what cannot be had back is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conformance.run.listening import Listening
from paddock.doors.machine.engine import Engine
from paddock.model.errors import InvalidInput
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.run.session import FinishedRun, run
from paddock.world.saved_worlds import open_saved_world

AGENTS = Path(__file__).with_name("agents")
PAYING = """\
import urllib.error
from wire import pay

def count():
    try:
        print(len(pay('GET', '/v1/customers')['data']), flush=True)
    except urllib.error.URLError:
        print('gone', flush=True)

for name in ('one', 'two'):
    pay('POST', '/v1/customers', name=name)
count()
count()
"""
FILE = "{version: 1, agent: paying, stage: broad, world: {api.stripe.com: payments}}"
CHAT = "world={api.stripe.com: chat}"
PAYMENTS = "world={api.stripe.com: payments}"
NO_WORLD = "world={}"


@pytest.fixture
def recorded(tmp_path: Path) -> FinishedRun:
    place = tmp_path / "project"
    place.mkdir()
    shutil.copy(AGENTS / "wire.py", place)
    (place / "agent.py").write_text(PAYING)
    (place / "paddock.yaml").write_text(FILE)
    heard = Listening()
    ended = run(order_of(["python3", "agent.py"], cwd=place), heard)
    assert heard.lines == ["2", "2"]
    return ended


def requests(ended: FinishedRun) -> list[int]:
    rows = RecordedRun(ended.directory).steps
    return [row.number for row in rows if row.kind == "http" and row.within is None]


def forked(ended: FinishedRun, at: int, *sets: str) -> tuple[FinishedRun, list[str]]:
    heard = Listening()
    return fork(ended.directory, ForkOptions(at, sets=sets), watch=heard)[0], heard.lines


def reset(ended: FinishedRun) -> None:
    with open_saved_world(Engine.current().home.root, ended.run, read_only=False) as world:
        for one in world.services:
            one.reset()


def remove(ended: FinishedRun) -> None:
    shutil.rmtree(Engine.current().home.worlds / ended.run)


@pytest.mark.parametrize(("lose", "why"), [(reset, "was reset"), (remove, "is not there")])
def test_a_fork_without_the_world_of_its_step_is_refused(
    recorded: FinishedRun, lose: object, why: str
) -> None:
    assert callable(lose)
    first, *_, last = requests(recorded)
    lose(recorded)
    with pytest.raises(InvalidInput, match=f"api.stripe.com.*{why}"):
        forked(recorded, last)
    assert forked(recorded, first)[1] == ["2", "2"]  # there was nothing to be had back
    # Nobody asks for it under these terms.
    assert forked(recorded, last, NO_WORLD)[1] == ["2", "gone"]


def test_a_fork_of_a_fork_is_refused_the_world_that_its_fork_lost(recorded: FinishedRun) -> None:
    steps = requests(recorded)
    first, _ = forked(recorded, steps[2])
    assert forked(first, steps[3])[1] == ["2", "2"]
    reset(first)
    with pytest.raises(InvalidInput, match="was reset"):
        forked(first, steps[3])
    assert forked(first, steps[1])[1] == ["2", "2"]  # of that step the original has it
    remove(recorded)
    with pytest.raises(InvalidInput, match=r"api\.stripe\.com"):
        forked(first, steps[2])


def test_the_past_of_a_fork_of_other_stand_ins_is_in_the_world_of_its_original(
    recorded: FinishedRun,
) -> None:
    steps = requests(recorded)
    chatting, _ = forked(recorded, steps[2], CHAT)
    assert forked(chatting, steps[2], PAYMENTS)[1] == ["2", "2"]
    again, _ = forked(chatting, steps[3], PAYMENTS)  # a new one, of nobody's past
    assert forked(again, steps[2], PAYMENTS)[1] == ["2", "2"]
    remove(recorded)
    with pytest.raises(InvalidInput, match="is not there"):
        forked(again, steps[2], PAYMENTS)


def test_a_fork_of_a_replay_has_the_world_of_what_was_replayed(recorded: FinishedRun) -> None:
    again = replay(recorded.directory)
    assert forked(again, requests(again)[3])[1] == ["2", "2"]


def test_a_program_in_the_state_of_a_step_has_its_world_or_is_refused(
    recorded: FinishedRun,
) -> None:
    def count(ended: FinishedRun, at: int) -> list[str]:
        heard = Listening()
        program = "from wire import pay; print(len(pay('GET', '/v1/customers')['data']))"
        words = ForkOptions(at, command=("python3", "-c", program), is_state_only=True)
        fork(ended.directory, words, watch=heard)
        return heard.lines

    steps = requests(recorded)
    assert [count(recorded, at) for at in steps[:3]] == [["0"], ["1"], ["2"]]
    reset(recorded)
    with pytest.raises(InvalidInput, match="was reset"):
        count(recorded, steps[2])


COUNTER = """
import http.server, os

class Counter(http.server.BaseHTTPRequestHandler):
    count = 0

    def do_GET(self):
        self.send_response(200)
        self.send_header('content-length', '1')
        self.end_headers()
        self.wfile.write(b'%d' % Counter.count)

    def do_POST(self):
        Counter.count += 1
        self.do_GET()

http.server.HTTPServer(('127.0.0.1', 9000), Counter).serve_forever()
"""
COUNTING = """
import urllib.error, urllib.request

def go(data=None):
    try:
        with urllib.request.urlopen('http://count.example/', data=data, timeout=20) as answer:
            print(answer.read().decode(), flush=True)
    except urllib.error.URLError:
        print('gone', flush=True)

go()
go(b'1')
go(b'1')
go()
"""
STANDS = "world={count.example: {service: command, run: [python3, counter.py], port: 9000}}"


@pytest.fixture
def counting(tmp_path: Path) -> FinishedRun:
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "agent.py").write_text(COUNTING)
    (tmp_path / "paddock.yaml").write_text(
        "{version: 1, agent: counting, stage: broad, tools: {none: {effect: read}}}"
    )
    return run(order_of(["python3", "agent.py"], cwd=tmp_path))


def test_a_fork_of_a_fork_does_not_start_a_stand_in_anew_that_keeps_no_past(
    counting: FinishedRun,
) -> None:
    made, lines = forked(counting, 2, STANDS)
    assert lines == ["0", "1", "2", "2"]
    steps = requests(made)
    with pytest.raises(InvalidInput, match="keeps no past"):
        forked(made, steps[3])
    remove(made)
    with pytest.raises(InvalidInput, match="keeps no past"):
        forked(made, steps[3])
    assert forked(made, steps[0])[1] == ["0", "1", "2", "2"]
