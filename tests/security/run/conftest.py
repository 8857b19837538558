"""Agents whose next run is another one than the last, and a server that counts who comes. No test
lives here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.run.order import order_of
from paddock.run.running import Ended, run
from security.network.origins import Origin, careless

AGENT = "exec(open('plan.py').read())\n"
POLICY = """
version: 1
agent: attacker
stage: broad
network:
  allow: [api.example:80, "raw.example:5432/tcp", "api.example:8080"]
  hosts: {{api.example: "{place}", raw.example: "{place}"}}
secrets:
  API_KEY: {{from: env:ATTACK_TEST_KEY, to: [api.example]}}
world: {{api.stripe.com: payments}}
"""


@pytest.fixture
def origin() -> Iterator[Origin]:
    with careless() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, origin: Origin) -> Path:
    """What the agent does is in plan.py, which is no part of the record."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "agent.py").write_text(AGENT)
    (place / "paddock.yaml").write_text(POLICY.format(place=origin.place))
    return place


@pytest.fixture
def recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Ended]:
    """Records an agent that follows a plan."""
    monkeypatch.setenv("ATTACK_TEST_KEY", "the-value-of-the-secret")

    def record(plan: str, **words: object) -> Ended:
        (project / "plan.py").write_text(plan)
        return run(order_of(["python3", "agent.py"], cwd=project, **words))  # type: ignore[arg-type]

    return record
