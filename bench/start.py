"""Measures how soon a sandbox is there: cold, from the pool, a hundred at once; and the CLI."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path

from bench.figures import (
    Figure,
    Limit,
    alternate,
    median_ms,
    number,
    percentile_ms,
    spread_note,
)
from bench.peers import Spawner
from bench.rig import TRUE, Rig
from paddock import AsyncSandbox, Sandbox
from paddock.model.errors import HostCannot

_CROWD = 100
_POOL = 2


def create_cold(rig: Rig) -> list[Figure]:
    """A sandbox and its first command, nothing prepared, beside whole runs of the peers."""
    ours, theirs = alternate(rig.count(40, 10), _first_command, rig.peers.bwrap.run, warm_up=2)
    figures = [
        Figure(
            name="create-cold",
            title="create + first command, cold",
            value=median_ms(ours),
            unit="ms",
            n=len(ours),
            peer="bwrap",
            peer_value=median_ms(theirs),
            limit=Limit(3, is_ratio=True),
            note=f"{spread_note(ours)}; bwrap {spread_note(theirs)}",
        )
    ]
    for peer in rig.peers.others:
        figures.append(_beside(rig, peer))
    return figures


def create_pool(rig: Rig) -> list[Figure]:
    """The same with warm sandboxes; the pool is full again before anything else is timed."""
    with Sandbox.pool(_POOL):

        def from_pool() -> float:
            taken = _first_command()
            Sandbox.pool(_POOL)  # waits until it is full
            return taken

        ours, theirs = alternate(rig.count(40, 10), from_pool, rig.peers.bwrap.run)
    return [
        Figure(
            name="create-pool",
            title="create + first command, from the pool",
            value=median_ms(ours),
            unit="ms",
            n=len(ours),
            peer="bwrap",
            peer_value=median_ms(theirs),
            limit=Limit(0.5, is_ratio=True),
            note=f"{spread_note(ours)}; bwrap {spread_note(theirs)}",
        )
    ]


def create_crowd(rig: Rig) -> list[Figure]:
    """A hundred cold sandboxes asked for in one moment, all alive until the last one answered."""
    rounds, singles = rig.count(3, 1), rig.count(10, 5)
    alone: list[float] = []
    crowd: list[float] = []
    asyncio.run(_burst(1))
    for _ in range(rounds):
        for _ in range(singles):
            alone += asyncio.run(_burst(1))
        crowd += asyncio.run(_burst(_CROWD))
    bare = rig.peers.bwrap
    bare_ratio = percentile_ms(bare.crowd(_CROWD), 95) / median_ms([bare.run() for _ in range(9)])
    return [
        Figure(
            name="create-100",
            title=f"{_CROWD} at once, p95 of create + first command",
            value=percentile_ms(crowd, 95),
            unit="ms",
            n=len(crowd),
            peer="one alone",
            peer_value=median_ms(alone),
            limit=Limit(20, is_ratio=True),
            note=f"median {number(median_ms(crowd))}, slowest {number(1000 * max(crowd))} ms; "
            f"{_CROWD} bare bwrap at once: p95 {number(bare_ratio)}x one, on the same cores",
        )
    ]


def cli_start(rig: Rig) -> list[Figure]:
    """The command line's own start, beside a bare interpreter's."""
    script = Path(sys.executable).with_name("paddock")
    if not script.exists():
        raise HostCannot(
            f"there is no {script} to time", hint="install the package into this environment"
        )
    with (
        Spawner("paddock --version", [str(script), "--version"]) as ours,
        Spawner("python -c pass", [sys.executable, "-P", "-c", "pass"]) as theirs,
    ):
        measured, bare = alternate(rig.count(20, 7), ours.run, theirs.run)
    return [
        Figure(
            name="cli-start",
            title="paddock --version",
            value=median_ms(measured),
            unit="ms",
            n=len(measured),
            peer="python -c pass",
            peer_value=median_ms(bare),
        )
    ]


def _first_command() -> float:
    began = time.perf_counter()
    with Sandbox.create() as box:
        box.commands.run(TRUE)
        return time.perf_counter() - began


def _beside(rig: Rig, peer: Spawner) -> Figure:
    # Fewer: some of them take the better part of a second.
    ours, theirs = alternate(rig.count(10, 3), _first_command, peer.run)
    return Figure(
        name=f"create-cold-{peer.name}",
        title=f"create + first command, cold, beside {peer.name}",
        value=median_ms(ours),
        unit="ms",
        n=len(ours),
        peer=peer.name,
        peer_value=median_ms(theirs),
    )


async def _burst(count: int) -> list[float]:
    """Start so many sandboxes at once; return the time of each, from asking to the end of its
    command."""
    async with contextlib.AsyncExitStack() as boxes:

        async def one() -> float:
            began = time.perf_counter()
            box = await boxes.enter_async_context(await AsyncSandbox.create())
            await box.commands.run(TRUE)
            return time.perf_counter() - began

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one()) for _ in range(count)]
        return [task.result() for task in tasks]
