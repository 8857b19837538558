"""Paddock files, real gates and a reader of their journals, which the tests here share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddock.gate.gate import Gate
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from paddock.journal.log import RunLog
from paddock.journal.writer import Journal
from paddock.model.events import InvalidCall, Opened, Proposed, Settled
from paddock.model.steps import Step
from paddock.policy.file import load

REFUNDS = """\
version: 1
agent: support-bot
stage: broad
tools:
  search: {effect: read}
  refund: {effect: write}
  note: {effect: write, reversible: true}
  edit: {effect: {write: args.mode == "update", read: true}}
rules:
  - id: big
    match: {kind: tool, name: refund}
    when: args.amount > 5000
    decide: ask
    why: Refunds over 50.00 need a person.
  - id: huge
    match: {kind: tool, name: refund}
    when: args.amount > 90000
    decide: block
    why: Nobody gets that much.
approvals: {timeout: 30s}
"""


def file_for(*names: str, effect: str = "read", stage: str = "broad", rules: str = "") -> str:
    """A paddock file that declares these tools."""
    tools = "".join(f"  {name}: {{effect: {effect}}}\n" for name in names)
    return f"version: 1\nagent: a\nstage: {stage}\ntools:\n{tools}{rules}"


def make_gate(
    directory: Path, key: SigningKey, store: GateStore, text: str, *, run: str, **options: Any
) -> Gate:
    """A gate whose run lies below the directory; options are those of Gate."""
    policy = load(text)
    journal = Journal.create(directory / run, opened=Opened(run, policy.agent), key=key)
    return Gate(policy, journal, store, **options)


class Past:
    """The journal of a gate, read back."""

    def __init__(self, gate: Gate) -> None:
        self._log = RunLog(gate._journal.directory)

    def steps(self) -> list[Step]:
        return [self._log.whole_step(step) for step in self._log.steps()]

    def proposed(self) -> list[Proposed]:
        return [step.proposed for step in self.steps() if step.proposed is not None]

    def settled(self) -> list[Settled]:
        return [step.settled for step in self.steps() if step.settled is not None]

    def invalid_calls(self) -> list[InvalidCall]:
        events = (record.event for record in self._log.events(InvalidCall))
        return [event for event in events if isinstance(event, InvalidCall)]
