"""That what crossed a gate comes back from its journal as it was, to be decided on again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.gate.recorded_actions import recorded_actions, recorded_in_order
from paddock.journal.codec import body_of
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.model.errors import IntegrityError, InvalidInput
from paddock.model.events import ProgramEnded, ProgramStarted
from paddock.policy.analysis.candidate import RecordedAction, replay
from paddock.policy.file import load
from paddock.state.home import new_id
from unit.cli.past import FILE, OBSERVED, USUAL, command, make_run, refund, search

POLICY = load(FILE)


def back(directory: Path) -> list[RecordedAction]:
    return list(recorded_actions(directory))


def observed(program: str, *argv: str) -> ProgramStarted:
    return msgspec.structs.replace(OBSERVED, program=program, argv=list(argv))


def test_actions_come_back_as_they_were_decided_on(tmp_path: Path) -> None:
    full = Action(Kind.TOOL, "search", {"query": "ü", "n": [1, {"a": None}]}, Effect.READ,
                  context={"model": "m", "tool_call_id": "c1"}, parent=3)  # fmt: skip
    found = back(make_run(tmp_path, "r", [full, refund(5)]))
    first, second = found
    assert (first.number, second.number) == (1, 2)
    assert first.run == "r"
    assert first.at <= second.at
    for name in ("kind", "name", "arguments", "effect", "is_reversible", "is_contained", "parent",
                 "context"):  # fmt: skip
        assert getattr(first.action, name) == getattr(full, name), name
    decided = POLICY.decide(refund(5))
    assert second.decision.verdict is decided.verdict is Verdict.SIMULATE
    assert second.decision.is_draft
    assert second.decision.decided_by == decided.decided_by == "stage:draft"


def test_hits_come_back(tmp_path: Path) -> None:
    [one] = back(make_run(tmp_path, "r", [search("everything")]))
    assert one.decision == POLICY.decide(search("everything"))


def test_large_arguments_come_back_whole(tmp_path: Path) -> None:
    [one] = back(make_run(tmp_path, "r", [search("long " * 20_000)]))
    assert one.action.arguments["query"] == "long " * 20_000


def test_program_that_was_only_observed_is_an_action_too(tmp_path: Path) -> None:
    pip = observed("/usr/bin/pip", "pip", "install", "x")
    shell = observed("/bin/sh", "/bin/sh", "-c", "pip install x")
    actions = [command("sh", "-c", "pip install x")]
    found = back(make_run(tmp_path, "r", actions, observed={1: [shell, pip]}))
    assert [one.action.name for one in found] == ["sh", "sh", "pip"]
    last = found[-1]
    assert last.action.arguments["argv"] == ["pip", "install", "x"]
    assert (last.number, last.action.parent) == (1, 1)
    assert last.decision.verdict is Verdict.ALLOW
    [change] = replay(POLICY, found)
    assert change.after.decided_by == "no-installs"


def test_end_of_a_program_is_no_action(tmp_path: Path) -> None:
    ended = ProgramEnded(pid=7, exit_code=0)
    assert len(back(make_run(tmp_path, "r", [search("x")], observed={1: [ended]}))) == 1


def lines_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "000001.jsonl").read_bytes().splitlines()]


def rewritten(directory: Path, lines: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
    (directory / "000001.jsonl").write_text(text)


def before_settled(directory: Path, step: int, started: ProgramStarted) -> None:
    """Puts an observation where the fence makes it: while the command runs."""
    lines = lines_of(directory)
    at = next(n for n, one in enumerate(lines) if one.get("step") == step and
              one["type"] == "settled")  # fmt: skip
    seen = {**lines[at], "type": started.TYPE, "body": body_of(started)}
    rewritten(directory, [*lines[:at], seen, *lines[at:]])


def test_command_that_is_seen_to_start_is_one_action_with_the_program_that_it_is(
    tmp_path: Path,
) -> None:
    directory = make_run(tmp_path, "r", [command("sh", "-c", "true")])
    before_settled(directory, 1, observed("/bin/bash", "/bin/bash", "-c", "true"))
    [one] = back(directory)
    assert one.action.arguments["argv"] == ["sh", "-c", "true"]
    assert one.action.arguments["program"] == "/bin/bash"


def test_command_whose_real_program_was_decided_on_keeps_it(tmp_path: Path) -> None:
    directory = make_run(tmp_path, "r", [command("sh", "-c", "x", real_path="/usr/bin/dash")])
    before_settled(directory, 1, observed("/usr/bin/ls", "/bin/sh", "-c", "x"))
    [one] = back(directory)
    assert one.action.arguments["program"] == "sh"
    assert one.action.arguments["real_path"] == "/usr/bin/dash"


def test_program_that_crossed_the_gate_is_not_counted_again_when_it_is_seen(
    tmp_path: Path,
) -> None:
    nested = command("ls", "-l", pid=7)
    directory = make_run(tmp_path, "r", [nested], observed={1: [OBSERVED]})
    lines = lines_of(directory)
    for one in lines:
        if one["type"] == "proposed":
            one["body"]["parent"] = 1
    rewritten(directory, lines)
    assert len(back(directory)) == 1


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("proposed", "kind", "magic"),
        ("proposed", "name", 7),
        ("proposed", "arguments", []),
        ("proposed", "effect", None),
        ("decided", "verdict", "maybe"),
        ("decided", "hits", [1]),
        ("decided", "why", None),
    ],
)
def test_record_that_is_about_no_action_is_said_to_be(
    kind: str, key: str, value: Any, tmp_path: Path
) -> None:
    directory = make_run(tmp_path, "r", [search("x")])
    lines = lines_of(directory)
    for one in lines:
        if one["type"] == kind:
            one["body"][key] = value
    rewritten(directory, lines)
    with pytest.raises(IntegrityError, match="is not about an action"):
        back(directory)


def test_directory_without_a_journal_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        back(tmp_path)


def test_several_runs_come_in_the_order_of_time(tmp_path: Path) -> None:
    first = make_run(tmp_path, "b", [search("1"), search("2")])
    second = make_run(tmp_path, "a", [search("3")])
    third = make_run(tmp_path, "c", [search("4")])
    events = recorded_in_order([third, second, first, second])
    found = [one for one in events if isinstance(one, RecordedAction)]
    assert [one.action.arguments["query"] for one in found] == ["1", "2", "3", "4"]
    assert [one.run for one in found] == ["b", "b", "a", "c"]
    assert list(recorded_in_order([])) == []


def test_runs_that_overlap_are_merged(tmp_path: Path) -> None:
    one = make_run(tmp_path, "one", [search("1"), search("4")])
    two = make_run(tmp_path, "two", [search("2"), search("3")])
    for directory, times in ((one, (1, 4)), (two, (2, 3))):
        lines = lines_of(directory)
        for line in lines:
            line["at"] = 1_700_000_000_000_000 + times[(line.get("step") or 1) - 1] * 1000
        rewritten(directory, lines)
    events = recorded_in_order([one, two])
    found = (one for one in events if isinstance(one, RecordedAction))
    assert [one.action.arguments["query"] for one in found] == ["1", "2", "3", "4"]


actions = st.one_of(
    st.sampled_from(USUAL),
    st.builds(search, st.text(max_size=5), n=st.one_of(st.none(), st.booleans(), st.text())),
    st.builds(refund, st.integers(-(2**53) + 1, 2**53 - 1)),
    st.builds(command, st.sampled_from(["ls", "pip", "sh"]), st.text(max_size=5)),
)
LIMITED = load(
    FILE.replace("stage: draft", "stage: broad")
    + "  - {id: few, match: {kind: tool, name: search}, limit: {count: 1, max: 3, per: run},"
    + " decide: block, why: Enough.}\n"
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(st.lists(actions, max_size=8), st.sampled_from([POLICY, LIMITED]))
def test_the_file_of_a_run_changes_nothing_about_it(
    tmp_path: Path, done: list[Action], policy: Any
) -> None:
    directory = make_run(tmp_path, new_id(), done, policy=policy)
    found = back(directory)
    assert len(found) == len(done)
    assert replay(policy, found) == []
