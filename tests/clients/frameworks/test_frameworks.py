"""Agent frameworks from PyPI, as they are, under `paddock run`: everything that the agent does is
on record, it does the very same in a replay, and it has other futures from a step in the middle."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from clients.frameworks.recordings import Played, project_of, record
from paddock.model.action import Kind, Outcome
from paddock.run.replay.fork import ForkOptions
from paddock.run.report import report_of
from repetition import times

FRAMEWORKS = {"openai_agents": "agents", "pydantic_ai": "pydantic_ai", "langgraph": "langgraph"}
REPLAYS = times(1, 3)
END = "Ada has 4200 cents back; the note has 43 bytes."
REFUSED_END = "Nothing was paid back; a colleague must look at it."
NO_REFUNDS = "rules=[{id: no-refunds, match: {path: /v1/refunds, kind: http}, decide: block}]"
NO_TRACES = "rules=[{id: no-traces, match: {path: '/v1/traces/*', kind: http}, decide: block}]"
BUSY_ONCE = [{"id": "busy", "match": {"kind": "model"}, "fault": {"status": 429}, "first": 1}]
LOOKED_UP = [("GET", "/v1/customers"), ("GET", "/v1/charges")]

pytestmark = pytest.mark.timeout(300)


# One of them stands for all by default.
@pytest.fixture(
    scope="module",
    params=[
        "openai_agents",
        pytest.param("pydantic_ai", marks=pytest.mark.thorough),
        pytest.param("langgraph", marks=pytest.mark.thorough),
    ],
)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One recording of each framework's agent."""
    if importlib.util.find_spec(FRAMEWORKS[request.param]) is None:
        pytest.skip(f"{request.param} is not installed")
    project = project_of(request.param, tmp_path_factory.mktemp("frameworks") / request.param)
    return record(project, [sys.executable, "agent.py"])


@pytest.fixture(scope="module")
def refused(recorded: Played) -> Played:
    """A future in which the money is not paid back."""
    (made,) = recorded.fork(ForkOptions(recorded.refund().number, sets=(NO_REFUNDS,)))
    return made


def test_all_that_the_agent_does_is_on_record(recorded: Played) -> None:
    assert recorded.ended.exit_code == 0, recorded.out
    assert END in recorded.out
    assert [row.arguments["argv"][:2] for row in commands(recorded)] == [["sh", "-c"]]
    assert recorded.payments() == [*LOOKED_UP, ("POST", "/v1/refunds")]
    assert json.loads(recorded.result(recorded.refund())["body"])["amount"] == 4200
    files = report_of(recorded.ended.directory).files
    assert files is not None and files.changed == len(["taken.txt", "notes", "notes/ada.md"])
    assert recorded.file("taken.txt").endswith("2:The cup was broken.\n")
    assert recorded.file("notes/ada.md").startswith("refunded 4200, re_")
    assert sorted(one.name for one in recorded.project.iterdir() if one.is_dir()) == ["tickets"]


def test_conversation_is_readable_at_each_call_of_the_model(recorded: Played) -> None:
    calls = recorded.of(Kind.MODEL)
    texts = [json.dumps(row.arguments["body"]) for row in calls]
    assert len(calls) == 4
    assert all("ada@shop.example, as her ticket asks" in text for text in texts)
    assert "The cup was broken." not in texts[0]
    assert all("The cup was broken." in text for text in texts[1:])
    assert all("take_ticket" in text and "write_note" in text for text in texts)
    assert json.dumps(recorded.result(calls[-1])).count("43 bytes") >= 1


@pytest.mark.repeated
def test_replay_does_the_very_same_every_time(recorded: Played) -> None:
    for _ in range(REPLAYS):
        again = recorded.replay()
        assert again.ended.divergence is None, again.ended.divergence
        assert again.ended.exit_code == 0
        assert sorted(again.out.splitlines()) == sorted(recorded.out.splitlines())
        assert again.steps() == recorded.steps()
        assert bool(again.ended.background) == bool(recorded.traces())
        assert again.file("notes/ada.md") == recorded.file("notes/ada.md")


def test_fork_has_the_past_of_the_record_and_a_future_of_its_own(
    recorded: Played, refused: Played
) -> None:
    at = recorded.refund().number
    assert refused.ended.divergence is None
    assert before(refused, at) == before(recorded, at)
    assert refused.tape.tree_at(at) == recorded.tape.tree_at(at)
    assert refused.refund().number == at
    assert refused.tape.settled(at).outcome is Outcome.REFUSED
    assert refused.file("notes/ada.md") == "not refunded: 403\n"
    assert REFUSED_END in refused.out


def test_fork_of_a_fork_with_the_first_terms_ends_like_the_first_run(
    recorded: Played, refused: Played
) -> None:
    at = recorded.refund().number
    last = refused.of(Kind.MODEL)[-1].number
    first_terms = ForkOptions(at, policy=str(recorded.project / "paddock.yaml"))
    again, retried = refused.fork(first_terms, ForkOptions(last, faults=BUSY_ONCE))
    assert again.ended.divergence is None
    assert END in again.out
    assert again.result(again.refund())["body"] == recorded.result(recorded.refund())["body"]
    assert again.file("notes/ada.md") == recorded.file("notes/ada.md")
    assert retried.ended.divergence is None
    assert retried.tape.settled(last).outcome is Outcome.FAULTED
    assert [row.number > last for row in retried.of(Kind.MODEL)][-2:] == [False, True]
    assert REFUSED_END in retried.out


def test_traces_that_are_sent_by_the_clock_are_beside_what_the_agent_does(
    recorded: Played,
) -> None:
    traces = recorded.traces()
    assert bool(traces) == (recorded.project.name == "openai_agents")
    assert {row.arguments["path"] for row in traces} <= {"/v1/traces/ingest"}


def test_traces_that_are_refused_do_not_disturb_the_agent_nor_its_replay(tmp_path: Path) -> None:
    project = project_of("openai_agents", tmp_path / "traced")
    played = record(project, [sys.executable, "agent.py"], sets=(NO_TRACES,))
    assert played.ended.exit_code == 0
    assert END in played.out
    again = played.replay()
    assert again.ended.divergence is None, again.ended.divergence
    assert again.steps() == played.steps()
    for one in (played, again):
        assert one.traces()
        outcomes = {one.tape.settled(row.number).outcome for row in one.traces()}
        assert outcomes == {Outcome.REFUSED}


def before(played: Played, at: int) -> list[tuple[int, str, str]]:
    return [step for step in played.steps() if step[0] < at]


def commands(played: Played) -> list[object]:
    """The programs of tools: not the agent itself, nor what a library asks the system."""
    programs = [row for row in played.of(Kind.EXEC) if row.number > 1]
    return [row for row in programs if row.arguments["argv"][0] != "uname"]
