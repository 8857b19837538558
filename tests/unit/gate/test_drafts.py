"""A draft crosses the gate again, and is sent once."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from paddock.gate.drafts import Drafts, send
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.model.action import Action, Outcome
from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound
from unit.gate.conftest import Opener
from unit.gate.gates import REFUNDS, Tool, answered, asked, python, refund


@pytest.fixture
def drafts(store: GateStore) -> Drafts:
    return Drafts(store)


def drafted(opener: Opener, action: Action | None = None, **options: object) -> str:
    """A draft that a run in the stage draft left behind."""
    gate = opener(REFUNDS.replace("broad", "draft"), run="drafting", **options)
    receipt = asyncio.run(gate.cross(action or refund(100), Tool()))
    assert receipt.draft_id is not None
    return receipt.draft_id


def test_sent_draft_is_done_once_and_remembers_its_step(
    opener: Opener, drafts: Drafts, tmp_path: Path
) -> None:
    draft_id, gate, tool = drafted(opener), opener(), Tool()
    receipt = asyncio.run(send(drafts, draft_id, gate, tool, "ann"))
    assert receipt.outcome is Outcome.DONE
    assert tool.calls == [{"amount": 100, "customer": "ada"}]
    kept = drafts.get(draft_id)
    assert (kept.state, kept.changed_by, kept.sent_step) == ("sent", "ann", 1)
    [step] = RunLog(tmp_path / "run-1").steps()
    assert step.context == {"draft": draft_id, "sent_by": "ann"}
    with pytest.raises(Conflict, match="sent by ann"):
        asyncio.run(send(drafts, draft_id, gate, tool, "bob"))
    assert len(tool.calls) == 1


def test_rules_decide_again_on_a_draft(opener: Opener, drafts: Drafts) -> None:
    draft_id, tool = drafted(opener), Tool()
    strict = opener(REFUNDS.replace("> 90000", "> 50"))
    receipt = asyncio.run(send(drafts, draft_id, strict, tool, "ann"))
    assert receipt.outcome is Outcome.REFUSED
    assert tool.calls == []
    assert drafts.get(draft_id).state == "draft"


def test_draft_that_is_asked_about_is_sent_after_a_yes_and_kept_after_a_no(
    opener: Opener, drafts: Drafts
) -> None:
    draft_id, tool = drafted(opener), Tool()
    gate = opener(REFUNDS.replace("broad", "approve"))
    no = send(drafts, draft_id, gate, tool, "ann")
    asyncio.run(answered(gate, no, lambda one: gate.approvals.deny(one.approval_id, "bob")))
    assert (drafts.get(draft_id).state, tool.calls) == ("draft", [])
    yes = send(drafts, draft_id, gate, tool, "ann")
    asyncio.run(answered(gate, yes, lambda one: gate.approvals.approve(one.approval_id, "bob")))
    assert (drafts.get(draft_id).state, len(tool.calls)) == ("sent", 1)


def test_failed_send_is_a_draft_again_and_says_why(opener: Opener, drafts: Drafts) -> None:
    draft_id, gate = drafted(opener), opener()
    failing = Tool(error=ConnectionError("no route"))
    receipt = asyncio.run(send(drafts, draft_id, gate, failing, "ann"))
    assert (receipt.outcome, receipt.error) == (Outcome.FAILED, "no route")
    assert drafts.get(draft_id).state == "draft"
    assert asyncio.run(send(drafts, draft_id, gate, Tool(), "ann")).is_done


def test_stage_draft_would_only_draft_it_again(opener: Opener, drafts: Drafts) -> None:
    draft_id, tool = drafted(opener), Tool()
    gate = opener(REFUNDS.replace("broad", "draft"))
    with pytest.raises(InvalidInput, match="draft again"):
        asyncio.run(send(drafts, draft_id, gate, tool, "ann"))
    assert [one.draft_id for one in drafts.all()] == [draft_id]


def test_discarded_draft_is_not_sent(opener: Opener, drafts: Drafts) -> None:
    draft_id, tool = drafted(opener), Tool()
    drafts.change(draft_id, "discarded", "bob")
    with pytest.raises(Conflict, match="discarded by bob"):
        asyncio.run(send(drafts, draft_id, opener(), tool, "ann"))
    assert tool.calls == []


def test_draft_with_a_masked_secret_is_not_sent(opener: Opener, drafts: Drafts) -> None:
    action = refund(100, token="hunter2-hunter2")
    draft_id, tool = drafted(opener, action, secrets={"T": "hunter2-hunter2"}), Tool()
    assert "hunter2" not in repr(drafts.get(draft_id))
    with pytest.raises(InvalidInput, match="secret"):
        asyncio.run(send(drafts, draft_id, opener(), tool, "ann"))
    assert (tool.calls, drafts.get(draft_id).state) == ([], "draft")


def test_draft_that_is_not_there_is_said_so(opener: Opener, drafts: Drafts) -> None:
    with pytest.raises(NotFound):
        asyncio.run(send(drafts, "nope-1", opener(), Tool(), "ann"))


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"action": {}, "preview": null}'])
def test_damaged_draft_is_not_sent(
    opener: Opener, drafts: Drafts, store: GateStore, content: str
) -> None:
    draft_id, tool = drafted(opener), Tool()
    with store.writing() as connection:
        connection.execute("UPDATE drafts SET content = ?", (content,))
    with pytest.raises(IntegrityError, match="damaged"):
        asyncio.run(send(drafts, draft_id, opener(), tool, "ann"))
    assert tool.calls == []


async def _cancelled(drafts: Drafts, draft_id: str, gate: Gate, when: str) -> None:
    began = asyncio.Event()

    async def live(action: Action) -> Done:
        began.set()
        await asyncio.Event().wait()
        return Done()

    task = asyncio.ensure_future(send(drafts, draft_id, gate, live, "ann"))
    if when == "asked":
        await asked(gate.approvals)
    else:
        await asyncio.wait_for(began.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("when", "state"), [("asked", "draft"), ("running", "sending")])
def test_interrupted_send_is_a_draft_again_only_if_it_had_not_begun(
    opener: Opener, drafts: Drafts, when: str, state: str
) -> None:
    draft_id = drafted(opener)
    gate = opener(REFUNDS.replace("broad", "approve" if when == "asked" else "broad"))
    asyncio.run(_cancelled(drafts, draft_id, gate, when))
    assert drafts.get(draft_id).state == state


def test_send_whose_end_could_not_be_recorded_is_not_offered_again(
    opener: Opener, drafts: Drafts
) -> None:
    draft_id, gate = drafted(opener), opener()

    async def live(action: Action) -> Done:
        gate._journal.abandon()
        return Done()

    receipt = asyncio.run(send(drafts, draft_id, gate, live, "ann"))
    assert receipt.outcome is Outcome.FAILED
    assert drafts.get(draft_id).state == "sending"


RACER = """
import asyncio, sys
from pathlib import Path
from paddock.gate.drafts import Drafts
from paddock.gate.executors import Done
from paddock.gate.drafts import send
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from paddock.model.errors import Conflict
from unit.gate.gates import make_gate

