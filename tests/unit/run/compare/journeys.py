"""Real journals in the shape of runs, forks and replays, for the tests of comparing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from paddock.gate.run_gate import signing_key
from paddock.journal.canonical import canonical_text
from paddock.journal.records import Chain
from paddock.journal.segments import segment_name
from paddock.journal.writer import Journal, JournalEntry
from paddock.model.action import Effect, Kind, Outcome, Verdict
from paddock.model.events import (
    AnyEvent,
    Configured,
    Decided,
    Opened,
    Proposed,
    RecordedSource,
    Settled,
)
from paddock.state.home import Home


@dataclass(frozen=True)
class Deed:
    """One step that is to be in a journal."""

    kind: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    effect: str = "read"
    verdict: str = "allow"
    by: str = "default"
    outcome: str | None = "done"
    result: Any = None
    cost: Mapping[str, Any] = field(default_factory=dict)
    fault: Mapping[str, Any] | None = None
    again: RecordedSource | None = None
    error: str | None = None
    notes: Sequence[AnyEvent] = ()


def request(method: str, path: str, *, host: str = "api.example", **more: Any) -> Deed:
    arguments = {"method": method, "host": host, "path": path, "port": 443, "scheme": "https"}
    arguments |= more.pop("arguments", {})
    result = {"status": more.pop("status", 200), "body": more.pop("answer", "{}")}
    effect = "read" if method == "GET" else "write"
    given: dict[str, Any] = {"effect": effect, "result": result, **more}
    return Deed("http", f"{method} {host}", arguments, **given)


def tool(name: str, **arguments: Any) -> Deed:
    return Deed("tool", name, arguments)


def model(question: str, answer: str = "ok", **more: Any) -> Deed:
    arguments = {"host": "api.model.example", "model": "m-1", "prompt": question}
    cost = {"input_tokens": 10, "output_tokens": 5, "usd_micros": 120}
    result = {"status": 200, "body": answer}
    return Deed("model", "m-1", arguments, result=result, cost=cost, **more)


def write_run(
    home: Path,
    run: str,
    deeds: Sequence[Deed],
    *,
    opened: Mapping[str, Any] | None = None,
    configured: Configured | None = None,
    notes: Sequence[AnyEvent] = (),
    exit_code: int = 0,
    stdout: str = "",
    is_closed: bool = True,
) -> Path:
    """The agent's command is step 1, the deeds are what it did, from step 2 on."""
    place = Home(home)
    place.make()
    about = {"run": run, "agent": "support-bot", "stage": "draft", "kind": "run",
             "command": ["python", "agent.py"], "cwd": "/work", "seed": "0",
             "policy_digest": "d" * 64, **(opened or {})}  # fmt: skip
    first = msgspec.convert(about, Opened)
    journal = Journal.create(place.runs / run, opened=first, key=signing_key(place))
    entries = [JournalEntry(configured or Configured())]
    command = {"argv": ["python", "agent.py"], "cwd": "/work", "program": "python"}
    agent = Deed("exec", "python", command, effect="write")
    entries += _begun(1, agent, None)
    for step, deed in enumerate(deeds, 2):
        entries += [*_begun(step, deed, 1), *_ended(step, deed)]
    result = {"exit_code": exit_code, "stdout": stdout, "duration_us": 1234}
    entries.append(JournalEntry(Settled(Outcome.DONE, result), 1))
    entries += [JournalEntry(event) for event in notes]
    journal.extend(entries)
    if is_closed:
        journal.close("the agent")
    else:
        journal.abandon()
    return place.runs / run


def write_records(
    home: Path, run: str, records: Sequence[tuple[str, Mapping[str, Any], int | None]]
) -> Path:
    """A journal of records as they may come from anywhere: types, bodies and steps."""
    chain = Chain()
    lines = [
        chain.link(kind, canonical_text(body), at=at, step=step)
        for at, (kind, body, step) in enumerate(records, 1)
    ]
    place = Home(home).runs / run
    place.mkdir(parents=True, exist_ok=True)
    (place / segment_name(1)).write_bytes(b"".join(line + b"\n" for line in lines))
    return place


def fork_of(parent: str, at: int, root: str | None = None) -> dict[str, Any]:
    return {"kind": "fork", "lineage": {"run": parent, "at": at, "root": root or parent}}


def _begun(step: int, deed: Deed, parent: int | None) -> list[JournalEntry]:
    effect = Effect(deed.effect)
    proposed = Proposed(
        kind=Kind(deed.kind),
        name=deed.name,
        arguments=dict(deed.arguments),
        effect=effect,
        is_reversible=True,
        is_contained=parent is None,
        parent=parent,
    )
    decided = Decided(
        verdict=Verdict(deed.verdict),
        decided_by=deed.by,
        why="It is so.",
        effect=effect,
        fault=None if deed.fault is None else dict(deed.fault),
        replayed_from=deed.again,
    )
    events: list[AnyEvent] = [proposed, decided, *deed.notes]
    return [JournalEntry(event, step) for event in events]


def _ended(step: int, deed: Deed) -> list[JournalEntry]:
    if deed.outcome is None:
        return []
    outcome = Outcome(deed.outcome)
    return [JournalEntry(Settled(outcome, deed.result, deed.error, cost=dict(deed.cost)), step)]
