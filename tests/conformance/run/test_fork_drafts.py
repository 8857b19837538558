"""The drafts of a fork are its own. Those of its past wait with the run that made them."""

from __future__ import annotations

from pathlib import Path

from paddock.cli.render.run_lines import LineStyle
from paddock.cli.render.run_summary import summary_lines
from paddock.doors.machine.engine import Engine
from paddock.gate.drafts import Drafts
from paddock.gate.run_gate import gate_store
from paddock.run.order import order_of
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import replay
from paddock.run.report import report_of
from paddock.run.session import FinishedRun, run

WRITING = """\
import urllib.request

for letter in "abc":
    urllib.request.urlopen(f"http://api.test/{letter}", b"x=1", timeout=20)
"""
FILE = """\
version: 1
agent: writing
stage: draft
network: {allow: ["api.test:80"], hosts: {api.test: "127.0.0.1:9"}}
"""


def kept(ended: FinishedRun) -> set[str]:
    drafts = Drafts(gate_store(Engine.current().home)).all(run=ended.run)
    return {one.draft_id for one in drafts}


def test_summary_of_a_fork_names_the_drafts_that_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(WRITING)
    (tmp_path / "paddock.yaml").write_text(FILE)
    recorded = run(order_of(["python3", "agent.py"], cwd=tmp_path))
    assert set(report_of(recorded.directory).drafts) == kept(recorded)
    assert len(kept(recorded)) == 3

    last = [row.number for row in RecordedRun(recorded.directory).steps if row.kind == "http"][2]
    made = fork(recorded.directory, ForkOptions(last))[0]
    report = report_of(made.directory)
    assert len(kept(made)) == 1 and set(report.drafts) == kept(made)
    assert set(report.past_drafts) <= kept(recorded) and report.drafted == 3

    again = report_of(replay(recorded.directory).directory)
    assert (again.drafts, set(again.past_drafts)) == ((), kept(recorded))
    lines = {
        one.run: "\n".join(summary_lines(one, LineStyle(width=200))) for one in (report, again)
    }
    assert f"drafts    {report.drafts[0]}; 2 of its past\n" in lines[made.run]
    assert f"paddock drafts {made.run}" in lines[made.run]
    assert "drafts    3 of its past\n" in lines[again.run]
    assert "paddock drafts" not in lines[again.run]
