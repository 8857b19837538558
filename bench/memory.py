"""Measures what an idle sandbox holds: PSS, the memory of its processes with shared pages split."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

from bench.figures import Figure, Limit, median
from bench.rig import TRUE, Rig
from paddock import Sandbox
from paddock.model.errors import HostCannot
from paddock.state import procstat

_MIB = 1 << 20
_SETTLE_S = 0.5
_BARE = ["/usr/bin/python3", "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]


def memory(rig: Rig) -> list[Figure]:
    """One idle sandbox after its first command, by turns with an idle interpreter."""
    held, keepers, bare = [], [], []
    for _ in range(rig.count(5, 3)):
        sandbox, keeper = _idle_sandbox()
        held.append(sandbox)
        keepers.append(keeper)
        bare.append(_idle_interpreter())
    return [
        Figure(
            name="memory",
            title="memory of an idle sandbox (PSS)",
            value=median(held) / _MIB,
            unit="MiB",
            n=len(held),
            peer="python3 -I -S idle",
            peer_value=median(bare) / _MIB,
            limit=Limit(12),
            note="the guest; bubblewrap has ended by then",
        ),
        Figure(
            name="memory-keeper",
            title="memory of the keeper and the nursery (PSS)",
            value=median(keepers) / _MIB,
            unit="MiB",
            n=len(keepers),
            note="one for each host process, whatever the number of its sandboxes",
        ),
    ]


def _idle_sandbox() -> tuple[int, int]:
    """Return the bytes of the sandbox's own processes, and of the two above them that all share."""
    with Sandbox.create() as box:
        box.commands.run(TRUE)
        time.sleep(_SETTLE_S)
        init = box._calls.box.machine.init_pid
        parents = _parents()
        nursery = parents[init]
        own = _descendants(init, parents)
        shared = _pss_bytes(nursery) + _pss_bytes(parents[nursery])
        return sum(_pss_bytes(pid) for pid in own), shared


def _idle_interpreter() -> int:
    process = subprocess.Popen(_BARE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        return _pss_bytes(process.pid)
    finally:
        process.communicate()


def _parents() -> dict[int, int]:
    """Every process of the machine with its parent."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended since
            found[int(name)] = int(procstat.fields(name)[procstat.PARENT])
    return found


def _descendants(root: int, parents: dict[int, int]) -> set[int]:
    """The root and all below it."""
    found, size = {root}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def _pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise HostCannot(f"the kernel does not tell the PSS of process {pid}")
