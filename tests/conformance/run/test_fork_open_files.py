"""Forks of agents that hold files open: nothing that they wrote is lost, and what is not as it was
recorded is reported.

An agent writes its files again while its past is replayed, so a file that a process holds open is
its own work. Recorded bytes written underneath the descriptor would lose data without a word.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from paddock.model.errors import InvalidInput
from paddock.run.matching.fork_points import places
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.report import report_of
from paddock.run.session import FinishedRun, run
from paddock.state.home import Home
from paddock.state.trees.restore import lay_out
from paddock.state.trees.store import TreeStore

AGENTS = Path(__file__).with_name("agents")
LINE = re.compile(rb"(\d+:\d+):t*")
WRITES_AHEAD = """
import sqlite3, time
import witness
from wire import ask

db = sqlite3.connect("data.db")
db.execute("pragma journal_mode=wal")
db.execute("create table t (n integer, text text)")
db.commit()
log = open("agent.times", "w")
for n in range(3):
    db.execute("insert into t values (?, ?)", (n, ask(f"question {n}")))
    db.commit()
    log.write(f"0:{n}:{'t' * (time.time_ns() % 50)}\\n")
    log.flush()
    open(f"{n}.stamp", "w").write(str(time.time_ns()))
"""
SPAWNS = """
import subprocess

for n in range(2):
    with open("/dev/urandom", "rb") as chance, open(f"{n}.bin", "wb") as file:
        file.write(chance.read(1000))
    subprocess.run(["true"])
"""
SENDS = """
import os, socket, subprocess, time

here, there = socket.socketpair()
log = open("agent.log", "w")
for n in range(3):
    log.write(f"{n}:{'t' * (time.time_ns() % 50)}\\n")
    log.flush()
    socket.send_fds(here, [b"x"], [log.fileno()])
    log.close()
    subprocess.run(["true", str(n)])
    log = os.fdopen(socket.recv_fds(there, 1, 1)[1][0], "w")
log.close()
"""
CACHES = """
import diskcache
import witness
from wire import ask

with diskcache.Cache("cache", disk_min_file_size=100) as cache:
    for n in range(3):
        cache[f"question {n}"] = ask(f"question {n}") * 20
        cache[f"large {n}"] = b"x" * 3000 * n
    assert len(cache) == 6 and all(cache.get(key) is not None for key in cache)
    print(sorted(cache))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    return place


def recorded(project: Path, *command: str) -> FinishedRun:
    ended = run(order_of([sys.executable, *command], cwd=project))
    assert ended.exit_code == 0, ended
    return ended


def laid_out(tree: str, scratch: Path) -> dict[str, Path]:
    """Directories with the files of a state, by the names of its roots."""
    store = TreeStore(Home.find().trees)
    roots = {name: scratch / str(at) for at, name in enumerate(store.tree(tree).roots)}
    shutil.rmtree(scratch, ignore_errors=True)
    for place in roots.values():
        place.mkdir(parents=True)
    assert lay_out(store, tree, roots).lost == ()
    return roots


def contents(tree: str, scratch: Path) -> dict[str, object]:
    """The files of a state: databases as rows, logs as lines without what differs by design, all
    others as digests."""
    found: dict[str, object] = {}
    for name, place in laid_out(tree, scratch).items():
        for path in sorted(place.rglob("*")):
            is_own = "__pycache__" not in path.parts and path.name != "witness.json"
            if is_own and not re.search(r"\.db-\w+$", path.name):
                found[f"{name}/{path.relative_to(place)}"] = _content(path)
    return found


def _content(path: Path) -> object:
    if path.is_symlink():
        return str(path.readlink())
    if not path.is_file():
        return path.stat().st_mode
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
            tables = [row[0] for row in connection.execute("select name from sqlite_master")]
            name = "Cache" if "Cache" in tables else "t"
            columns = "key, size, value" if name == "Cache" else "*"
            return connection.execute(f"select {columns} from {name} order by 1").fetchall()
    data = path.read_bytes()
    if path.suffix == ".times":
        assert b"\0" not in data
        return [found.group(1) for found in LINE.finditer(data)]
    return hashlib.sha256(data).hexdigest()


def check_witness(ended: FinishedRun, project: Path, scratch: Path) -> None:
    """The recorded final state is what the agent itself read at its end (`agents/witness.py`).
    That a fork ends as the original did says nothing about it: one recorder recorded both."""
    tree = str(RecordedRun(ended.directory).last_tree)
    overlay = laid_out(tree, scratch)[str(project)]
    for path, digest in json.loads((overlay / "witness.json").read_text()).items():
        # What the agent only read is not recorded, and is as it is in the project.
        place = overlay if (overlay / path).exists() else project
        assert hashlib.sha256((place / path).read_bytes()).hexdigest() == digest, path


