"""The budget of a run's record, from a paddock file and from Python, by real sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock import InvalidInput, Sandbox
from paddock.doors.machine.engine import Engine
from paddock.gate.run_gate import signing_key
from paddock.journal.integrity.verify import verify
from paddock.policy.file import load
from paddock.run.matching.recorded_step import DivergedBy
from paddock.run.order import order_of
from paddock.run.replay.replay import replay
from paddock.run.report import report_of
from paddock.run.session import run

FILE = """\
version: 1
agent: caller
stage: broad
world: {shop.example: {service: app, app: "shop:app"}}
rules:
  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}
record: {budget: 128KiB}
"""
SERVICE = """
async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode() * 20_000})
"""
AGENT = """
import json, urllib.request
for number in range(6):
    body = json.dumps({"data": f"{number:02}" * 20_000}).encode()
    request = urllib.request.Request(f"https://shop.example/{number}", body)
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request) as answer:
        print(answer.status, len(answer.read()))
"""


def stored(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_output_beyond_the_budget_is_known_by_digest_and_size() -> None:
    with Sandbox.create(record={"budget": "256KiB"}) as box:
        for number in range(10):
            printed = box.commands.run(f"head -c 100000 /dev/zero | tr '\\0' {number}").stdout
            assert printed == str(number) * 100_000, "the caller gets all of it"
        directory = Engine.current().home.runs / box.sandbox_id
    assert stored(directory) < 320 << 10
    report = report_of(directory)
    assert report.left_out is not None and report.left_out.values == 7
    assert verify(directory, signing_key(Engine.current().home).public).ok


def test_what_stand_ins_keep_counts() -> None:
    with Sandbox.create(world={"api.stripe.com": "payments"}) as box:
        box.commands.run("true")
        core = box._calls.box
        (core.world.directory / "more").write_bytes(bytes(1 << 20))
        budget = core.actions.gate.records.journal.budget
        before = budget.used
        Engine.current().call(core.count_world())
        assert budget.used - before >= 1 << 20


@pytest.mark.timeout(200)
def test_a_replay_says_which_answer_was_not_kept(tmp_path: Path) -> None:
    directory = ran(tmp_path, FILE)
    again = replay(directory)
    assert again.divergence is not None
    assert again.divergence.kind == DivergedBy.UNKEPT


def ran(place: Path, file: str) -> Path:
    (place / "paddock.yaml").write_text(file)
    (place / "agent.py").write_text(AGENT)
    (place / "shop.py").write_text(SERVICE)
    return run(order_of(["python3", "agent.py"], cwd=place)).directory


@pytest.mark.parametrize("said", [{"budget": "1B"}, {"budget": True}, {"bugdet": "1GiB"}, 5])
def test_a_budget_that_means_nothing_is_refused(said: object) -> None:
    with pytest.raises(InvalidInput, match="record"):
        Sandbox.create(record=said)  # type: ignore[arg-type]
    assert load(FILE).terms.record_budget == 128 << 10
