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
from paddock.gate.opening import gate_store, signing_key
from paddock.journal.reader import Reader
from paddock.journal.verify import verify
from paddock.model.errors import InvalidInput
from paddock.run.forking import ForkWords, fork
from paddock.run.order import order_of
from paddock.run.running import Ended, run
from paddock.run.tape import Tape
from paddock.world.kept import open_kept
from paddock.world.store import Store
from repetition import times

AGENTS = Path(__file__).with_name("agents")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("forks") / "project"
    shutil.copytree(AGENTS, place)
    return place


@pytest.fixture(scope="module")
def recorded(project: Path) -> Ended:
    ended = run(order_of(["python3", "forty.py"], cwd=project))
    assert ended.exit_code == 0
    return ended


def notes(ended: Ended, what: str) -> list[dict[str, object]]:
    records = Reader(ended.directory).records()
    return [r.body for r in records if r.type == "noted" and r.body.get("what") == what]


def world_at(run_id: str, step: int | None, scratch: Path) -> dict[str, str]:
    """The digest of each stand-in as it was before a step, from the store's own past."""
    found = {}
    with open_kept(Engine.current().home.root, run_id) as world:
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
    recorded: Ended, tmp_path: Path
) -> None:
    tape = Tape.read(recorded.directory)
    assert tape.last_step >= 40
    steps = range(1, tape.last_step + 2, times(10, 1))
    before = fingerprint(recorded, tmp_path)
    futures = fork(recorded.directory, [ForkWords(at=k) for k in steps])
    for k, future in zip(steps, futures, strict=True):
        assert future.divergence is None and future.exit_code == 0, (k, future)
        again = Tape.read(future.directory)
        at = next((r.is_within or k for r in tape.rows if r.step == k), k)
        assert again.tree_at(at) == tape.tree_at(at), k
        assert world_at(future.run, at, tmp_path) == world_at(recorded.run, at, tmp_path), k
        # With nothing changed the future is what it was.
        assert again.last_tree == tape.last_tree, k
        assert [(r.step, r.name) for r in again.rows] == [(r.step, r.name) for r in tape.rows], k
    assert fingerprint(recorded, tmp_path) == before


def fingerprint(ended: Ended, scratch: Path) -> tuple[object, ...]:
    """All that a fork must leave alone."""
    raw = b"".join(p.read_bytes() for p in sorted(ended.directory.glob("*.jsonl")))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    return hashlib.sha256(raw).hexdigest(), world_at(ended.run, None, scratch)


def test_what_a_fork_does_differently_shows_in_no_other_run(
    recorded: Ended, tmp_path: Path
) -> None:
    before = fingerprint(recorded, tmp_path / "a")
    what = {"kind": "http", "method": "POST", "path": "/v1/customers"}
    blocking = {"id": "no-more", "match": what, "fault": {"status": 500}}
    plain, broken = fork(
        recorded.directory, [ForkWords(at=20), ForkWords(at=20, faults=[blocking])]
    )
    assert plain.exit_code == 0 and broken.exit_code == 1
    assert fingerprint(recorded, tmp_path / "b") == before
    assert Tape.read(plain.directory).last_tree == Tape.read(recorded.directory).last_tree
    assert Tape.read(broken.directory).last_tree != Tape.read(recorded.directory).last_tree


def test_fork_of_a_fork_has_the_past_of_both(recorded: Ended) -> None:
    first = fork(recorded.directory, ForkWords(at=12))[0]
    second = fork(first.directory, ForkWords(at=30))[0]
    assert second.divergence is None and second.exit_code == 0
    opened = Reader(second.directory).opened().body
    assert opened["lineage"]["run"] == first.run
    assert opened["lineage"]["root"] == recorded.run
    assert Tape.read(second.directory).last_tree == Tape.read(recorded.directory).last_tree
    assert verify(second.directory, signing_key(Engine.current().home).public).ok


def test_a_fork_at_a_step_that_is_not_there_says_which_are(recorded: Ended) -> None:
    with pytest.raises(InvalidInput, match="steps 1 to"):
        fork(recorded.directory, ForkWords(at=1000))


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
    asked = [row.step for row in Tape.read(recorded.directory).rows if row.kind == "http"]
    with Person(says_yes=False) as nobody:
        future = fork(recorded.directory, ForkWords(at=asked[1]))[0]
    # The first is the past: it is told again, and nobody is asked. The others are asked anew.
    assert nobody.answered == [future.run, future.run]
    settled = {
        step.number: step.settled.body["outcome"]
        for step in Reader(future.directory).steps()
        if step.settled is not None and step.number in asked
    }
    assert list(settled.values()) == ["simulated", "refused", "refused"]


def test_a_replay_asks_nobody_and_spends_no_answer(asking: Path) -> None:
    from paddock.run.replaying import replay

    with Person() as person:
        recorded = run(order_of(["python3", "agent.py"], cwd=asking))
    with Person(says_yes=False) as nobody:
        again = replay(recorded.directory)
    assert again.divergence is None and again.exit_code == 0
    assert len(person.answered) == 3 and nobody.answered == []


@pytest.mark.repeated
@pytest.mark.timeout(600)
def test_forks_with_different_faults_tell_what_came_of_each(recorded: Ended) -> None:
    payments = {"kind": "http", "host": "api.stripe.com"}
    faults = [
        [{"id": f"f{n}", "match": payments, "fault": {"status": 500 + n}, "first": 1}]
        for n in range(times(4, 20))
    ]
    futures = fork(recorded.directory, [ForkWords(at=38, faults=one) for one in faults])
    assert len({one.run for one in futures}) == len(faults)
    for number, future in enumerate(futures):
        struck = [r.body["fault"]["status"] for r in Reader(future.directory).records()
                  if r.type == "decided" and r.body.get("fault")]  # fmt: skip
        assert struck == [500 + number]
