"""Agents as people write them, with the clients that they use: each is recorded under a paddock
file, does the very same in every replay, and can be forked at every one of its steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.agents.recorded_agent import Ending, RecordedAgent, record
from clients.agents.stock import StockServer
from paddock.model.action import Kind
from repetition import times

REPLAYS = times(1, 5)
NOTHING_MORE = "rules=[{id: nothing-more, match: {kind: [http, model]}, decide: block}]"
REQUESTS = {"kind": ["http", "model"]}
DOWN_ONCE = [{"id": "down", "match": REQUESTS, "fault": {"status": 503}, "first": 1}]
# These ask no model, and try again by themselves whatever they ask for.
OF_REQUESTS = ("boto3", "grpcio", "stripe")
THOROUGH = (
    "bedrock",
    "boto3",
    "gemini",
    "node",
    "openai",
    "pydantic_ai",
    "stripe",
)  # others do the like by default

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(
    scope="module",
    params=["anthropic", "bash", "grpcio"]
    + [pytest.param(name, marks=pytest.mark.thorough) for name in THOROUGH],
)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordedAgent]:
    """One recording of each agent."""
    place = tmp_path_factory.mktemp("agents")
    if request.param != "grpcio":
        yield record(request.param, place)
        return
    with StockServer() as server:
        address = f"network.hosts={{stock.example: '127.0.0.1:{server.port}'}}"
        yield record(request.param, place, ["--set", address])


@pytest.mark.repeated
def test_every_replay_does_the_very_same(recorded: RecordedAgent) -> None:
    for _ in range(REPLAYS):
        code, errors, report = recorded.replay()
        assert code == 0, errors
        assert report["steps"] == len(recorded.tape.steps)


@pytest.mark.thorough
def test_fork_without_a_change_ends_as_the_original_did_at_every_step(
    recorded: RecordedAgent,
) -> None:
    steps = range(1, recorded.tape.last_step + 2)
    endings = recorded.fork_at(steps)
    assert {step: one for step, one in endings.items() if one != recorded.ending} == {}


@pytest.mark.thorough
def test_fork_with_a_fault_is_retried_and_ends_as_the_original_did(recorded: RecordedAgent) -> None:
    kind = Kind.HTTP if recorded.name in OF_REQUESTS else Kind.MODEL
    endings = recorded.fork_at(_few(recorded.steps(kind)), faults=DOWN_ONCE)
    assert {step: one for step, one in endings.items() if one != recorded.ending} == {}


@pytest.mark.thorough
def test_fork_that_forbids_what_comes_next_ends_otherwise(recorded: RecordedAgent) -> None:
    steps = _few([*recorded.steps(Kind.HTTP), *recorded.steps(Kind.MODEL)])
    endings = recorded.fork_at(steps, sets=(NOTHING_MORE,))
    assert all(isinstance(one, Ending) for one in endings.values()), endings
    assert recorded.ending not in endings.values()


def _few(steps: list[int]) -> list[int]:
    """The first, one in the middle, and the last."""
    return sorted({steps[0], steps[len(steps) // 2], steps[-1]})
