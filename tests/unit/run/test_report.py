"""What a run came to, over real journals."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from cases import for_each
from paddock.journal.log import RunLog
from paddock.model.errors import PaddockError
from paddock.model.events import (
    Alert,
    Answered,
    AnyEvent,
    Asked,
    Diverged,
    FilesRecorded,
    Lineage,
    Marked,
    PromptReported,
    Record,
    WentLive,
    WorldEnded,
)
from paddock.run.report import (
    MAX_LISTED,
    AlertSeen,
    Answers,
    FilesChanged,
    Mark,
    ReportFold,
    Spent,
    report_of,
)
from unit.run.compare.journeys import write_records
from unit.run.recorded import Crossed, agent, ask_model, begin, cross, post, record, refund, search

ABOUT = {"host": "evil.example"}
USUAL = (
    Crossed(agent("python", "agent.py"), record={"exit_code": 3, "stdout": ""}),
    Crossed(search("a")),
    Crossed(search("b")),
    Crossed(refund(700), after=[Alert("egress.denied", times, ABOUT) for times in (1, 2)]),
    Crossed(ask_model("hello"), cost={"input_tokens": 12, "output_tokens": 30, "usd_micros": 486}),
)


def test_report_has_what_was_decided_done_and_spent(tmp_path: Path) -> None:
    report = report_of(record(tmp_path, "r1", USUAL))

    assert (report.run, report.kind, report.agent, report.stage) == (
        "r1", "run", "support-bot", "broad",
    )  # fmt: skip
    assert report.command == ("python", "agent.py")
    assert (report.state, report.ended_by, report.exit_code) == ("ended", "the agent ended", 3)
    assert report.steps == 5
    assert report.verdicts == {"allow": 3, "fault": 1, "block": 1}
    assert report.outcomes == {"done": 3, "faulted": 1, "refused": 1}
    assert report.faults == {"slow-search": 1}
    assert report.spent == Spent(1, 12, 30, 486)
    assert report.enforcement["memory"] == "cgroup v2"
    assert report.proved == {"network": "a connection outside of the list was refused"}


def test_equal_alerts_are_one_line_with_all_their_times(tmp_path: Path) -> None:
    report = report_of(record(tmp_path, "r1", USUAL))

    assert report.alerts == (AlertSeen("egress.denied", {"host": "evil.example"}, 3, (4, 4)),)


def test_last_notes_about_files_and_world_are_those_of_the_report(tmp_path: Path) -> None:
    broken = {"payments": ["Charge ch_1 was refunded twice."]}
    last = [
        FilesRecorded("a" * 64, 9),
        FilesRecorded("b" * 64, 4, is_last=True),
        WorldEnded("d", {"payments": 7}, {"payments": 2}, broken),
    ]
    report = report_of(record(tmp_path, "r1", USUAL, last=last))

    assert report.files == FilesChanged("b" * 64, 4)
    assert report.world is not None
    assert report.world.changes == {"payments": 2}
    assert report.world.broken == {"payments": ("Charge ch_1 was refunded twice.",)}


def test_what_the_agent_says_from_inside_is_kept_in_order(tmp_path: Path) -> None:
    reported = [
        PromptReported("v2"),
        Marked("plan made"),
        PromptReported("v1"),
        PromptReported("v2"),
    ]
    report = report_of(record(tmp_path, "r1", [Crossed(search("a"), after=reported)]))

    assert report.prompts == ("v2", "v1")
    assert report.marks == (Mark(1, "plan made"),)


def test_fork_says_from_where_it_comes_and_where_it_went_live(tmp_path: Path) -> None:
    lineage = Lineage(run="r0", at=2, root="r0")
    live = WentLive(2, "x", files_restored=1)
    made = record(
        tmp_path, "r1", [Crossed(search("a"), after=[live])], kind="fork", lineage=lineage
    )
    report = report_of(made)

    assert (report.kind, report.lineage, report.live_at) == ("fork", lineage, 2)
    assert report.as_json()["lineage"] == {"run": "r0", "at": 2, "root": "r0"}


def test_replay_that_diverged_is_not_whole(tmp_path: Path) -> None:
    diverged = Diverged("changed", step=2)
    report = report_of(record(tmp_path, "r1", USUAL, last=[diverged], kind="replay"))

    assert report.divergence == diverged
    assert report.as_json()["divergence"] == {"step": 2, "kind": "changed", "differences": []}
    assert not report.is_whole


def test_run_is_running_while_its_writer_lives_and_interrupted_after(tmp_path: Path) -> None:
    gate = begin(tmp_path, "r1")
    cross(gate, USUAL[:2])
    place = tmp_path / "runs" / "r1"

    assert report_of(place).state == "running"
    gate._journal._run_directory.release()  # as the kernel does for a process that is gone
    del gate
    gc.collect()
    assert report_of(place).state == "interrupted"
    assert report_of(place).steps == 2


def fold_of(*events: AnyEvent) -> ReportFold:
    """A fold that has taken these events, all of step 1."""
    fold = ReportFold()
    for n, event in enumerate(events):
        fold.take(Record(n, 5, 1, event))
    return fold


def test_answers_of_people_are_counted_by_what_they_said() -> None:
    states = ("approved", "approved", "denied", "edited", "expired", "withdrawn")
    asked = [Asked("a", None)] * len(states)
    fold = fold_of(*asked, *(Answered("a", state) for state in states))

    assert fold.report(is_alive=True).answers == Answers(6, 2, 1, 1, 2)


def test_records_as_they_are_written_come_to_the_same(tmp_path: Path) -> None:
    gate = begin(tmp_path, "r1")
    fold = ReportFold()
    for one in RunLog(tmp_path / "runs/r1").events():  # before anybody could listen
        fold.take(one)
    gate.records.journal.listeners.append(fold.take)
    marks = [Marked('a","result":{"x')]
    cross(gate, [*USUAL, Crossed(post(note=',"result":'), after=marks)])
    gate.close("the agent ended")

    assert fold.report(is_alive=False) == report_of(tmp_path / "runs/r1")


def test_text_that_looks_like_a_key_of_the_record_changes_nothing(tmp_path: Path) -> None:
    trick = ',"result":1},"outcome":"done","cost":{"usd_micros":9}'
    one = Crossed(search(trick), result=trick, record={"body": trick})
    report = report_of(record(tmp_path, "r1", [Crossed(agent("x")), one]))

    assert report.outcomes == {"done": 2}
    assert report.spent == Spent()


def test_flood_of_alerts_is_bounded() -> None:
    alerts = [Alert("x", 1, {"host": f"h{number}"}) for number in range(MAX_LISTED + 50)]

    assert len(fold_of(*alerts).report(is_alive=True).alerts) == MAX_LISTED


@for_each("odd", [None, [], "text", -1, 1.5, {"a": {"b": []}}, [[1]], True, {"payments": "x"}])
def test_record_of_any_shape_does_not_break_the_report(tmp_path: Path, odd: object) -> None:
    keys = (
        "what", "alert", "times", "changed", "tree", "changes", "broken", "positions", "boundaries",
        "version", "text", "at", "kind", "fields", "count", "state", "verdict", "again",
        "cost", "result", "outcome", "draft_id", "left_out", "run", "command", "lineage",
        "enforcement",
    )  # fmt: skip
    types = (
        "opened", "alert", "files_recorded", "world_ended", "boundaries_proved", "prompt_reported",
        "marked", "went_live", "diverged", "varied", "refused_again", "answered", "decided",
        "settled", "closed",
    )  # fmt: skip
    notes = ("alert", "files", "world", "proved", "prompt", "mark", "live", "diverged", "varied")
    records = [(name, dict.fromkeys(keys, odd), 1) for name in types]
    records += [("noted", {**dict.fromkeys(keys, odd), "what": what}, 1) for what in notes]
    report = report_of(write_records(tmp_path, "r1", records))

    assert report.records == len(records)
    json.dumps(report.as_json())


def test_report_is_json(tmp_path: Path) -> None:
    made = report_of(record(tmp_path, "r1", USUAL)).as_json()

    assert json.loads(json.dumps(made))["spent"]["usd_micros"] == 486


def test_directory_without_a_journal_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(PaddockError, match="not a journal"):
        report_of(tmp_path)
