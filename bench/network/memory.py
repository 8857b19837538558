"""Measures what open connections cost the host process: its resident memory before and after. In a
process of its own, because memory that an earlier figure used and gave back would hide it.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, Limit, failed
from bench.rig import Rig
from paddock.model.errors import HostCannot

_IDLE, _STREAMING = 500, 200
_WARM = 20
_SETTLE_S = 1.5
_HOLD_S = 120
_ROOT = Path(__file__).parents[2]
_TITLES = {
    "idle": f"memory of an idle connection, of {_IDLE}",
    "streaming": f"memory of a streaming connection, of {_STREAMING}",
}


def memory_figures(rig: Rig) -> list[Figure]:
    """Measure connections with TLS on both sides of the door, which is what takes most."""
    ended = subprocess.run(
        [sys.executable, "-m", "bench.network.memory", str(rig.scratch)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=4 * _HOLD_S,
    )
    if ended.returncode != 0:
        return [failed("network-memory", HostCannot(ended.stderr.strip()[-300:]))]
    told: dict[str, Any] = json.loads(ended.stdout)
    return [
        Figure(
            name=f"network-memory-{kind}",
            title=title,
            value=told[kind]["mib"],
            unit="MiB",
            n=told[kind]["connections"],
            limit=Limit(0.5),
            note=f"TLS; the host process grew from {told[kind]['before_mib']:.1f} "
            f"to {told[kind]['after_mib']:.1f} MiB (RSS)",
        )
        for kind, title in _TITLES.items()
    ]


def main(scratch: str) -> None:
    """Prints both figures of a host process that does nothing else."""
    from bench.network.rig import open_box, open_server

    with open_server(Path(scratch)) as server, open_box(server) as box:
        port = server.ports[1]
        for path in ("/", "/drip"):  # what is loaded once is no connection's
            _held_mib(box, port, path, _WARM)
        gc.collect()
        before = _resident_mib()
        told = {
            "streaming": _grown(before, _held_mib(box, port, "/drip", _STREAMING), _STREAMING),
            "idle": _grown(before, _held_mib(box, port, "/", _IDLE), _IDLE),
        }
    print(json.dumps(told))


def _grown(before: float, after: float, count: int) -> dict[str, Any]:
    grown = max(after - before, 0.0) / count
    return {"mib": grown, "connections": count, "before_mib": before, "after_mib": after}


def _held_mib(box: Any, port: int, path: str, count: int) -> float:
    """The memory of this process while so many connections are open."""
    from bench.network.rig import NAME, PYTHON

    words = {
        "work": "hold",
        "way": {"host": NAME, "port": port, "tls": True},
        "connections": count,
        "seconds": _HOLD_S,
        "path": path,
        "is_reading": path == "/drip",
    }
    is_open = threading.Event()
    holder = box.commands.run(
        [*PYTHON, "load.py", json.dumps(words)],
        background=True,
        stdin=True,
        on_stdout=lambda _: is_open.set(),
    )
    if not is_open.wait(_HOLD_S):
        raise HostCannot("the connections could not be opened")
    time.sleep(_SETTLE_S)
    held = _resident_mib()
    holder.kill()
    time.sleep(_SETTLE_S)
    return held


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


if __name__ == "__main__":
    main(sys.argv[1])
