"""Real runs for the tests of the command line: actions that crossed a real gate."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock.gate.executors import Done
from paddock.gate.project import project_directory
from paddock.gate.run_gate import open_gate, signing_key
from paddock.journal.writer import Journal
from paddock.model.action import Action, Effect, Kind, Outcome, Verdict
from paddock.model.events import (
    AnyEvent,
    Decided,
    Opened,
    ProgramStarted,
    Proposed,
    Settled,
)
from paddock.policy.decide import Policy
from paddock.policy.file import load
from paddock.state.home import Home

FILE = """\
version: 1
agent: support-bot
stage: draft
tools:
  search: {effect: read}
  refund: {effect: write, reversible: true}
rules:
  - id: no-installs
    match: {kind: exec, program: [pip]}
    decide: block
    why: Dependencies are pinned.
    examples: {match: [{argv: [pip, install, x]}], not_match: [{argv: [ls]}]}
  - id: no-dumps
    match: {kind: tool, name: search}
    when: args.query == "everything"
    decide: block
    why: One ticket at a time.
"""
OBSERVED = ProgramStarted("/usr/bin/ls", ["ls", "-l"], "/home/user", pid=7, parent=1)


def search(query: str, **more: Any) -> Action:
    return Action(Kind.TOOL, "search", {"query": query, **more})


def refund(amount: int) -> Action:
    return Action(Kind.TOOL, "refund", {"amount": amount}, Effect.WRITE)


def command(*argv: str, **more: Any) -> Action:
    arguments = {"argv": list(argv), "cwd": "/home/user", "program": argv[0], **more}
    return Action(Kind.EXEC, argv[0], arguments, Effect.WRITE, is_contained=True)


def proposed(kind: str, arguments: dict[str, Any], parent: int | None = None) -> Proposed:
    return Proposed(Kind(kind), "n", arguments, Effect.READ, True, False, parent)


def decided(verdict: str = "allow", by: str = "rule", why: str = "no", **more: Any) -> Decided:
    return Decided(Verdict(verdict), by, why, **more)


def settled(outcome: str = "done", result: Any = None, **more: Any) -> Settled:
    return Settled(Outcome(outcome), result, **more)


USUAL = (search("ticket 1"), search("everything"), refund(100), command("ls", "-l"))


def make_run(
    home: Path,
    run: str,
    actions: Sequence[Action] = USUAL,
    *,
    policy: Policy | None = None,
    observed: Mapping[int, Sequence[AnyEvent]] | None = None,
    result: Any = "found",
    is_closed: bool = True,
) -> Path:
    """A run of these actions; `observed` is seen once the step of that number is over."""
    place = Home(home)
    place.make()
    policy = policy or load(FILE)
    gate = open_gate(place, run, policy, about=Opened(run, policy.agent, template="host"))

    async def live(action: Action) -> Done:
        return Done(value=result)

    async def cross() -> None:
        for action in actions:
            receipt = await gate.cross(action, live)
            for event in (observed or {}).get(receipt.step, ()):
                gate.observe(event, receipt.step)

    asyncio.run(cross())
    if is_closed:
        gate.close("the test")
    return place.runs / run


def begin_run(home: Path, run: str) -> Journal:
    """A journal that is still written."""
    place = Home(home)
    place.make()
    opened = Opened(run, "support-bot", stage="draft", project=project_directory())
    return Journal.create(place.runs / run, opened=opened, key=signing_key(place))


def paddock(
    *words: str, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "paddock.cli.main", *words],
        capture_output=True,
        env={**os.environ, **environment},
        input=stdin,
        timeout=60,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )
