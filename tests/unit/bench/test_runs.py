"""The figures of runs: that their agents do what they say, and that nothing stays behind. How fast
anything is, no test asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import runs, runs_rig
from bench.main import measurement
from bench.rig import Rig, open_rig
from bench.runs_rig import (
    Hearing,
    asking,
    home_of_runs,
    in_shell,
    project,
    recorded,
    seconds_outside,
    slow_server,
)
from paddock.journal.log import RunLog
from paddock.model.action import Kind
from paddock.model.errors import HostCannot
from paddock.run.order import order_of
from paddock.run.session import run
from paddock.state.home import Home


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    with open_rig(is_quick=True) as found:
        yield found


def test_bench_has_the_figures_of_runs() -> None:
    assert measurement("runs") is runs.runs
    assert measurement("run-forks") is runs.run_forks


def test_home_of_runs_is_another_one_and_is_left_again(rig: Rig) -> None:
    before = os.environ["PADDOCK_HOME"]
    with home_of_runs(rig, "other"):
        assert Home.find().root.is_relative_to(rig.scratch)
    assert os.environ["PADDOCK_HOME"] == before


def test_project_has_as_many_files_as_it_says(rig: Rig) -> None:
    assert sum(1 for path in project(rig, 250).rglob("*") if path.is_file()) == 250


def test_agents_of_the_bench_make_a_step_of_each_call_and_program(rig: Rig) -> None:
    with home_of_runs(rig, "steps"):
        asked = RunLog(recorded(asking(project(rig), calls=3, delay_s=0)))
        started = RunLog(recorded(in_shell(project(rig), 4)))
        kinds = [step.kind for step in asked.steps()]
        assert kinds.count(Kind.MODEL) == 3
        assert sum(1 for _ in started.steps()) == 5  # itself, and what it starts


def test_agent_that_fails_is_no_figure(rig: Rig) -> None:
    with home_of_runs(rig, "failing"), pytest.raises(HostCannot, match="failed"):
        recorded(order_of(["/bin/false"], cwd=project(rig)))


def test_agent_outside_speaks_to_the_slow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_rig, "CALLS", 2)
    with slow_server() as port:
        assert seconds_outside(port) >= 2 * runs_rig.DELAY_S


def test_fork_of_the_bench_is_heard_to_be_live(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AT", 3)
    with home_of_runs(rig, "live"):
        assert runs._until_live(recorded(in_shell(project(rig), 4))) > 0


def test_run_that_is_no_fork_is_never_heard_to_be_live(rig: Rig) -> None:
    hearing = Hearing()
    with home_of_runs(rig, "plain"):
        run(order_of(["/bin/echo", "hello"], cwd=project(rig)), hearing)
    assert hearing.live_at is None
    assert hearing.output == b"hello\n"


def test_past_that_is_read_has_all_its_steps(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_STEPS", 20)
    figure = runs._reading(rig)
    assert figure.value is not None
    assert not (rig.scratch / "reading").exists()
