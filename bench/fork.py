"""Measures forks: one of a workspace with many files, and a hundred of it at once."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from pathlib import Path

from bench.figures import Figure, Limit, median_ms, spread_note, timed
from bench.rig import TRUE, Rig, file_system
from paddock import AsyncSandbox, Sandbox

_FILES = 10_000
_FEW_FILES = 100  # a hundred whole copies of 10,000 files would measure the disk for minutes
_FORKS = 100
_FORKS_PER_COPY = 4
_COPIES = 4
_PER_DIRECTORY = 100
_FILL = """
import os, sys
root, count, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    directory = f"{root}/d{number // each}"
    if number % each == 0:
        os.makedirs(directory)
    with open(f"{directory}/f{number % each}", "w") as file:
        file.write(f"file {number}\\n" * 10)
"""


def fork(rig: Rig) -> list[Figure]:
    """Return both figures of forking; on a disk that cannot share blocks they carry no limit."""
    one, disk = _one_fork(rig)
    is_shared = disk.startswith("btrfs")
    return [one, *_many_forks(rig, _FILES if is_shared else _FEW_FILES, is_shared=is_shared)]


def _one_fork(rig: Rig) -> tuple[Figure, str]:
    with Sandbox.create() as box:
        box.commands.run(_fill("work", _FILES))
        disk = box.get_info().enforcement["disk"]
        is_shared = disk.startswith("btrfs")
        # Where blocks are shared the first one also waits for what was just written to be flushed.
        first = [_timed_fork(box)] if is_shared else []
        ours, theirs = _forks_and_copies(rig, box, _FORKS_PER_COPY if is_shared else 1)
    where = file_system(rig.scratch)
    figure = Figure(
        name="fork",
        title=f"fork of a workspace with {_FILES:,} files",
        value=median_ms(ours),
        unit="ms",
        n=len(ours),
        peer="cp -a of it" if theirs else None,
        peer_value=median_ms(theirs) if theirs else None,
        limit=Limit(50) if is_shared else None,
        note="; ".join(
            [
                spread_note(ours),
                *(
                    f"not counted: the first, right after the writes, {1000 * s:.0f} ms"
                    for s in first
                ),
                f"layers: {disk if is_shared else f'copied, on {where}'}",
                f"cp: {where}, n {len(theirs)}" if theirs else "cp: not with --quick",
            ]
        ),
    )
    return figure, disk


def _forks_and_copies(rig: Rig, box: Sandbox, per_copy: int) -> tuple[list[float], list[float]]:
    """Take samples in turns, with more forks than copies where a fork is the cheaper of the two by
    far."""
    if rig.is_quick:  # making, copying and removing such a tree can take half a minute
        return [_timed_fork(box) for _ in range(per_copy)], []
    tree, copy = rig.scratch / "tree", rig.scratch / "copy"
    subprocess.run(_fill(str(tree), _FILES), check=True)
    forks: list[float] = []
    copies: list[float] = []
    for _ in range(_COPIES):
        forks += [_timed_fork(box) for _ in range(per_copy)]
        copies.append(_timed_copy(tree, copy))
    shutil.rmtree(tree)
    return forks, copies


def _many_forks(rig: Rig, files: int, *, is_shared: bool) -> list[Figure]:
    rounds = [asyncio.run(_fork_many(files)) for _ in range(rig.count(3, 1))]
    limit = Limit(1000) if is_shared else None
    note = f"a workspace with {files:,} files"
    title = f"{_FORKS} forks at once"
    forked, used = ([taken[part] for taken in rounds] for part in (0, 1))
    return [
        Figure("fork-100", title, median_ms(forked), "ms", len(rounds), limit=limit, note=note),
        Figure(
            name="fork-100-command",
            title=f"{title}, and each ran a command",
            value=median_ms(used),
            unit="ms",
            n=len(rounds),
            limit=limit,
            note=note,
        ),
    ]


async def _fork_many(files: int) -> tuple[float, float]:
    """Return the seconds until all forks were there, and until each had run a command."""
    async with await AsyncSandbox.create() as box:
        await box.commands.run(_fill("work", files))
        began = time.perf_counter()
        forks = await box.fork(_FORKS)
        try:
            forked = time.perf_counter() - began
            await asyncio.gather(*(one.commands.run(TRUE) for one in forks))
            return forked, time.perf_counter() - began
        finally:
            await asyncio.gather(*(one.kill() for one in forks))


def _timed_fork(box: Sandbox) -> float:
    began = time.perf_counter()
    with box.fork():
        return time.perf_counter() - began


def _timed_copy(tree: Path, copy: Path) -> float:
    taken = timed(lambda: subprocess.run(["/bin/cp", "-a", str(tree), str(copy)], check=True))()
    shutil.rmtree(copy)
    return taken


def _fill(root: str, files: int) -> list[str]:
    return ["/usr/bin/python3", "-I", "-S", "-c", _FILL, root, str(files), str(_PER_DIRECTORY)]
