"""Runs as they are recorded, made with a real gate and journal, for the tests of their readers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from paddock.gate.executors import Done
from paddock.gate.gate import Gate
from paddock.gate.run_gate import open_gate
from paddock.model.action import Action, Effect, Kind
from paddock.model.events import AnyEvent, Opened
from paddock.policy.file import load
from paddock.state.home import Home

FILE = """\
version: 1
agent: support-bot
stage: broad
network: {allow: ["api.stripe.com:443", "api.anthropic.com:443"]}
tools:
  search: {effect: read}
  refund: {effect: write, reversible: true}
rules:
  - id: no-large-refunds
    match: {kind: tool, name: refund}
    when: args.amount > 100
    decide: block
    why: Refunds over a dollar are for people.
  - id: drafts-of-mail
    match: {kind: tool, name: refund}
    when: args.amount == 7
    decide: simulate
faults:
  - id: slow-search
    match: {kind: tool, name: search}
    step: 3
    fault: {error: it broke}
"""
OPENED = {
    "kind": "run",
    "command": ["python", "agent.py"],
    "cwd": "/srv/project",
    "seed": "0",
    "template": "host",
    "enforcement": {"network": "nftables in its own namespace", "memory": "cgroup v2"},
    "proved": {"network": "a connection outside of the list was refused"},
}


@dataclass
class Crossed:
    """An action, what comes of it, and what else is recorded about its step."""

    action: Action
    result: Any = "found"
    record: Any = None
    cost: dict[str, Any] = field(default_factory=dict)
    before: Sequence[AnyEvent] = ()
    after: Sequence[AnyEvent] = ()


def agent(*argv: str) -> Action:
    arguments = {"argv": list(argv), "cwd": "/srv/project", "program": argv[0]}
    return Action(Kind.EXEC, argv[0], arguments, Effect.WRITE, is_contained=True)


def search(query: str) -> Action:
    return Action(Kind.TOOL, "search", {"query": query}, parent=1)


def refund(amount: int) -> Action:
    return Action(Kind.TOOL, "refund", {"amount": amount}, Effect.WRITE, parent=1)


def post(path: str = "/v1/refunds", **body: Any) -> Action:
    arguments = {"host": "api.stripe.com", "port": 443, "scheme": "https", "method": "POST",
                 "path": path, "query": "", "headers": {}, "body": body}  # fmt: skip
    return Action(Kind.HTTP, "POST api.stripe.com", arguments, Effect.WRITE, parent=1)


def ask_model(prompt: str) -> Action:
    arguments = {"host": "api.anthropic.com", "port": 443, "scheme": "https", "method": "POST",
                 "path": "/v1/messages", "model": "claude-x", "prompt": prompt,
                 "messages": [{"role": "user", "content": prompt}]}  # fmt: skip
    return Action(Kind.MODEL, "claude-x", arguments, parent=1)


def begin(home: Path, run: str, **opened: Any) -> Gate:
    place = Home(home)
    place.make()
    about = msgspec.convert({"run": run, "agent": "", **OPENED, **opened}, Opened)
    return open_gate(place, run, load(FILE), about=about)


def cross(gate: Gate, crossed: Sequence[Crossed]) -> None:
    async def all_of_them() -> None:
        for step, one in enumerate(crossed, 1):

            async def live(action: Action, one: Crossed = one) -> Done:
                return Done(value=one.result, record=one.record, cost=one.cost)

            for event in one.before:
                gate.record(event, step)
            await gate.cross(one.action, live)
            for event in one.after:
                gate.record(event, step)

    asyncio.run(all_of_them())


def record(
    home: Path, run: str, crossed: Sequence[Crossed], *, last: Sequence[AnyEvent] = (),
    is_closed: bool = True, **opened: Any,
) -> Path:  # fmt: skip
    """A whole run; `last` is recorded at its end."""
    gate = begin(home, run, **opened)
    cross(gate, crossed)
    for event in last:
        gate.record(event)
    if is_closed:
        gate.close("the agent ended")
    return home / "runs" / run
