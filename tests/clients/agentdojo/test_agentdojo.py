"""AgentDojo's worlds of tools behind the gate: the ground truth of every user task of its suites
gives the same as without it, and the journal has each call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clients.packages import agentdojo

VERSION = "v1.2.2"
SUITES = {"workspace": 40, "slack": 21, "banking": 16, "travel": 20}
RUN_S = 300
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


def test_the_ground_truth_of_all_tasks_is_the_same_through_the_gate(tmp_path: Path) -> None:
    found = ground_truth(tmp_path / "home")
    assert Counter(one["suite"] for one in found) == SUITES
    for one in found:
        what = f"{one['suite']} {one['task']}"
        assert one["utility"] == [True, True], what
        assert one["same_outputs"], what
        assert one["same_environment"], what
        check_journal(one["calls"], one["journal"], what)
    assert sum(len(one["calls"]) for one in found) > 300


def ground_truth(home: Path) -> list[dict[str, Any]]:
    """What came of each task; in a process of its own, once for all suites: it is slow to load."""
    path = ":".join([str(agentdojo()), *sys.path])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("ground_truth.py")), VERSION, *SUITES],
        env={**os.environ, "PYTHONPATH": path, "PADDOCK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def check_journal(calls: list[Any], journal: list[Any], what: str) -> None:
    """Every call is there once, in its order, with what the task gave, allowed and done."""
    assert [name for name, *_ in journal] == [name for name, _ in calls], what
    for (_, given), (_, arguments, verdict, outcome) in zip(calls, journal, strict=True):
        assert (verdict, outcome) == ("allow", "done"), what
        assert {name: arguments[name] for name in given} == given, what
