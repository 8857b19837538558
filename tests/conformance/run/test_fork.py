"""A second future from any step: it begins with the state of that step, and touches nobody else."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from pathlib import Path

import pytest

from paddock.doors.machine.engine import Engine
from paddock.gate.approvals import Approvals
from paddock.gate.run_gate import gate_store, signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.errors import InvalidInput
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.session import FinishedRun, run
from paddock.world.saved_worlds import open_saved_world
from paddock.world.store import Store
from repetition import times

AGENTS = Path(__file__).with_name("agents")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("forks") / "project"
    shutil.copytree(AGENTS, place)
    return place


@pytest.fixture(scope="module")
def recorded(project: Path) -> FinishedRun:
    ended = run(order_of(["python3", "forty.py"], cwd=project))
    assert ended.exit_code == 0
    return ended


def world_at(run_id: str, step: int | None, scratch: Path) -> dict[str, str]:
    """The digest of each stand-in as it was before a step, from the store's own past."""
    found = {}
    with open_saved_world(Engine.current().home.root, run_id) as world:
        for one in world.services:
            copy = scratch / f"{run_id}-{step}-{one.name}"
            shutil.copy(one.store.path, copy)
            with Store.open(copy) as store:
                if step is not None:
                    store.rewind(one.span(step, None)[0])
                found[one.name] = store.digest()
    return found


@pytest.mark.repeated
@pytest.mark.timeout(600)
def test_fork_at_every_step_begins_with_the_state_of_that_step(
    recorded: FinishedRun, tmp_path: Path
) -> None:
    tape = RecordedRun(recorded.directory)
    assert tape.last_step >= 40
    steps = range(1, tape.last_step + 2, times(10, 1))
    before = fingerprint(recorded, tmp_path)
    futures = fork(recorded.directory, [ForkOptions(at=k) for k in steps])
    for k, future in zip(steps, futures, strict=True):
        assert future.divergence is None and future.exit_code == 0, (k, future)
        again = RecordedRun(future.directory)
        at = next((r.within or k for r in tape.steps if r.number == k), k)
        assert again.tree_at(at) == tape.tree_at(at), k
        assert world_at(future.run, at, tmp_path) == world_at(recorded.run, at, tmp_path), k
        # With nothing changed the future is what it was.
        assert again.last_tree == tape.last_tree, k
        assert [(r.number, r.name) for r in again.steps] == [
            (r.number, r.name) for r in tape.steps
        ], k
    assert fingerprint(recorded, tmp_path) == before


def fingerprint(ended: FinishedRun, scratch: Path) -> tuple[object, ...]:
    """All that a fork must leave alone."""
    raw = b"".join(p.read_bytes() for p in sorted(ended.directory.glob("*.jsonl")))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    return hashlib.sha256(raw).hexdigest(), world_at(ended.run, None, scratch)


def test_what_a_fork_does_differently_shows_in_no_other_run(
    recorded: FinishedRun, tmp_path: Path
) -> None:
    before = fingerprint(recorded, tmp_path / "a")
    what = {"kind": "http", "method": "POST", "path": "/v1/customers"}
    blocking = {"id": "no-more", "match": what, "fault": {"status": 500}}
    plain, broken = fork(
        recorded.directory, [ForkOptions(at=20), ForkOptions(at=20, faults=[blocking])]
    )
    assert plain.exit_code == 0 and broken.exit_code == 1
    assert fingerprint(recorded, tmp_path / "b") == before
    assert RecordedRun(plain.directory).last_tree == RecordedRun(recorded.directory).last_tree
    assert RecordedRun(broken.directory).last_tree != RecordedRun(recorded.directory).last_tree


