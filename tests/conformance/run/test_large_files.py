"""Files of any size are there at the end of a run; which earlier versions are, the budget says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.session import FinishedRun, run
from paddock.state.home import Home
from paddock.state.trees.store import TreeStore

AGENTS = Path(__file__).with_name("agents")
SIZE = 70 << 20
SPARSE = 1 << 30
WRITES = f"""
import random, time
from wire import ask

def write(name, seed):
    with open(name, "wb") as file:
        file.write(random.Random(seed).randbytes({SIZE}))

write("large", time.time_ns())
ask("one")
write("large", 1)
with open("sparse", "wb") as file:
    file.truncate({SPARSE})
    file.seek({SPARSE // 2})
    file.write(b"in the middle")
ask("two")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("large") / "project"
    shutil.copytree(AGENTS, place)
    (place / "agent.py").write_text(WRITES)
    with open(place / "paddock.yaml", "a") as file:
        file.write("record: {budget: 16MiB}\n")
    return place


@pytest.fixture(scope="module")
def recorded(project: Path) -> FinishedRun:
    ended = run(order_of(["python3", "agent.py"], cwd=project))
    assert ended.exit_code == 0
    return ended


def paddock(*words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "paddock.cli.main", *words]
    return subprocess.run(command, capture_output=True, check=False, timeout=100)


def test_the_last_version_of_each_file_is_stored_and_comes_back(
    project: Path, recorded: FinishedRun, tmp_path: Path
) -> None:
    import random

    whole = random.Random(1).randbytes(SIZE)
    store, tree = TreeStore(Home.find().trees), str(RecordedRun(recorded.directory).last_tree)
    nodes = {path.rpartition("/")[2]: node for path, node in store.entries(tree)}
    assert all(store.is_kept(nodes[name]) for name in ("large", "sparse"))
    cat = paddock("files", recorded.run, "large", "--cat")
    assert (cat.returncode, cat.stdout == whole) == (0, True), cat.stderr
    changes = paddock("changes", recorded.run)
    assert b"large" in changes.stdout and b"not stored" not in changes.stdout + changes.stderr
    applied = paddock("apply", recorded.run, "large", "sparse", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert (project / "large").read_bytes() == whole
    st = os.stat(project / "sparse")
    assert (st.st_size, st.st_blocks * 512 < 1 << 20) == (SPARSE, True)
    for name in ("large", "sparse"):
        (project / name).unlink()


def test_a_fork_that_needs_a_version_that_was_not_stored_is_refused(recorded: FinishedRun) -> None:
    tape = RecordedRun(recorded.directory)
    asked = [row.number for row in tape.steps if row.kind == "http"]
    with pytest.raises(InvalidInput, match="large was not stored") as refused:
        fork(recorded.directory, ForkOptions(at=asked[0]))
    assert "it can be at step" in str(refused.value.hint)
    # What the agent writes again byte for byte is not needed from the store.
    (future,) = fork(recorded.directory, ForkOptions(at=asked[1]))
    assert (future.divergence, future.exit_code) == (None, 0)
    assert RecordedRun(future.directory).last_tree == tape.last_tree
