"""Forks of agents that do several things at once: what one of them has done ahead stays done."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from paddock.run.files import tree_at
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.session import FinishedRun, run
from paddock.state.home import Home
from paddock.state.trees.store import TreeStore
from repetition import times

ASKED = re.compile(r"thread (\d) number (\d)")
AGENTS = Path(__file__).with_name("agents")
WRITES_AND_ASKS = """
import threading
from wire import ask

def work(thread):
    for number in range(5):
        with open(f"t{thread}-{number}", "w") as file:
            file.write("x" * 100 * (number + 1))
        with open(f"log{thread}", "a") as file:
            file.write(f"{number}\\n")
        ask(f"thread {thread} number {number}")

threads = [threading.Thread(target=work, args=(one,)) for one in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""
STARTS_TOOLS = """
import subprocess, threading
from wire import ask

def tool(number):
    ask(f"plan {number}")
    subprocess.run(["sh", "-c", f"sleep 0.0{number}; echo {number} >> out-{number}"], check=True)
    ask(f"done {number}")

threads = [threading.Thread(target=tool, args=(one,)) for one in (1, 2, 3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    return place


def recorded(project: Path, text: str) -> FinishedRun:
    (project / "many.py").write_text(text)
    ended = run(order_of(["python3", "many.py"], cwd=project))
    assert ended.exit_code == 0
    return ended


def files(tree: str) -> dict[str, str]:
    """By path, without what Python keeps for itself."""
    entries = TreeStore(Home.find().trees).entries(tree)
    return {
        path: node.digest for path, node in entries if "/project/" in path and "cache" not in path
    }


@pytest.mark.repeated
@pytest.mark.timeout(600)
@pytest.mark.parametrize("text", [WRITES_AND_ASKS, STARTS_TOOLS], ids=["threads", "tools"])
def test_no_file_is_lost_wherever_a_fork_begins(project: Path, text: str) -> None:
    first = recorded(project, text)
    whole = files(str(RecordedRun(first.directory).last_tree))
    assert len(whole) >= 3
    places = sorted({row.number for row in RecordedRun(first.directory).steps if row.number > 1})
    futures = fork(
        first.directory, [ForkOptions(at=k) for k in places[:: max(len(places) // times(2, 6), 1)]]
    )
    for future in futures:
        assert future.divergence is None and future.exit_code == 0, future
        left = str(RecordedRun(future.directory).last_tree)
        assert files(left) == whole, future.run


def test_each_step_has_the_files_that_were_there_when_it_was_proposed(project: Path) -> None:
    """A thread asks after it has written: at its step, the file is there."""
    first = recorded(project, WRITES_AND_ASKS)
    tape = RecordedRun(first.directory)
    asked = {row.number: ASKED.search(json.dumps(row.arguments)) for row in tape.steps}
    found = {step: match.groups() for step, match in asked.items() if match is not None}
    assert len(set(found.values())) == 20
    for step, (thread, number) in found.items():
        tree = tape.tree_at(step)
        assert tree == tree_at(first.directory, step)
        assert any(path.endswith(f"/t{thread}-{number}") for path in files(str(tree))), step
