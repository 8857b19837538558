"""How a record can be played again: by another version of its agent, elsewhere, with what it read,
and what going on live may not do twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import PastOptions, replay
from paddock.run.session import FinishedRun, run

AGENTS = Path(__file__).with_name("agents")
PAYS = """
import subprocess, sys
from wire import pay
pay("POST", "/v1/customers", name="one")
subprocess.run(["true", "{word}"])
print(len(pay("GET", "/v1/customers")["data"]))
sys.exit(int(open("code.txt").read()))
"""


class Heard:
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
    (place / "pays.py").write_text(PAYS.format(word="a"))
    (place / "code.txt").write_text("0")
    return place


def ran(project: Path, *command: str, **words: object) -> tuple[FinishedRun, bytes]:
    heard = Heard()
    ended = run(order_of(command, cwd=project, **words), heard)  # type: ignore[arg-type]
    return ended, heard.out


def test_another_exit_code_alone_does_nothing_again_for_real(project: Path) -> None:
    recorded, _ = ran(project, "python3", "pays.py")
    (project / "code.txt").write_text("3")
    again = replay(recorded.directory, on_divergence="live")
    assert again.divergence is not None and again.divergence.step is None
    assert again.divergence.text == "it left its record after its last step: exit_code was 0, is 3"
    assert RecordedRun(again.directory).opened.kind == "replay"


def test_another_version_of_an_agent_is_played_against_the_same_past(project: Path) -> None:
    recorded, first = ran(project, "python3", "pays.py")
    (project / "pays2.py").write_text(PAYS.format(word="a") + "# another version\n")
    again = replay(recorded.directory, command=["python3", "pays2.py"])
    assert again.divergence is None and again.exit_code == 0
    assert RecordedRun(again.directory).steps[0].arguments["argv"] == ["python3", "pays2.py"]
    last = RecordedRun(recorded.directory).last_step
    heard = Heard()
    words = ForkOptions(at=last, command=("python3", "pays2.py"))
    (future,) = fork(recorded.directory, words, watch=heard)
    assert future.divergence is None and heard.out == first


def test_what_another_version_starts_is_compared_as_ever(project: Path) -> None:
    recorded, _ = ran(project, "python3", "pays.py")
    (project / "pays2.py").write_text(PAYS.format(word="b"))
    again = replay(recorded.directory, command=["python3", "pays2.py"])
    assert again.divergence is not None
    (found,) = again.divergence.differences
    assert (found.at, found.recorded, found.proposed) == ("argv[1]", "a", "b")


READS = """
import os, sys, time
print(sys.stdin.buffer.read().hex(), time.strftime("%Z"), os.environ.get("LC_TIME"), flush=True)
"""


@pytest.mark.parametrize("stdin", [b"\xff\x00 \xf0\x9f a", "gr\u00fc\u00df\n".encode(), b""])
def test_a_replay_and_a_fork_read_the_bytes_that_were_read(project: Path, stdin: bytes) -> None:
    (project / "reads.py").write_text(READS)
    recorded, first = ran(project, "python3", "reads.py", stdin=stdin)
    assert first.split()[0] == stdin.hex().encode() or not stdin
    heard = Heard()
    assert replay(recorded.directory, watch=heard).divergence is None
    assert heard.out == first


def test_the_time_zone_and_the_language_are_those_of_the_record(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "reads.py").write_text(READS)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.delenv("LC_TIME", raising=False)
    recorded, first = ran(project, "python3", "reads.py", stdin=b"x")
    assert first.split() == [b"78", b"JST", b"None"]
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setenv("LC_TIME", "C")
    heard = Heard()
    assert replay(recorded.directory, watch=heard).divergence is None
    fork(recorded.directory, ForkOptions(at=1), watch=heard)
    assert heard.out == 2 * first


WORKS = """
import threading, time
from wire import pay
asking = threading.Thread(target=pay, args=("GET", "/v1/customers"))
asking.start()
time.sleep(1.2)
pay("GET", "/v1/charges")
asking.join()
"""
SLOW = """
version: 1
agent: slow
stage: broad
world: {api.stripe.com: payments}
faults:
  - {id: slow, match: {kind: http, path: /v1/customers}, fault: {delay: 1600ms}, first: 1}
"""


def test_who_works_as_long_as_in_the_record_is_waited_for(project: Path) -> None:
    (project / "works.py").write_text(WORKS)
    (project / "paddock.yaml").write_text(SLOW)
    recorded, said = ran(project, "python3", "works.py")
    assert recorded.exit_code == 0, said
    again = replay(recorded.directory, past=PastOptions(patience_s=0.5))
    assert again.divergence is None, again.divergence.text if again.divergence else ""


KILLED = """
version: 1
agent: killed
stage: broad
rules: [{id: inside, match: {kind: [exec, file, code]}, decide: allow}]
faults:
  - {id: oom, match: {kind: exec, program: sleep}, fault: {kill: 200ms}, first: 1}
"""
SLEEPS = """
import subprocess
print([subprocess.run(["sleep", "0.6"]).returncode for _ in range(2)], flush=True)
"""


def test_a_program_that_was_killed_on_purpose_is_killed_again(project: Path) -> None:
    (project / "sleeps.py").write_text(SLEEPS)
    (project / "paddock.yaml").write_text(KILLED)
    recorded, first = ran(project, "python3", "sleeps.py")
    assert first == b"[-9, 0]\n"
    heard = Heard()
    assert replay(recorded.directory, watch=heard).divergence is None
    assert heard.out == first


FORKS = """
import os, time
for number in range(6):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.005 * number)
            os.execv("/bin/echo", ["echo", str(number)])
        os._exit(0)
    os.wait()
if os.fork() == 0:  # what a command leaves behind is the command's
    os.execv("/bin/sh", ["sh", "-c", "(sleep 0.05; exec /usr/bin/true of a command) &"])
os.wait()
time.sleep(0.4)
"""


def test_a_program_whose_parent_has_ended_is_a_step_like_any_other(project: Path) -> None:
    (project / "forks.py").write_text(FORKS)
    recorded, _ = ran(project, "python3", "forks.py")
    names = [row.name for row in RecordedRun(recorded.directory).steps]
    assert sorted(names) == ["echo"] * 6 + ["python3", "sh"]
    again = replay(recorded.directory)
    assert again.divergence is None, again.divergence.text if again.divergence else ""