def check_forks(first: FinishedRun, steps: Sequence[int], scratch: Path) -> list[str]:
    """Every fork without a change ends as the original did, and is recorded as its agent saw it.
    Gives why some were refused."""
    tape = RecordedRun(first.directory)
    project = scratch.parent / "project"
    check_witness(first, project, scratch / "witness")
    wanted = contents(str(tape.last_tree), scratch / "wanted")
    futures, refused = forked(first, steps)
    for step, future in futures.items():
        assert future.divergence is None and future.exit_code == 0, (step, future)
        check_witness(future, project, scratch / "witness")
        left = contents(str(RecordedRun(future.directory).last_tree), scratch / "left")
        stamps = {path for path in {*left, *wanted} if path.endswith(".stamp")}
        others = {path for path in {*left, *wanted} if left.get(path) != wanted.get(path)}
        assert others <= stamps, (step, others)
        # A closed file that was there is exactly as recorded, unless it is reported.
        before = contents(str(tape.tree_at(step)), scratch / "before")
        kept = report_of(future.directory).kept
        silent = {path for path in others & before.keys() if path not in kept}
        assert not silent, (step, silent)
    return refused


def forked(first: FinishedRun, steps: Sequence[int]) -> tuple[dict[int, FinishedRun], list[str]]:
    """The futures by step, all at once; one by one where some are refused, to learn which."""
    with contextlib.suppress(InvalidInput):
        every = fork(first.directory, [ForkOptions(at=step) for step in steps])
        return dict(zip(steps, every, strict=True)), []
    futures, refused = {}, []
    for step in steps:
        try:
            (futures[step],) = fork(first.directory, ForkOptions(at=step))
        except InvalidInput as error:
            refused.append(error.message)
    return futures, refused


def steps_of(first: FinishedRun) -> list[int]:
    return places(RecordedRun(first.directory).steps)


def test_no_row_of_a_database_in_wal_mode_is_lost_and_its_log_is_reported(
    project: Path, tmp_path: Path
) -> None:
    (project / "agent.py").write_text(WRITES_AHEAD)
    first = recorded(project, "agent.py")
    steps = steps_of(first)
    assert check_forks(first, steps, tmp_path / "scratch") == []
    (future,) = fork(first.directory, ForkOptions(at=steps[-2]))
    report = report_of(future.directory)
    assert str(project / "data.db-wal") in report.kept
    assert report.as_json()["files_kept"] == len(report.kept)


def test_closed_files_are_the_recorded_ones_where_a_program_starts_another(
    project: Path, tmp_path: Path
) -> None:
    """While a program is started its parent stands still (vfork): nobody else is at work."""
    (project / "agent.py").write_text(SPAWNS)
    first = recorded(project, "agent.py")
    (future,) = fork(first.directory, ForkOptions(at=3))
    trees = (RecordedRun(one.directory).last_tree for one in (first, future))
    before, after = (contents(str(tree), tmp_path / "scratch") for tree in trees)
    assert before == after
    assert report_of(future.directory).kept == ()


def test_no_value_of_a_disk_cache_is_lost(project: Path, tmp_path: Path) -> None:
    (project / "agent.py").write_text(CACHES)
    first = recorded(project, "agent.py")
    assert check_forks(first, steps_of(first), tmp_path / "scratch") == []


def test_random_agents_end_as_they_did(project: Path, tmp_path: Path) -> None:
    first = recorded(project, "with_open_files.py", "2", "3")
    assert check_forks(first, steps_of(first), tmp_path / "scratch") == []


@pytest.mark.parametrize(
    "case",
    [
        "of the project",
        "new",
        "linked",
        "unlinked",
        "deleted in its name",
        "newline in its name",
        "backslash in its name",
    ],
)
def test_the_final_state_has_what_was_written_through_a_map_after_the_last_step(
    project: Path, tmp_path: Path, case: str
) -> None:
    """The kernel stamps a mapped file at the first write only, and nobody maps it at the end."""
    (project / "data.bin").write_bytes(b"-" * 4096)
    first = recorded(project, "with_maps.py", case)
    check_witness(first, project, tmp_path / "witness")


def test_a_fork_is_refused_where_a_descriptor_is_on_its_way_to_another_socket(
    project: Path,
) -> None:
    """Nobody can see which file that is: recorded bytes might be written underneath it."""
    (project / "agent.py").write_text(SENDS)
    first = recorded(project, "agent.py")
    with pytest.raises(InvalidInput, match="are on their way through a socket"):
        fork(first.directory, ForkOptions(at=4))


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_many_random_agents_end_as_they_did(project: Path, tmp_path: Path) -> None:
    """None is silently different, and at least 95 % of all places can be forked at."""
    count, refused = 0, []
    for seed in range(12):
        first = recorded(project, "with_open_files.py", str(seed), "6")
        steps = steps_of(first)
        count += len(steps)
        refused += check_forks(first, steps, tmp_path / "scratch")
    assert len(refused) <= count * 0.05, refused
