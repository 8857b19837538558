"""Uses sandboxes until it is killed. With a POINT it kills itself the first time it gets there.

usage: victim.py MARKER [POINT]
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from marked import mark_ids

from paddock import Sandbox
from paddock.fence.container import cgroups
from paddock.fence.container.keeper_link import KeeperLink
from paddock.state.layers import layers
from paddock.state.snapshots import store as snapshots

POINTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "layer made": ((layers.BtrfsLayers, "create"), (layers.PlainLayers, "create")),
    "cgroup made": ((cgroups.Hierarchy, "group"),),
    "layer forked": ((layers.BtrfsLayers, "fork"), (layers.PlainLayers, "fork")),
    "snapshot saved": ((snapshots.SnapshotStore, "save"),),
}


def die_after(owner: Any, name: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> None:
        original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, call)


def die_when_launched() -> None:
    original = KeeperLink.ask

    async def ask(self: KeeperLink, op: str, **values: Any) -> dict[str, Any]:
        answer = await original(self, op, **values)
        if op == "launch":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    KeeperLink.ask = ask  # type: ignore[method-assign]


def work() -> None:
    box = Sandbox.create(limits={"memory": "128MiB"})
    box.commands.run("sleep 1000", background=True)
    box.commands.run("(setsid sleep 1000 >/dev/null 2>&1 &); head -c 100000 /dev/urandom > f")
    print("working", flush=True)
    child = box.fork()
    box.pause()
    child.snapshot()
    child.kill()


def main() -> None:
    mark_ids(sys.argv[1])
    point = sys.argv[2] if len(sys.argv) > 2 else None
    if point == "sandbox launched":
        die_when_launched()
    elif point is not None:
        for owner, name in POINTS[point]:
            die_after(owner, name)
    for _ in range(8 if point is None else 1):  # boxes pile up; few enough not to hurt the host
        work()
    if point is None:
        signal.pause()


main()