def test_fork_of_a_fork_has_the_past_of_both(recorded: FinishedRun) -> None:
    first = fork(recorded.directory, ForkOptions(at=12))[0]
    second = fork(first.directory, ForkOptions(at=30))[0]
    assert second.divergence is None and second.exit_code == 0
    lineage = RunLog(second.directory).opened.lineage
    assert lineage is not None
    assert (lineage.run, lineage.root) == (first.run, recorded.run)
    assert RecordedRun(second.directory).last_tree == RecordedRun(recorded.directory).last_tree
    assert verify(second.directory, signing_key(Engine.current().home).public).ok


def test_a_fork_at_a_step_that_is_not_there_says_which_are(recorded: FinishedRun) -> None:
    with pytest.raises(InvalidInput, match="steps 1 to"):
        fork(recorded.directory, ForkOptions(at=1000))


ASKING = """
version: 1
agent: asking
stage: broad
world: {api.stripe.com: payments}
rules:
  - id: people-first
    match: {kind: http, host: api.stripe.com, method: POST}
    decide: ask
    why: A person looks at it.
approvals: {timeout: 20s, by: [store]}
"""


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    shutil.copytree(AGENTS, place)
    (place / "paddock.yaml").write_text(ASKING)
    (place / "agent.py").write_text(
        "import urllib.error\n"
        "from wire import pay\n"
        "for n in range(3):\n"
        "    try:\n"
        "        print('made', pay('POST', '/v1/customers', name='same')['name'], flush=True)\n"
        "    except urllib.error.HTTPError as error:\n"
        "        print('refused', error.code, flush=True)\n"
    )
    return place


class Person:
    """Says yes to everything, and counts."""

    def __init__(self, *, says_yes: bool = True) -> None:
        self._approvals = Approvals(gate_store(Engine.current().home))
        self._is_over = threading.Event()
        self._says_yes = says_yes
        self.answered: list[str] = []
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def __enter__(self) -> Person:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _answer(self) -> None:
        while not self._is_over.is_set():
            for one in self._approvals.all():
                answer = self._approvals.approve if self._says_yes else self._approvals.deny
                answer(one.approval_id, "somebody")
                self.answered.append(one.run)
            time.sleep(0.02)


def test_an_approval_of_the_recording_is_never_used_again(asking: Path) -> None:
    with Person() as person:
        recorded = run(order_of(["python3", "agent.py"], cwd=asking))
    assert recorded.exit_code == 0 and len(person.answered) == 3
    asked = [row.number for row in RecordedRun(recorded.directory).steps if row.kind == "http"]
    with Person(says_yes=False) as nobody:
        future = fork(recorded.directory, ForkOptions(at=asked[1]))[0]
    # The first is the past: it is told again, and nobody is asked. The others are asked anew.
    assert nobody.answered == [future.run, future.run]
    outcomes = [step.outcome for step in RunLog(future.directory).steps() if step.number in asked]
    assert outcomes == ["simulated", "refused", "refused"]


def test_a_replay_asks_nobody_and_spends_no_answer(asking: Path) -> None:
    from paddock.run.replay.replay import replay

    with Person() as person:
        recorded = run(order_of(["python3", "agent.py"], cwd=asking))
    with Person(says_yes=False) as nobody:
        again = replay(recorded.directory)
    assert again.divergence is None and again.exit_code == 0
    assert len(person.answered) == 3 and nobody.answered == []


@pytest.mark.repeated
@pytest.mark.timeout(600)
def test_forks_with_different_faults_tell_what_came_of_each(recorded: FinishedRun) -> None:
    payments = {"kind": "http", "host": "api.stripe.com"}
    faults = [
        [{"id": f"f{n}", "match": payments, "fault": {"status": 500 + n}, "first": 1}]
        for n in range(times(4, 20))
    ]
    futures = fork(recorded.directory, [ForkOptions(at=38, faults=one) for one in faults])
    assert len({one.run for one in futures}) == len(faults)
    for number, future in enumerate(futures):
        struck = [step.fault["status"] for step in RunLog(future.directory).steps() if step.fault]
        assert struck == [500 + number]
