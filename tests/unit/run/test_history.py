"""The history of a run: verified, in order, with what files and world were like."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.journal.integrity.keys import SigningKey
from paddock.journal.segments import segment_name
from paddock.model.errors import IntegrityError
from paddock.model.events import Alert, FilesRecorded, Marked, ProgramStarted, WorldChanged
from paddock.policy.file import load
from paddock.run.history import MAX_OBSERVED, HistoryStep, RunHistory
from unit.run.recorded import FILE, Crossed, agent, begin, cross, post, record, refund, search


def files(tree: str) -> FilesRecorded:
    return FilesRecorded(tree, 1)


def moved(**positions: int) -> WorldChanged:
    return WorldChanged(positions)


def read(place: Path) -> list[HistoryStep]:
    return list(RunHistory.read(place).steps())


USUAL = (
    Crossed(agent("python", "agent.py"), before=[files("t1")], record={"exit_code": 0}),
    Crossed(post(charge="ch_1"), after=[moved(payments=3)], record={"status": 200}),
    Crossed(search("a"), before=[files("t3")]),
    Crossed(refund(700), after=[moved(mail=1)]),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    return tmp_path


def test_steps_come_in_order_with_files_and_world_at_each(home: Path) -> None:
    steps = read(record(home, "r1", USUAL))
    states = [one.state for one in steps]

    assert [one.step.number for one in steps] == [1, 2, 3, 4]
    assert [state.tree for state in states] == ["t1", "t1", "t3", "t3"]
    assert [state.positions for state in states] == [
        {},
        {"payments": 3},
        {"payments": 3},
        {"payments": 3, "mail": 1},
    ]
    assert [state.has_moved_files for state in states] == [True, False, True, False]
    assert [state.has_moved_world for state in states] == [False, True, False, True]


def test_step_has_what_was_proposed_decided_and_done(home: Path) -> None:
    recorded = read(record(home, "r1", USUAL))[1]
    step = recorded.step

    assert step.arguments["body"] == {"charge": "ch_1"}
    assert step.verdict == "allow"
    assert step.result == {"status": 200}
    assert step.duration_us is not None


def test_step_is_told_to_programs_with_all_that_was_recorded_about_it(home: Path) -> None:
    denied = Alert("egress.denied", 2, {"host": "evil.example"})
    crossed = [Crossed(search("a"), before=[files("t1")], after=[denied, Marked("half way")])]
    gate = begin(home, "r1")
    cross(gate, crossed)
    gate.observe(ProgramStarted("/bin/ls", ["ls"], "/", pid=7), 1)
    gate.close()
    [recorded] = read(home / "runs" / "r1")
    told = recorded.as_json()

    assert list(told) == [
        "step", "at", "proposed", "decided", "asked", "answered", "settled", "observed", "notes",
        "is_cut", "duration_us", "tree", "positions",
    ]  # fmt: skip
    assert told["proposed"]["arguments"] == {"query": "a"}
    assert (told["asked"], told["answered"], told["tree"]) == (None, None, "t1")
    assert told["observed"] == [
        {"what": "program_started", "program": "/bin/ls", "argv": ["ls"], "cwd": "/", "pid": 7}
    ]
    assert told["notes"] == [
        {"what": "files_recorded", "tree": "t1", "changed": 1},
        {"what": "alert", "alert": "egress.denied", "times": 2, "host": "evil.example"},
        {"what": "marked", "text": "half way"},
    ]


def test_large_values_are_whole(home: Path) -> None:
    long = "x" * 500_000
    [recorded] = read(record(home, "r1", [Crossed(search(long))]))

    assert recorded.step.arguments["query"] == long


@pytest.mark.parametrize("at", [0, 1, 5, 9, -2, -1])
def test_journal_with_one_changed_record_gives_no_step_at_all(home: Path, at: int) -> None:
    place = record(home, "r1", USUAL)
    path = place / segment_name(1)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[at].replace(b'"at":1', b'"at":2', 1)
    assert changed != lines[at]
    lines[at] = changed
    path.write_bytes(b"".join(lines))
    with pytest.raises(IntegrityError):
        RunHistory.read(place)
    with pytest.raises(IntegrityError):
        RunHistory.read(place, with_unsigned=True)


def test_record_that_was_taken_out_is_noticed(home: Path) -> None:
    place = record(home, "r1", USUAL)
    path = place / segment_name(1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))

    with pytest.raises(IntegrityError, match="record 4 is not there"):
        RunHistory.read(place)


def test_journal_signed_by_another_home_is_not_taken_for_ours(home: Path, tmp_path: Path) -> None:
    ours = record(home, "r1", USUAL)
    shutil.rmtree(ours)
    theirs = record(tmp_path / "elsewhere", "r1", USUAL)
    shutil.copytree(theirs, ours)

    with pytest.raises(IntegrityError, match="another key"):
        RunHistory.read(ours)
    assert len(read(theirs)) == 4


def test_journal_from_elsewhere_must_be_sound_by_the_key_that_it_names(
    home: Path, tmp_path: Path
) -> None:
    theirs = record(tmp_path / "elsewhere", "r1", USUAL)
    path = theirs / segment_name(1)
    lines = path.read_bytes().splitlines(keepends=True)
    [at] = [number for number, line in enumerate(lines) if b'"head"' in line][-1:]
    lines[at] = lines[at].replace(b'"signature":"', b'"signature":"0', 1)
    path.write_bytes(b"".join(lines))

    with pytest.raises(IntegrityError):
        RunHistory.read(theirs)


def test_key_that_is_given_must_have_signed(home: Path, tmp_path: Path) -> None:
    place = record(home, "r1", USUAL)
    other = SigningKey.open(tmp_path / "other-keys").public

    with pytest.raises(IntegrityError, match="another key"):
        RunHistory.read(place, key=other)


def test_line_that_changes_after_it_was_verified_is_not_shown(home: Path) -> None:
    place = record(home, "r1", USUAL)
    steps: Iterator[HistoryStep] = RunHistory.read(place).steps()
    next(steps)
    path = place / segment_name(1)
    path.write_bytes(path.read_bytes().replace(b'"amount":700', b'"amount":100'))

    with pytest.raises(IntegrityError, match="changed after it had been verified"):
        list(steps)


def test_interrupted_run_with_a_torn_end_is_read_to_its_last_signature(home: Path) -> None:
    gate = begin(home, "r1")
    cross(gate, USUAL[:2])
    gate.records.journal.sign()
    cross(gate, [USUAL[2]])
    place = home / "runs" / "r1"
    with open(place / segment_name(1), "ab") as file:
        file.write(b'{"after":"00')

    assert RunHistory.read(place).step_numbers == [1, 2]
    assert RunHistory.read(place, with_unsigned=True).step_numbers == [1, 2, 3]
    gate.close()


def test_flood_of_observations_is_cut_and_said_to_be(home: Path) -> None:
    gate = begin(home, "r1")
    cross(gate, USUAL[:1])
    for pid in range(MAX_OBSERVED + 10):
        gate.observe(ProgramStarted("x", pid=pid), 1)
    gate.close()
    [recorded] = read(home / "runs" / "r1")

    assert recorded.is_cut
    assert len(recorded.step.programs) <= MAX_OBSERVED
    assert recorded.step.settled is not None


def test_other_policy_says_what_it_would_have_decided_and_nothing_where_it_agrees(
    home: Path,
) -> None:
    place = record(home, "r1", USUAL)
    looser = load(FILE.replace("args.amount > 100", "args.amount > 1000"))
    stricter = load(FILE.replace("args.amount > 100", "args.amount > 1"))

    history = RunHistory.read(place)
    after = {one.recorded.step.number: one.after for one in history.redecide(looser)}
    assert after[4] is not None
    assert after[4].verdict.value == "allow"
    assert [after[step] for step in (1, 2, 3)] == [None] * 3
    assert all(one.after is None for one in history.redecide(stricter))


def test_programs_that_were_only_seen_are_decided_on_too(home: Path) -> None:
    gate = begin(home, "r1")
    cross(gate, USUAL[:1])
    gate.observe(ProgramStarted("/usr/bin/pip", ["pip", "install", "x"], "/", 7, 1), 1)
    gate.close()
    rule = "  - {id: no-pip, match: {kind: exec, program: [pip]}, decide: block, why: Pinned.}\n"
    policy = load(FILE.replace("rules:\n", f"rules:\n{rule}"))
    [one] = RunHistory.read(home / "runs" / "r1").redecide(policy)

    assert one.after is None
    assert [change.after.decided_by for change in one.programs] == ["no-pip"]
