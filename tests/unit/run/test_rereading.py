"""The past read again: verified, in order, with what files and world were like."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from paddock.journal.keys import SigningKey
from paddock.journal.segments import segment_name
from paddock.model.errors import IntegrityError
from paddock.policy.file import load
from paddock.run.rereading import MAX_OBSERVED, redecide, reread
from unit.run.recorded import FILE, Crossed, agent, begin, cross, post, record, refund, search


def files(tree: str) -> dict[str, Any]:
    return {"what": "files", "tree": tree, "changed": 1}


def moved(**positions: int) -> dict[str, Any]:
    return {"what": "world moved", "positions": positions}


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


def test_frames_come_in_order_with_files_and_world_at_each(home: Path) -> None:
    frames = list(reread(record(home, "r1", USUAL)))

    assert [one.step for one in frames] == [1, 2, 3, 4]
    assert [one.tree for one in frames] == ["t1", "t1", "t3", "t3"]
    assert [one.positions for one in frames] == [
        {},
        {"payments": 3},
        {"payments": 3},
        {"payments": 3, "mail": 1},
    ]
    assert [one.has_moved_files for one in frames] == [True, False, True, False]
    assert [one.has_moved_world for one in frames] == [False, True, False, True]


def test_frame_has_what_was_proposed_decided_and_done(home: Path) -> None:
    frame = list(reread(record(home, "r1", USUAL)))[1]

    assert frame.proposed["arguments"]["body"] == {"charge": "ch_1"}
    assert frame.decided is not None
    assert frame.decided["verdict"] == "allow"
    assert frame.settled is not None
    assert frame.settled["result"] == {"status": 200}
    assert frame.duration_us is not None


def test_large_values_are_whole(home: Path) -> None:
    long = "x" * 500_000
    frames = list(reread(record(home, "r1", [Crossed(search(long))])))

    assert frames[0].proposed["arguments"]["query"] == long


@pytest.mark.parametrize("at", [0, 1, 5, 9, -2, -1])
def test_journal_with_one_changed_record_gives_no_frame_at_all(home: Path, at: int) -> None:
    place = record(home, "r1", USUAL)
    path = place / segment_name(1)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[at].replace(b'"at":1', b'"at":2', 1)
    assert changed != lines[at]
    lines[at] = changed
    path.write_bytes(b"".join(lines))
    given = []
    with pytest.raises(IntegrityError):
        given.extend(reread(place))

    assert given == []


def test_record_that_was_taken_out_is_noticed(home: Path) -> None:
    place = record(home, "r1", USUAL)
    path = place / segment_name(1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))

    with pytest.raises(IntegrityError, match="record 4 is not there"):
        list(reread(place))


def test_journal_signed_by_another_home_is_not_taken_for_ours(home: Path, tmp_path: Path) -> None:
    ours = record(home, "r1", USUAL)
    shutil.rmtree(ours)
    theirs = record(tmp_path / "elsewhere", "r1", USUAL)
    shutil.copytree(theirs, ours)

    with pytest.raises(IntegrityError, match="another key"):
        list(reread(ours))
    assert len(list(reread(theirs))) == 4


def test_key_that_is_given_must_have_signed(home: Path, tmp_path: Path) -> None:
    place = record(home, "r1", USUAL)
    other = SigningKey.open(tmp_path / "other-keys").public

    with pytest.raises(IntegrityError, match="another key"):
        list(reread(place, key=other))


def test_line_that_changes_after_it_was_verified_is_not_shown(home: Path) -> None:
    place = record(home, "r1", USUAL)
    frames = reread(place)
    next(frames)
    path = place / segment_name(1)
    path.write_bytes(path.read_bytes().replace(b'"amount":700', b'"amount":100'))

    with pytest.raises(IntegrityError, match="changed while it was read"):
        list(frames)


def test_interrupted_run_with_a_torn_end_is_read_to_its_last_signature(home: Path) -> None:
    gate = begin(home, "r1")
    cross(gate, USUAL[:3])
    gate.writing.journal.sign()
    place = home / "runs" / "r1"
    with open(place / segment_name(1), "ab") as file:
        file.write(b'{"after":"00')

    assert [one.step for one in reread(place)] == [1, 2, 3]
    gate.close()


def test_flood_of_observations_is_cut_and_said_to_be(home: Path) -> None:
    gate = begin(home, "r1")
    cross(gate, USUAL[:1])
    for pid in range(MAX_OBSERVED + 10):
        gate.observe({"what": "exec", "pid": pid}, 1)
    gate.close()
    (frame,) = reread(home / "runs" / "r1")

    assert frame.is_cut
    assert len(frame.observed) <= MAX_OBSERVED
    assert frame.settled is not None


def test_other_policy_says_what_it_would_have_decided_and_nothing_where_it_agrees(
    home: Path,
) -> None:
    place = record(home, "r1", USUAL)
    looser = load(FILE.replace("args.amount > 100", "args.amount > 1000"))
    stricter = load(FILE.replace("args.amount > 100", "args.amount > 1"))

    after = {one.frame.step: one.after for one in redecide(place, looser)}
    assert after[4] is not None
    assert after[4].verdict.value == "allow"
    assert [after[step] for step in (1, 2, 3)] == [None] * 3
    assert all(one.after is None for one in redecide(place, stricter))


def test_programs_that_were_only_seen_are_decided_on_too(home: Path) -> None:
    gate = begin(home, "r1")
    cross(gate, USUAL[:1])
    seen = {"what": "exec", "pid": 7, "parent": 1, "program": "/usr/bin/pip", "cwd": "/"}
    gate.observe({**seen, "argv": ["pip", "install", "x"]}, 1)
    gate.close()
    rule = "  - {id: no-pip, match: {kind: exec, program: [pip]}, decide: block, why: Pinned.}\n"
    policy = load(FILE.replace("rules:\n", f"rules:\n{rule}"))
    (one,) = redecide(home / "runs" / "r1", policy)

    assert one.after is None
    assert [change.after.decided_by for change in one.programs] == ["no-pip"]
