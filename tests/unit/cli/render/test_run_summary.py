"""What a run came to, as it is told at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.render.run_lines import LineStyle
from paddock.cli.render.run_summary import summary_lines
from paddock.cli.render.units import thousands, usd_text
from paddock.model.events import Alert, AnyEvent, FilesRecorded, WorldEnded
from paddock.run.report import report_of
from unit.cli.conftest import Call
from unit.cli.render.test_live_run import USUAL
from unit.run.recorded import Crossed, record, refund


def test_summary_has_counts_money_proof_and_what_to_do_next(tmp_path: Path) -> None:
    alert = Alert("egress.denied", times=1, about={"host": "x\x1b[2J"})
    last: list[AnyEvent] = [
        FilesRecorded("a", changed=3, is_last=True),
        WorldEnded(changes={"payments": 2}, broken={"payments": ["Too much."]}),
    ]
    crossed = [*USUAL, Crossed(refund(7), after=[alert])]
    report = report_of(record(tmp_path, "r1", crossed, last=last))
    text = "\n".join(summary_lines(report, LineStyle(100)))

    for said in (
        "decided   allow 3, simulate 1, block 1",
        "spent     1 model call: 1.2k tokens in, 340 out, $0.0087",
        "files     3 changed",
        "world     changes: payments 2",
        "broken    payments: Too much.",
        "enforced  2 boundaries, 1 of them proved in this run",
        "exit code 0",
        "paddock show r1",
        "paddock fork r1 --at 5",
    ):
        assert said in text
    assert "\x1b" not in text
    assert max(map(len, text.split("\n"))) <= 100


def test_show_ends_with_what_the_run_came_to(home: Path, call: Call) -> None:
    record(home, "r1", USUAL)
    said = call("show", "r1").out

    assert said.rstrip().endswith("spent     1 model call: 1.2k tokens in, 340 out, $0.0087")
    assert "command   python agent.py" in said
    assert "proved    network (nftables in its own namespace): a connection outside" in said


def test_summary_names_in_full_only_what_is_weaker_than_it_could_be(tmp_path: Path) -> None:
    enforcement = {"cpu": "cgroup v2", "disk": "watched: counted beyond it (no quota)"}
    report = report_of(record(tmp_path, "r1", USUAL, enforcement=enforcement))
    text = "\n".join(summary_lines(report, LineStyle(100)))

    assert "weaker    disk: watched: counted beyond it (no quota)" in text
    assert "cgroup" not in text


def test_summary_of_a_fork_offers_to_compare_it_with_its_parent(tmp_path: Path) -> None:
    lineage = {"run": "r1", "at": 2}
    report = report_of(record(tmp_path, "r2", USUAL, kind="fork", lineage=lineage))

    assert "paddock compare r1 r2" in "\n".join(summary_lines(report, LineStyle(100)))


def test_replay_has_spent_nothing_and_is_no_beginning_of_a_fork(tmp_path: Path) -> None:
    report = report_of(record(tmp_path, "r2", USUAL, kind="replay", lineage={"run": "r1"}))
    text = "\n".join(summary_lines(report, LineStyle(100)))

    assert report.spent.calls == 1
    assert "spent" not in text
    assert "paddock fork" not in text


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0"), (999, "999"), (1000, "1.0k"), (2_500_000, "2.5M")]
)
def test_large_counts_are_short(count: int, said: str) -> None:
    assert thousands(count) == said


@pytest.mark.parametrize(
    ("micros", "said"),
    [(0, "$0.00"), (4, "<$0.0001"), (420, "$0.0004"), (1_300_000, "$1.30")],
)
def test_small_amounts_keep_their_digits(micros: int, said: str) -> None:
    assert usd_text(micros) == said
