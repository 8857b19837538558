"""Gates with real journals and stores, and tools that count, which the tests here share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from paddock.gate.approvals import PENDING, Approval, Approvals
from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.journal.secrets.mask import Masker
from paddock.journal.writer import Journal
from paddock.model.action import Action, Effect, Kind
from paddock.model.events import Opened
from paddock.policy.file import load

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[3]

REFUNDS = """\
version: 1
agent: support-bot
stage: broad
tools:
  search_tickets: {effect: read}
  issue_refund: {effect: write}
rules:
  - id: big-refunds
    match: {kind: tool, name: issue_refund}
    when: args.amount > 5000
    decide: ask
    why: Refunds over 50.00 need a person.
  - id: no-fraud
    match: {kind: tool, name: issue_refund}
    when: args.amount > 90000
    decide: block
    why: Nobody gets that much.
  - id: odd-customers
    match: {kind: tool, name: issue_refund}
    when: args.customer == "odd"
    decide: ask
    why: Odd customers are looked at.
approvals: {timeout: 30s}
"""


@dataclass(slots=True)
class Tool:
    """A live executor that counts, and says what it did."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None

    async def __call__(self, action: Action) -> Done:
        self.calls.append(dict(action.arguments))
        if self.error is not None:
            raise self.error
        return Done(value={"did": action.name})


def refund(amount: int, customer: str = "ada", **more: Any) -> Action:
    arguments = {"amount": amount, "customer": customer, **more}
    return Action(Kind.TOOL, "issue_refund", arguments, Effect.WRITE, is_reversible=False)


def make_gate(directory: Path, key: SigningKey, text: str = REFUNDS, **options: Any) -> Gate:
    """A gate whose run lies below `directory`; options `run`, `store`, `secrets`, or of Gate."""
    policy = load(text)
    run = options.pop("run", "run-1")
    secrets = options.pop("secrets", None)
    store = options.pop("store", None) or GateStore(directory / "gate.sqlite")
    masker = Masker(secrets) if secrets else None
    opened = Opened(run=run, agent=policy.agent)
    journal = Journal.create(directory / run, opened=opened, key=key, masker=masker)
    return Gate(policy, journal, store, masker=masker, **options)


async def asked(approvals: Approvals, count: int = 1) -> list[Approval]:
    """Waits until that many questions are pending."""
    for _ in range(400):
        found = approvals.all(state=PENDING)
        if len(found) >= count:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"{count} questions were not asked")


async def answered(gate: Gate, crossing: Awaitable[T], answer: Callable[[Approval], object]) -> T:
    """Crosses, and answers the one question that it leads to."""
    task = asyncio.ensure_future(crossing)
    try:
        for one in await asked(gate.approvals):
            answer(one)
        return await asyncio.wait_for(task, 30)
    finally:
        task.cancel()


def records(directory: Path, run: str = "run-1") -> list[tuple[str, int | None]]:
    """The types and steps of a run's records, without the journal's own."""
    ours = ("opened", "head", "closed")
    log = RunLog(directory / run)
    return [(record.type, record.step) for record in log.events() if record.type not in ours]


def python(program: str, *words: object, **options: Any) -> subprocess.Popen[str]:
    """A program in a process of its own that can import Paddock and the tests."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What it said; it must have ended well."""
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    return out
