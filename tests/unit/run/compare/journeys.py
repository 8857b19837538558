"""Real journals in the shape of runs, forks and replays, for the tests of comparing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.gate.opening import signing_key
from paddock.journal.records import Type
from paddock.journal.writer import Entry, Journal
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
    again: Mapping[str, Any] | None = None
    settled: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Mapping[str, Any]] = ()


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
    setting: Mapping[str, Any] | None = None,
    notes: Sequence[Mapping[str, Any]] = (),
    exit_code: int = 0,
    stdout: str = "",
    is_closed: bool = True,
) -> Path:
    """The agent's command is step 1, the deeds are what it did, from step 2 on."""
    place = Home(home)
    place.make()
    about = {"run": run, "agent": "support-bot", "stage": "draft", "kind": "run",
             "command": ["python", "agent.py"], "cwd": "/work", "seed": 0,
             "policy_digest": "d" * 64, **(opened or {})}  # fmt: skip
    journal = Journal.create(place.runs / run, opened=about, key=signing_key(place))
    entries = [Entry(Type.NOTED, {"what": "setting", **(setting or {})})]
    command = {"argv": ["python", "agent.py"], "cwd": "/work", "program": "python"}
    agent = Deed("exec", "python", command, effect="write")
    entries += _begun(1, agent, None)
    for step, deed in enumerate(deeds, 2):
        entries += [*_begun(step, deed, 1), *_ended(step, deed)]
    result = {"exit_code": exit_code, "stdout": stdout, "duration_us": 1234}
    entries.append(Entry(Type.SETTLED, {"outcome": "done", "result": result}, 1))
    entries += [Entry(Type.NOTED, note) for note in notes]
    journal.extend(entries)
    if is_closed:
        journal.close({"ended_by": "the agent"})
    else:
        journal.abandon()
    return place.runs / run


def fork_of(parent: str, at: int, root: str | None = None) -> dict[str, Any]:
    return {"kind": "fork", "lineage": {"run": parent, "at": at, "root": root or parent}}


def _begun(step: int, deed: Deed, parent: int | None) -> list[Entry]:
    proposed = {"kind": deed.kind, "name": deed.name, "arguments": dict(deed.arguments),
                "effect": deed.effect, "is_contained": parent is None, "is_reversible": True,
                **({} if parent is None else {"parent": parent})}  # fmt: skip
    decided = {"verdict": deed.verdict, "decided_by": deed.by, "why": "It is so.",
               "effect": deed.effect, **({"fault": dict(deed.fault)} if deed.fault else {}),
               **({"again": dict(deed.again)} if deed.again else {})}  # fmt: skip
    notes = [Entry(Type.NOTED, note, step) for note in deed.notes]
    return [Entry(Type.PROPOSED, proposed, step), Entry(Type.DECIDED, decided, step), *notes]


def _ended(step: int, deed: Deed) -> list[Entry]:
    if deed.outcome is None:
        return []
    cost = {"cost": dict(deed.cost)} if deed.cost else {}
    body = {"outcome": deed.outcome, "result": deed.result, **cost, **deed.settled}
    return [Entry(Type.SETTLED, body, step)]
