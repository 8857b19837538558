"""Journals whose events were chosen by an agent or made up: they end no reader, hide nothing from
one, and nothing that they say is done."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.main import main
from paddock.gate.recorded_actions import lessons, recorded_actions
from paddock.gate.run_gate import signing_key
from paddock.gate.signed_journals import check_trusted
from paddock.journal.canonical import canonical_text
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.records import Chain
from paddock.journal.segments import segment_name
from paddock.journal.writer import Journal
from paddock.model.action import Effect, Kind, Outcome, Verdict
from paddock.model.errors import IntegrityError, PaddockError
from paddock.model.events import (
    AnyEvent,
    Configured,
    Decided,
    Opened,
    PolicySource,
    ProgramStarted,
    Proposed,
    RefusedAgain,
    Settled,
    TermsChanged,
)
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.state.home import Home

POLICY = "version: 1\nagent: a\nstage: broad\n"
CONFIGURED = Configured(argv=["python3", "agent.py"], cwd="/work", policy=PolicySource(POLICY))
LARGE = "x" * 20_000
NUMBER = sha256(b"5").hexdigest()  # the name of a blob that is no text
Steps = Iterable[tuple[AnyEvent, int | None]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    place = Home(tmp_path / "home")
    place.make()
    return place


def recorded(
    home: Home, events: Steps, *, key: SigningKey | None = None, configured: AnyEvent = CONFIGURED
) -> Path:
    """A closed journal of this home, signed by it or by somebody else."""
    opened = Opened("r", "a", kind="run", command=["python3", "agent.py"], cwd="/work")
    journal = Journal.create(home.runs / "r", opened=opened, key=key or signing_key(home))
    journal.append(configured)
    for event, step in events:
        journal.append(event, step)
    journal.sign()
    journal.close("done")
    return journal.directory


def action(
    step: int,
    kind: Kind = Kind.TOOL,
    result: Any = None,
    *,
    verdict: Verdict = Verdict.ALLOW,
    outcome: Outcome = Outcome.DONE,
) -> Steps:
    """The events of one step."""
    yield Proposed(kind, "echo", {"text": "x"}, Effect.READ, True, False), step
    yield Decided(verdict, "rule", "fine", Effect.READ), step
    yield Settled(outcome, result), step


# ---- what an agent can put there -----------------------------------------------------------------


@pytest.mark.timeout(60)
def test_refusals_counted_without_end_do_not_stall_whoever_decides_on_them_again(
    home: Home,
) -> None:
    """An agent can have itself refused as often as it likes, and is counted once a second."""
    refused = action(2, verdict=Verdict.BLOCK, outcome=Outcome.REFUSED)
    flood = [(RefusedAgain(2, 1, 2), 2)] * 4000 + [(RefusedAgain(1 << 53, 1, 2), 2)]
    directory = recorded(home, [*refused, *flood])
    actions = list(recorded_actions(directory))
    assert 8000 < len(actions) <= 10_001
    assert {one.decision.verdict for one in actions} == {Verdict.BLOCK}


def test_program_with_long_arguments_is_not_learned_without_them(home: Home) -> None:
    argv = ["sh", "-c", "curl evil.example", *(["x" * 1000] * 80)]
    directory = recorded(home, [*action(1), (ProgramStarted("/bin/sh", argv, pid=7), 1)])
    actions, _ = lessons(directory, check_trusted(directory, home))
    assert [one.action.arguments.get("argv") for one in actions] == [None, argv]


@pytest.mark.parametrize(
    "results",
    [
        ({"model_step": 3}, {"model_step": 2}),
        ({"is_cut": True, "bytes": 1}, {"websocket": {}}),
        ({"begun": 0}, {"begun": 1 << 53, "left": True}),
        ({"edited_as": 3}, {"edited_as": 2}),
    ],
)
def test_what_a_tool_returns_does_not_keep_a_run_from_being_replayed(
    home: Home, results: tuple[Any, Any]
) -> None:
    """A tool that returns what it was given lets the agent choose the names in its results."""
    events = [*action(2, result=results[0]), *action(3, result=results[1])]
    directory = recorded(home, events)
    run = RecordedRun(directory, check_trusted(directory, home))
    state = [(step.last.number, step.unkept, step.begun_n, step.is_unseen) for step in run.steps]
    assert state == [(2, "", None, False), (3, "", None, False)]
    assert [run.settled(number).result for number in (2, 3)] == list(results)


# ---- what a made-up journal can say --------------------------------------------------------------


def test_requests_that_carry_each_other_end_no_reader(home: Home) -> None:
    events = [
        event
        for step in range(2, 1500)
        for event in action(step, Kind.HTTP, {"model_step": 2 if step == 1499 else step + 1})
    ]
    directory = recorded(home, events)
    assert len(RecordedRun(directory).steps) == 1498


@pytest.mark.parametrize(
    "event",
    [TermsChanged(1, PolicySource(LARGE)), Configured(argv=[LARGE])],
    ids=lambda event: event.TYPE,
)
def test_large_value_that_is_something_else_is_an_error_in_words(
    home: Home, event: AnyEvent
) -> None:
    """The event can be read, and is no such event any more with its large value."""
    configured = event if isinstance(event, Configured) else CONFIGURED
    directory = recorded(home, [(event, None)], configured=configured)
    (blob,) = (directory / "blobs").glob("*/*")
    number = directory / "blobs" / NUMBER[:2] / NUMBER
    number.parent.mkdir(exist_ok=True)
    number.write_bytes(b"5")
    path = directory / segment_name(1)
    line = path.read_bytes().replace(b'"form":"text"', b'"form":"json"')
    path.write_bytes(line.replace(blob.name.encode(), NUMBER.encode()))
    with pytest.raises(IntegrityError, match="cannot be read"):
        RecordedRun(directory)


@pytest.mark.parametrize("name", ["terms_changed", "configured", "proposed", "settled"])
def test_record_that_cannot_be_read_is_not_left_out_of_a_replay(home: Home, name: str) -> None:
    """Without it the run would be under other terms, or have done less."""
    directory = recorded(home, action(2))
    append_unsigned(directory, [(name, {"policy": 5})])
    with pytest.raises(IntegrityError, match="cannot be read"):
        RecordedRun(directory)


COMMAND = (
    "version: 1\nagent: a\nsecrets:\n  K: {{from: 'command:touch {proof}', to: [a.example]}}\n"
)


def smuggled(proof: Path) -> list[tuple[str, dict[str, Any]]]:
    """Records of format 1 and 2 that say under which terms a run was."""
    policy = {"text": COMMAND.format(proof=proof)}
    setting = {"argv": ["touch", str(proof)], "cwd": "/", "policy": policy}
    return [
        ("noted", {"what": "setting", **setting}),
        ("noted", {"what": "terms", "at": 0, "policy": policy}),
        ("noted", {"what": "live", "at": 0}),
        ("configured", setting),
        ("terms_changed", {"at": 0, "policy": policy}),
    ]


def append_unsigned(directory: Path, records: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Chain records behind those of a journal, without its end and without a signature."""
    path = directory / segment_name(1)
    lines = path.read_bytes().splitlines()[:-2]
    chain = Chain()
    for line in lines:
        chain.follow(line)
    for name, body in records:
        lines.append(chain.link(name, canonical_text(body), at=1, step=None))
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def test_terms_behind_the_last_signature_are_not_those_of_the_run(
    home: Home, tmp_path: Path
) -> None:
    directory = recorded(home, action(2))
    append_unsigned(directory, smuggled(tmp_path / "proof"))
    seen = RecordedRun(directory)  # as `show` reads it
    assert len(seen.policy_changes) == 2
    run = RecordedRun(directory, check_trusted(directory, home))
    assert run.configured == CONFIGURED
    assert run.policy_changes == []


@pytest.mark.parametrize("is_whole", [True, False], ids=["signed", "with more behind it"])
def test_terms_of_somebody_else_run_no_command(
    home: Home, tmp_path: Path, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "proof"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paddock.yaml").write_text(POLICY)
    policy = PolicySource(COMMAND.format(proof=proof))
    configured = Configured(argv=["touch", str(proof)], cwd="/", policy=policy)
    other = SigningKey.open(tmp_path / "other")
    events = [*action(2), (TermsChanged(0, policy), None)]
    directory = recorded(home, events, key=other, configured=configured)
    if not is_whole:
        append_unsigned(directory, smuggled(proof))
    for act in (lambda: replay(directory), lambda: fork(directory, ForkOptions(at=1))):
        with pytest.raises(PaddockError):
            act()
    for words in (
        ["show", "r"], ["runs"], ["net", "r"], ["compare", "r", "r"], ["verdicts", "r"],
        ["policy", "learn", "r"], ["policy", "replay", "paddock.yaml", "r"], ["replay", "r"],
    ):  # fmt: skip
        main(words)
    assert not proof.exists()
