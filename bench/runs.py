"""Measures runs: the whole of a short one, what recording costs an agent, how fast a past is read
again, how soon a fork is live, and many forks at once.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from bench.figures import (
    Figure,
    Limit,
    alternate,
    median,
    median_ms,
    number,
    spread_note,
    timed,
)
from bench.peers import Spawner
from bench.rig import Rig
from bench.runs_rig import (
    AT,
    CALLS,
    DELAY_S,
    FILES,
    Hearing,
    asking,
    home_of_runs,
    in_shell,
    model_words,
    project,
    recorded,
    seconds_outside,
    seconds_recorded,
    seconds_unrecorded,
    slow_server,
)
from paddock import Sandbox
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.writer import Journal
from paddock.model.action import Action, Effect, Kind, Outcome, Verdict
from paddock.model.errors import HostCannot
from paddock.model.events import Decided, Opened, Proposed, Settled
from paddock.run.history import RunHistory
from paddock.run.replay.fork import ForkOptions, fork

_STEPS = 10_000
_FORKS = 20
_MORE = 10  # steps of a recorded run behind the one that is forked at


def runs(rig: Rig) -> list[Figure]:
    """All in a home of their own."""
    with home_of_runs(rig, "runs"):
        return [_whole_run(rig), _recording(rig), _reading(rig)]


def run_forks(rig: Rig) -> list[Figure]:
    """Forks, in a home of their own."""
    with home_of_runs(rig, "forks"):
        top = project(rig, FILES)
        in_python = recorded(asking(top, calls=AT + _MORE, delay_s=0))
        return [
            _live(rig, "run-fork-sh", "an agent in sh", recorded(in_shell(top, AT + _MORE))),
            _live(rig, "run-fork-python", "one in Python that asks a model", in_python),
            _many(rig),
        ]


def _whole_run(rig: Rig) -> Figure:
    """Measure from the start of the command line to its end, bytecode compiled before."""
    script = Path(sys.executable).with_name("paddock")
    if not script.exists():
        raise HostCannot(
            f"there is no {script} to time", hint="install the package into this environment"
        )
    empty = ["/usr/bin/env", "-C", str(project(rig))]
    cached = [*empty, "-u", "PYTHONDONTWRITEBYTECODE"]
    with (
        Spawner("paddock run -- true", [*cached, str(script), "run", "--", "true"]) as ours,
        Spawner("python -c pass", [*empty, sys.executable, "-P", "-c", "pass"]) as bare,
    ):
        whole, plain = alternate(rig.count(20, 7), ours.run, bare.run, warm_up=2)
    return Figure(
        name="run-true",
        title="paddock run -- true, in all",
        value=median_ms(whole),
        unit="ms",
        n=len(whole),
        limit=Limit(300),
        note=f"{spread_note(whole)}, fastest {number(1000 * min(whole))} ms; "
        f"python -c pass {number(median_ms(plain))} ms",
    )


def _recording(rig: Rig) -> Figure:
    """The agent times its own questions, so that no start is in it."""
    cwd, count = project(rig), rig.count(7, 3)
    world = model_words(DELAY_S)
    with Sandbox.create(world=world, timeout=3600) as box, slow_server() as port:
        ours, plain, outside = alternate(
            count,
            lambda: seconds_recorded(cwd),
            lambda: seconds_unrecorded(box),
            lambda: seconds_outside(port),
        )
    return Figure(
        name="run-recording",
        title=f"agent with {CALLS} model calls of {1000 * DELAY_S:g} ms, recorded",
        value=median_ms(ours),
        unit="ms",
        n=count,
        peer="not recorded",
        peer_value=median_ms(plain),
        limit=Limit(1.1, is_ratio=True),
        note=f"beside a command of a sandbox with the same world; {spread_note(ours)}; without any "
        f"sandbox or TLS {number(median_ms(outside))} ms, so in all "
        f"{number(median(ours) / median(outside))}x",
    )


def _reading(rig: Rig) -> Figure:
    directory = rig.scratch / "reading"
    key = SigningKey.open(rig.scratch / "reading-keys")
    try:
        _write(directory, key)

        def run() -> None:
            count = sum(1 for _ in RunHistory.read(directory, key.public).steps())
            if count != _STEPS:
                raise HostCannot(f"{count} of {_STEPS} steps were read")

        (samples,) = alternate(rig.count(7, 3), timed(run))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return Figure(
        name="run-reading",
        title=f"replay without the agent, {_STEPS:,} steps",
        value=_STEPS / median(samples),
        unit="steps/s",
        n=len(samples),
        limit=Limit(2000, is_floor=True),
        note=f"chain and signatures checked; slowest {number(_STEPS / max(samples))} steps/s",
    )


def _write(directory: Path, key: SigningKey) -> None:
    action = Action(Kind.TOOL, "issue_refund", {"amount": 1200, "customer": "cus_1928"})
    decided = Decided(Verdict.ALLOW, "small-refunds", "Within the budget.", Effect.WRITE)
    writer = Journal.create(directory, opened=Opened(run="bench", agent="bench"), key=key)
    for step in range(1, _STEPS + 1):
        writer.append(Proposed.of(action), step)
        writer.append(decided, step)
        writer.append(Settled(Outcome.DONE, {"id": "re_1"}), step)
    writer.close()


def _live(rig: Rig, name: str, agent: str, directory: Path) -> Figure:
    (samples,) = alternate(rig.count(9, 3), lambda: _until_live(directory))
    return Figure(
        name=name,
        title=f"fork at step {AT} over {FILES:,} files until live, {agent}",
        value=median_ms(samples),
        unit="ms",
        n=len(samples),
        limit=Limit(300),
        note=f"{spread_note(samples)}; sandbox, start of the agent, and {AT} steps of its past",
    )


def _until_live(directory: Path) -> float:
    hearing = Hearing()
    began = time.perf_counter()
    (ended,) = fork(directory, ForkOptions(at=AT), watch=hearing)
    if hearing.live_at is None:
        raise HostCannot(f"the fork did not become live: {ended.error or ended.ended_by}")
    return hearing.live_at - began


def _many(rig: Rig) -> Figure:
    count, cores = rig.count(_FORKS, 8), len(os.sched_getaffinity(0))
    directory = recorded(asking(project(rig), calls=10))

    def forks(jobs: int) -> float:
        began = time.perf_counter()
        fork(directory, ForkOptions(at=5), count=count, jobs=jobs)
        return time.perf_counter() - began

    one, many = alternate(rig.count(3, 1), lambda: forks(1), lambda: forks(cores))
    return Figure(
        name="run-forks",
        title=f"{count} forks on {cores} cores, faster than one by one",
        value=median(one) / median(many),
        unit="x",
        n=len(many),
        limit=Limit(1.5, is_floor=True),
        note=f"one by one {number(median(one))} s, together {number(median(many))} s; each starts "
        f"Python, lives through 4 model calls and makes 6 of {1000 * DELAY_S:g} ms",
    )
