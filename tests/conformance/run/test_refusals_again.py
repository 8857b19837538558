"""An agent in a loop of refusals: its run is short on record, and replays by the count."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.run.test_replay import Listening, played_text, project
from paddock.gate.refusals import MAX_SINGLE
from paddock.run.compare.trail import read_trail
from paddock.run.matching.recorded_step import DivergedBy
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.replay import replay
from paddock.run.report import report_of

__all__ = ["project"]
TRIES = 2 * MAX_SINGLE
LOOP = """
import http.client, os, ssl
from wire import ask
connection = http.client.HTTPSConnection("api.stripe.com", timeout=20)
seen = set()
for number in range(int(open("tries").read())):
    connection.request("DELETE", "/v1/customers/cus_1", headers={"x-padding": "p" * 500})
    answer = connection.getresponse()
    seen.add((answer.status, answer.read()))
    if number % 50 == 0:
        print(ask(f"go on {number}"))
print(seen)
"""


@pytest.mark.timeout(300)
def test_counted_refusals_replay_by_their_count(project: Path) -> None:
    (project / "tries").write_text(str(TRIES))
    recorded, first = played_text(project, LOOP)
    assert recorded.exit_code == 0, first
    report = report_of(recorded.directory)
    (again,) = report.repeats.values()
    assert again.count == TRIES - MAX_SINGLE
    assert report.outcomes["refused"] == TRIES

    heard = Listening()
    same = replay(recorded.directory, watch=heard)
    assert same.divergence is None, same.divergence.text if same.divergence else ""
    assert heard.out == first
    assert {step: one.count for step, one in report_of(same.directory).repeats.items()} == {
        step: one.count for step, one in report.repeats.items()
    }
    results = [
        [step.result for step in read_trail(one.directory).steps] for one in (recorded, same)
    ]
    assert results[0] == results[1]

    # A second future from the middle of the loop meets the rules again, and counts on.
    (forked,) = fork(recorded.directory, ForkOptions(at=MAX_SINGLE // 2), watch=Listening())
    assert forked.exit_code == 0 and forked.divergence is None
    assert report_of(forked.directory).outcomes["refused"] == TRIES

    for tries in (TRIES - 1, TRIES + 1):
        (project / "tries").write_text(str(tries))
        other = replay(recorded.directory)
        assert other.divergence is not None, tries
        assert other.divergence.kind == (DivergedBy.MISSING if tries < TRIES else DivergedBy.EXTRA)
