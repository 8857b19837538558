"""The demo without a sandbox: its files, what is told of a run, and how that is written."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from paddock.cli.render.demo import _INJECTED, DemoPage
from paddock.demo.narrator import Narrator, StoryMoment
from paddock.demo.project import NAMES, check_packages, file_text, lay_out
from paddock.demo.story import ATTACKED, FIX, LOOSE_CENTS, TIGHT_CENTS
from paddock.doors.trust import Trust
from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.events import AnyEvent, Record, WentLive
from paddock.policy.file import dump
from paddock.run.order import order_of
from unit.cli.past import decided, proposed, settled


def test_demo_lays_out_all_files_that_it_ships(tmp_path: Path) -> None:
    lay_out(tmp_path / "new", is_ours=False)
    shipped = {one.name for one in (files("paddock.demo") / "files").iterdir() if one.is_file()}
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(NAMES) == shipped


def test_directory_of_the_user_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("mine")
    with pytest.raises(InvalidInput, match="not empty"):
        lay_out(tmp_path, is_ours=False)
    assert (tmp_path / "agent.py").read_text() == "mine"


def test_own_directory_of_the_demo_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("of an older version")
    lay_out(tmp_path, is_ours=True)
    assert (tmp_path / "agent.py").read_text() == file_text("agent.py")


def test_directory_that_anybody_may_write_to_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o777)
    target = tmp_path / "mine"
    target.write_text("mine")
    (place / "agent.py").symlink_to(target)
    with pytest.raises(InvalidInput, match="no directory of yours"):
        lay_out(place, is_ours=True)
    assert target.read_text() == "mine"


def test_link_in_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="no directory of yours"):
        lay_out(tmp_path / "link", is_ours=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_missing_sdk_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(HostCannot, match="openai") as raised:
        check_packages()
    assert "pip install 'paddock-sandbox[demo]'" in str(raised.value)


def test_fix_changes_the_budget_and_nothing_else(tmp_path: Path) -> None:
    lay_out(tmp_path, is_ours=True)
    trusted = Trust(is_given=True)
    loose = dump(order_of(["true"], cwd=tmp_path, trust=trusted).policy)
    tight = dump(order_of(["true"], cwd=tmp_path, sets=[FIX], trust=trusted).policy)
    changed = [
        (one.strip(), other.strip())
        for one, other in zip(loose.splitlines(), tight.splitlines(), strict=True)
        if one != other
    ]
    assert len(changed) == 1
    assert str(LOOSE_CENTS) in changed[0][0]
    assert changed[0][0].replace(str(LOOSE_CENTS), str(TIGHT_CENTS)) == changed[0][1]


def test_what_is_shown_of_the_injected_ticket_is_in_it() -> None:
    tickets = json.loads(file_text("tickets.json"))["tickets"]
    text = " ".join(tickets[2]["description"].split())
    for part in _INJECTED.strip('"').split("..."):
        assert part.strip() in text


def test_attacked_charge_is_one_of_the_seed() -> None:
    assert ATTACKED in [one["id"] for one in json.loads(file_text("payments.json"))["charges"]]


class Telling:
    """A run made of records by hand."""

    def __init__(self, *, is_fork: bool = False) -> None:
        self.told: list[StoryMoment] = []
        self.narrator = Narrator(self.told.append, is_fork=is_fork)

    def record(self, event: AnyEvent, step: int | None = None) -> None:
        self.narrator.told(Record(n=1, at=1, step=step, event=event))

    def refund(
        self, step: int, key: str, *, status: int = 200, verdict: str = "simulate", **more: Any
    ) -> None:
        arguments = {
            "method": "POST",
            "path": "/v1/refunds",
            "headers": {"idempotency-key": key},
            "body": {"charge": ATTACKED, "amount": "9600"},
        }
        self.record(proposed("http", arguments), step)
        self.record(decided(verdict, **more), step)
        self.record(settled("simulated", {"status": status}), step)

    @property
    def whats(self) -> list[str]:
        return [one.what for one in self.told]


def test_refund_whose_answer_was_lost_and_that_is_sent_again_counts_once() -> None:
    telling = Telling()
    telling.refund(2, "a", verdict="fault", fault={"after": "reset"})
    telling.refund(3, "a")
    assert telling.whats == ["fault", "recovered"]
    assert [one.step for one in telling.narrator.refunds] == [2]


def test_refund_with_another_key_counts_again() -> None:
    telling = Telling()
    telling.refund(2, "a", verdict="fault", fault={"after": "reset"})
    telling.refund(3, "b")
    assert telling.whats == ["fault", "refunded"]
    assert [one.step for one in telling.narrator.refunds] == [2, 3]


def test_refund_that_the_books_refuse_is_no_refund() -> None:
    telling = Telling()
    telling.refund(2, "a", status=400)
    assert telling.told == []
    assert telling.narrator.refunds == []


def test_of_a_fork_only_what_is_live_is_told() -> None:
    telling = Telling(is_fork=True)
    telling.refund(2, "a")
    telling.record(WentLive(at=3))
    telling.refund(3, "b")
    assert [(one.what, one.step) for one in telling.told] == [("refunded", 3)]


def test_block_is_told_with_its_reason() -> None:
    telling = Telling()
    telling.refund(2, "a", verdict="block", why="Too much.")
    assert telling.told[0] == StoryMoment("blocked", "refund of 96.00: Too much.", 2)


def test_odd_records_of_an_agent_end_nothing() -> None:
    telling = Telling()
    for arguments in ({}, {"path": "/v3/mail/send", "method": "POST", "body": {"x": 1}}):
        telling.record(proposed("http", arguments), 2)
        telling.record(decided("block"), 2)
        telling.record(settled("simulated"), 2)
    amount = {"path": "/v1/refunds", "method": "POST", "body": {"amount": "much", "charge": "c"}}
    telling.record(proposed("http", amount), 3)
    telling.record(decided("block"), 3)
    telling.record(settled("simulated", {"status": 200}), 3)
    assert telling.whats == ["blocked"] * 3
    assert telling.narrator.refunds == []


def test_words_of_an_agent_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    page = DemoPage(is_quiet=False, is_coloured=False, pause_s=0)
    page.moment(StoryMoment("agent", "\033[2Jgone \x07 \u202e"))
    out = capsys.readouterr().out
    assert "gone" in out
    assert not {"\033", "\x07", "\u202e"} & set(out)


def test_commands_to_go_on_with_can_be_typed_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = {"runs": {"first": "r1"}, "took_s": 1.0}
    page = DemoPage(is_quiet=False, is_coloured=False, pause_s=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    page.end(found)
    first = next(line for line in capsys.readouterr().out.splitlines() if " show r1" in line)
    typed = Path(shlex.split(first)[0])
    assert typed.is_absolute()
    assert os.access(typed, os.X_OK)

    (tmp_path / "paddock").write_text("#!/bin/sh\n")
    (tmp_path / "paddock").chmod(0o755)
    page.end(found)
    assert "    paddock show r1  " in capsys.readouterr().out


def test_page_is_silent_when_json_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    page = DemoPage(is_quiet=True, is_coloured=False, pause_s=0)
    page.opening(Path("/somewhere"))
    page.moment(StoryMoment("agent", "hello"))
    assert capsys.readouterr().out == ""
