"""The past as it is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddock.cli.render.replay import print_past
from paddock.model.events import FilesRecorded, Marked, WorldChanged
from paddock.policy.file import load
from unit.run.recorded import FILE, Crossed, agent, record, refund, search

EVIL = "\x1b[2J\u202eevil"
USUAL = (
    Crossed(agent("python", "agent.py"), record={"exit_code": 0}),
    Crossed(search(EVIL), after=[Marked(EVIL)]),
    Crossed(
        refund(700),
        before=[FilesRecorded("abcdef0123456789", changed=2)],
        after=[WorldChanged({"payments": 3})],
    ),
)


def test_each_step_is_printed_with_what_changed_and_the_sum(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_past(record(home, "r1", USUAL)) == 0
    said = capsys.readouterr().out

    assert "refund(amount=700)" in said
    assert "files are abcdef012345 from here on" in said
    assert "world at payments 3" in said
    assert said.rstrip().splitlines()[-1].endswith("verified: allow 2, block 1")
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_candidate_policy_is_printed_beside_what_was_decided(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looser = load(FILE.replace("args.amount > 100", "args.amount > 1000"))

    assert print_past(record(home, "r1", USUAL), policy=looser) == 1
    said = capsys.readouterr().out
    assert "would be allow" in said
    assert "1 of them would be decided otherwise" in said


def test_json_is_one_object_a_step(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    looser = load(FILE.replace("args.amount > 100", "args.amount > 1000"))
    print_past(record(home, "r1", USUAL), policy=looser, is_json=True)
    frames = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [one["step"] for one in frames] == [1, 2, 3]
    assert frames[1]["proposed"]["arguments"]["query"] == EVIL
    assert frames[2]["after"]["verdict"] == "allow"
    assert frames[1]["after"] is None
