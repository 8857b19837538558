"""Runs the ground truth of AgentDojo's user tasks twice, without the gate and through it, and
prints what came of each as JSON: `ground_truth.py VERSION SUITE...`.
"""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agentdojo.agent_pipeline import BasePipelineElement, GroundTruthPipeline
from agentdojo.default_suites.v1.tools import cloud_drive_client, email_client
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite import get_suite
from gated import GatedRuntime, paddock_file

from paddock import open_run
from paddock.gate.gate import Gate
from paddock.journal.log import RunLog
from paddock.state.home import Home


class StoppedClock(datetime.datetime):
    """Two runs are compared to the letter, so it is the same time in both."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return datetime.datetime(2024, 5, 15, 12, 0, tzinfo=tz)


for module in (cloud_drive_client, email_client):  # those that look at the clock
    module.datetime = SimpleNamespace(**{**vars(datetime), "datetime": StoppedClock})


class Watched(BasePipelineElement):
    """The ground truth of a task, and what it left."""

    def __init__(self, task: Any) -> None:
        self._inner = GroundTruthPipeline(task)
        self.calls: list[FunctionCall] = []
        self.said: list[Any] = []
        self.left: Any = None

    def query(self, *args: Any, **kwargs: Any) -> Any:
        found = self._inner.query(*args, **kwargs)
        self.left = found[2].model_dump(mode="json")
        self.said = [one["content"] for one in found[3]]
        self.calls = [call for one in found[3] for call in one.get("tool_calls") or ()]
        return found


def main(version: str, suites: list[str]) -> None:
    found = []
    for name in suites:
        suite = get_suite(version, name)
        file = Path(tempfile.mkdtemp()) / "paddock.yaml"
        file.write_text(paddock_file(suite.tools))
        began = suite.load_and_inject_default_environment({})
        for task_id in suite.user_tasks:
            with open_run(file) as gate:
                found.append({"suite": name, "task": task_id, **_both(suite, task_id, began, gate)})
            found[-1]["journal"] = _journalled(gate.run)
    print(json.dumps(found))


def _both(suite: Any, task_id: str, began: Any, gate: Gate) -> dict[str, Any]:
    bare, bare_utility = _once(suite, task_id, began, FunctionsRuntime)
    gated, gated_utility = _once(suite, task_id, began, GatedRuntime.behind(gate))
    return {
        "utility": [bare_utility, gated_utility],
        "same_outputs": bare.said == gated.said,
        "same_environment": bare.left == gated.left,
        "calls": [[call.function, _plain(call)] for call in _flat(gated.calls)],
    }


def _once(
    suite: Any, task_id: str, began: Any, runtime: Callable[..., Any]
) -> tuple[Watched, bool]:
    task = suite.get_user_task_by_id(task_id)
    watched = Watched(task)
    utility, _ = suite.run_task_with_pipeline(
        watched, task, None, {}, runtime_class=runtime, environment=began.model_copy(deep=True)
    )
    return watched, utility


def _flat(calls: list[FunctionCall]) -> list[FunctionCall]:
    """Those inside arguments are made first."""
    found = []
    for call in calls:
        inner = [value for value in call.args.values() if isinstance(value, FunctionCall)]
        found += [*_flat(inner), call]
    return found


def _plain(call: FunctionCall) -> dict[str, Any]:
    return {
        name: None
        if isinstance(value, FunctionCall)
        else json.loads(json.dumps(value, default=str))
        for name, value in call.args.items()
    }


def _journalled(run: str) -> list[Any]:
    """Every call as the journal has it: its name, arguments, verdict and outcome."""
    steps = []
    for step in RunLog(Home.find().runs / run).steps():
        assert step.proposed and step.decided and step.settled
        steps.append([step.name, step.arguments, step.verdict, step.outcome])
    return steps


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
