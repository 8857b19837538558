"""What can be seen of sandboxes from outside: memory of this process, and what a home has left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paddock import Sandbox


def memory_bytes(field: str = "VmRSS") -> int:
    """Resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise LookupError(field)


@dataclass(slots=True)
class Peak:
    """By how much resident memory rose at most."""

    grown_bytes: int = 0


@contextlib.contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measures the block's highest resident memory above its start."""
    peak = Peak()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = memory_bytes()
    yield peak
    peak.grown_bytes = memory_bytes("VmHWM") - before


def init_pid(box: Sandbox) -> int:
    """The host's pid of the sandbox's first process."""
    pid: int = box._calls.box.machine.init_pid
    return pid


def keeper_pid() -> int:
    """The process that owns the sandboxes of this one, for the present PADDOCK_HOME."""
    from paddock.doors.machine.engine import Engine

    driver = Engine.current().opened_driver
    assert driver is not None
    return driver.link._process.pid


def children(pid: int) -> list[int]:
    """Pids of the processes that `pid` has started and not yet waited for."""
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def nursery_pid() -> int:
    """Return the process that guests are forked from.

    The keeper has other children for a moment: one that makes mounts, and killed nurseries that
    it has not waited for. The first has the keeper's command line, the others have none.
    """
    [pid] = [pid for pid in children(keeper_pid()) if "import nursery" in _command_line(pid)]
    return pid


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def layer_names() -> list[str]:
    """The layers that there are for the present PADDOCK_HOME."""
    from paddock.doors.machine.engine import Engine

    driver = Engine.current().opened_driver
    assert driver is not None
    return sorted(driver.layers.names())


def zombies() -> list[int]:
    """Children of this process that have ended and were not waited for."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                words = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                if words[0] == "Z" and int(words[1]) == os.getpid():
                    found.append(int(name))
    return found


def processes_with(words: str) -> list[int]:
    """Pids of the host whose command line contains `words`; sandboxes' processes are among them."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                line = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ")
                if words.encode() in line and int(name) != os.getpid():
                    found.append(int(name))
    return found


def cgroups_with(marker: str) -> list[str]:
    """Control groups whose name contains `marker`."""
    root = Path("/sys/fs/cgroup")
    places = [*root.glob("paddock/*"), *root.glob("*/paddock/*")]
    return [str(place) for place in places if marker in place.name]


def mounts_of(home: Path) -> list[str]:
    """Mounts of this process's namespace that have to do with `home`."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(home) in line]


def loops_of(home: Path) -> list[str]:
    """Loop devices on a file below `home`."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if backing.read_text().startswith(str(home)):
                found.append(backing.parts[3])
    return found


def sandboxes_of(home: Path) -> list[str]:
    """Directories of sandboxes, also half-made ones."""
    return sorted(os.listdir(home / "sandboxes"))