home, name = Path(sys.argv[1]), sys.argv[3]
store = GateStore(home / "gate.sqlite")
gate = make_gate(home, SigningKey.open(Path(sys.argv[2])), run=f"run-{name}", store=store)

async def live(action):
    with open(home / "sent", "a") as file:
        file.write(f"{action.arguments['amount']}\\n")
    return Done()

print("ready", flush=True)
for line in sys.stdin:
    try:
        print(asyncio.run(send(Drafts(store), line.strip(), gate, live, name)).outcome, flush=True)
    except Conflict as error:
        print("late:", error, flush=True)
"""


def test_two_who_send_one_draft_send_it_once(
    opener: Opener, drafts: Drafts, tmp_path: Path, key: SigningKey
) -> None:
    gate = opener(REFUNDS.replace("broad", "draft"), run="drafting")
    racers = [python(RACER, tmp_path, key.directory, name, stdin=subprocess.PIPE) for name in "ab"]
    for racer in racers:
        assert _said(racer) == "ready"
    for number in range(20):
        receipt = asyncio.run(gate.cross(refund(number), Tool()))
        for racer in racers if number % 2 else reversed(racers):
            assert racer.stdin is not None
            racer.stdin.write(f"{receipt.draft_id}\n")
            racer.stdin.flush()
        said = sorted(map(_said, racers))
        assert said[0] == "done"
        assert said[1].startswith("late: draft")
    for racer in racers:
        racer.communicate(timeout=30)
    sent = (tmp_path / "sent").read_text().split()
    assert sent == [str(number) for number in range(20)]


def _said(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().strip()
