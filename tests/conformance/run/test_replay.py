"""A run is recorded, and played again: the agent's program runs, all that comes from outside comes
from the record, and it does the very same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paddock.doors.machine.engine import Engine
from paddock.gate.run_gate import signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.action import Kind
from paddock.model.events import BackgroundAnswered
from paddock.run.matching.background import marked
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import PastOptions, replay, rules_for
from paddock.run.report import report_of
from paddock.run.session import FinishedRun, run
from repetition import times

AGENTS = Path(__file__).with_name("agents")
TIMES = times(1, 20)
PYTHON = (
    "one_by_one", "with_asyncio", "with_threads", "with_processes", "with_streams", "with_retries",
    "with_chance", "with_clock", "with_state", "with_cookies", "with_exporter",
)  # fmt: skip
COMMANDS = {**{name: ["python3", f"{name}.py"] for name in PYTHON}, "as_shell": ["./as_shell.sh"]}


class Listening:
    """What the agent printed."""

    def __init__(self) -> None:
        self.out = b""

    def began(self, run: str, setting: object) -> None: ...

    def told(self, record: object) -> None: ...

    def said(self, stream: str, data: bytes) -> None:
        self.out += data


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    return place


@pytest.mark.repeated
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_replay_does_exactly_what_was_recorded_every_time(name: str, project: Path) -> None:
    recorded, first = played(project, COMMANDS[name])
    assert recorded.exit_code == 0, first
    for _ in range(TIMES):
        heard = Listening()
        again = replay(recorded.directory, watch=heard)
        assert again.divergence is None, again.divergence.text if again.divergence else ""
        assert again.exit_code == 0
        assert comparable(heard.out) == comparable(first)
        assert steps(again) == steps(recorded)


FIRST = """
from wire import ask
print(ask("one"))
print(ask("two"))
"""
MORE = """
import urllib.error, urllib.request
from wire import ask
def send(method, url):
    request = urllib.request.Request(url, method=method, data=b"{}" if method == "POST" else None)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["x-paddock"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["x-paddock"], b""
"""
BESIDE = """
for number in range(3):
    print(send("POST", "https://shop.example/v1/traces"))
print(send("GET", "https://shop.example/page"))
print(send("DELETE", "https://shop.example/page"))
print(send("POST", "http://shop.example:443/v1/traces"))
"""
ASKING = """
print(send("POST", "https://shop.example/v1/chat/completions"))
"""
STUCK = """
import threading, time
def export():
    while True:
        send("POST", "https://shop.example/v1/traces")
        time.sleep(0.05)
threading.Thread(target=export, daemon=True).start()
print(ask("two"))
"""


def test_what_only_a_replay_sends_beside_is_answered_with_nothing_or_a_no(project: Path) -> None:
    recorded, _ = played_text(project, FIRST)
    (project / "own.py").write_text(MORE + FIRST + BESIDE)
    heard = Listening()
    again = replay(recorded.directory, watch=heard, past=PastOptions(beside=("shop.example",)))
    assert again.divergence is None, again.divergence.text if again.divergence else ""
    nothing, no = "(204, None, b'')", "(403, 'block', b'')"
    assert heard.out.decode().splitlines()[2:] == [nothing] * 4 + [no] * 2
    assert steps(again) == steps(recorded)
    assert again.background == len([nothing] * 4 + [no] * 2)
    told = [
        (record.event.method, record.event.outcome)
        for record in RunLog(again.directory).events(BackgroundAnswered)
        if isinstance(record.event, BackgroundAnswered)
    ]
    refusals = [("DELETE", "refused"), ("POST", "refused")]
    assert told == [("POST", "done")] * 3 + [("GET", "done"), *refusals]
    assert report_of(again.directory).beside == again.background
    assert verify(again.directory, signing_key(Engine.current().home).public).ok


@pytest.mark.parametrize("rule", ["shop.example", "POST shop.example/**"])
def test_a_question_to_a_model_is_not_beside_whatever_a_rule_says(project: Path, rule: str) -> None:
    recorded, _ = played_text(project, FIRST)
    (project / "own.py").write_text(MORE + FIRST + ASKING)
    again = replay(recorded.directory, past=PastOptions(beside=(rule,)))
    assert again.divergence is not None and again.divergence.kind == "extra"
    assert again.background == 0


def test_nothing_is_beside_where_that_is_dropped(project: Path) -> None:
    recorded, _ = played_text(project, FIRST)
    (project / "own.py").write_text(MORE + FIRST + BESIDE)
    again = replay(recorded.directory, past=PastOptions(drops_beside=True))
    assert again.divergence is not None and again.divergence.kind == "extra"


@pytest.mark.timeout(120)
def test_what_goes_on_beside_does_not_keep_a_replay_alive_that_waits_in_vain(project: Path) -> None:
    recorded, _ = played_text(project, FIRST)
    (project / "own.py").write_text(MORE + STUCK)
    again = replay(recorded.directory, past=PastOptions(patience_s=2.0))
    assert again.divergence is not None
    assert again.divergence.kind == "order"
    assert again.background > 0


def test_a_fork_has_the_past_of_its_record_whatever_goes_on_beside(project: Path) -> None:
    recorded, first = played(project, COMMANDS["with_exporter"])
    tape = RecordedRun(recorded.directory)
    asked = [row.number for row in tape.steps if row.kind is Kind.MODEL]
    heard = Listening()
    (made,) = fork(recorded.directory, ForkOptions(asked[-2]), watch=heard)
    assert made.divergence is None and made.exit_code == 0
    assert comparable(heard.out) == comparable(first)
    past = RecordedRun(made.directory)
    at = next(row.within or row.number for row in tape.steps if row.number == asked[-2])
    assert [step for step in steps(made) if step[0] <= at] == [
        step for step in steps(recorded) if step[0] <= at
    ]
    assert all(past.tree_at(step) == tape.tree_at(step) for step in asked[:-1])
    further = fork(made.directory, ForkOptions(asked[2]))[0]
    assert further.divergence is None and further.exit_code == 0
    assert replay(made.directory).divergence is None
    assert verify(made.directory, signing_key(Engine.current().home).public).ok


def played_text(project: Path, text: str) -> tuple[FinishedRun, bytes]:
    (project / "own.py").write_text(text)
    return played(project, ["python3", "own.py"])


def played(project: Path, command: list[str]) -> tuple[FinishedRun, bytes]:
    heard = Listening()
    return run(order_of(command, cwd=project), heard), heard.out


def steps(ended: FinishedRun) -> list[tuple[int, object, str]]:
    """What goes on beside comes as often as it likes."""
    tape = RecordedRun(ended.directory)
    rows = marked(tape.steps, rules_for(tape, PastOptions()).beside)
    return [(row.number, row.kind, row.name) for row in rows if row.background is None]


def comparable(out: bytes) -> list[bytes]:
    """Lines in any order: who of several writers is first is nobody's promise."""
    return sorted(out.splitlines())
