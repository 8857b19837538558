"""Control groups, v2 and v1, behind one face: make, limit, place, freeze, read, remove.

v2 needs a group that this user may write below (root, or one that systemd delegated). v1 needs
root. Where neither is to be had, `find` says why, and the fence watches limits instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from paddock.model.spec import Limits

_V1_CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "freezer")
_V2_CONTROLLERS = ("cpu", "memory", "pids")
_PERIOD_US = 100_000
GROUP = "paddock"


class Counters(NamedTuple):
    """The counters of the kernel for one group since it was made."""

    cpu_s: float = 0.0
    memory_bytes: int = 0
    pids: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class Group(Protocol):
    """The group (or, in v1, groups) of one sandbox."""

    def paths(self) -> list[str]: ...

    def limit(self, limits: Limits) -> None: ...

    def open_to_join(self) -> list[int]: ...

    def holds(self, pid: int) -> bool: ...

    def freeze(self, is_frozen: bool) -> None: ...

    def counters(self) -> Counters: ...

    def hits(self) -> dict[str, int]: ...


class Hierarchy(NamedTuple):
    """The control groups that can be made here, or the reason why none can."""

    version: int  # 0: none
    bases: Mapping[str, Path] = {}
    why_not: str | None = None
    fix: str | None = None

    def group(self, name: str) -> Group:
        """Makes the group `name`."""
        made = [base / GROUP / name for base in dict.fromkeys(self.bases.values())]
        for path in made:
            _make(path)
            if self.version == 2:
                _enable_controllers(path.parent.parent)
                _enable_controllers(path.parent)
        return self.open(name)

    def paths(self, name: str) -> list[str]:
        """Return the directories that the group `name` would have."""
        return self.open(name).paths() if self.version else []

    def open(self, name: str) -> Group:
        if self.version == 2:
            return GroupV2(self.bases["unified"] / GROUP / name)
        return GroupV1({c: base / GROUP / name for c, base in self.bases.items()})


def find() -> Hierarchy:
    """Return the best hierarchy that this process may write."""
    v2 = _find_v2()
    if v2.version:
        return v2
    v1 = _find_v1()
    controllers = set(_V1_CONTROLLERS)
    is_v1_mounted = any(kind == "cgroup" and controllers & set(o) for kind, _, o in _mounts())
    return v1 if v1.version or is_v1_mounted else v2


def remove(paths: list[str]) -> list[str]:
    """Kills what is left in the groups, removes them, and returns those that would not go."""
    deadline = time.monotonic() + 2.0
    left = [p for p in paths if os.path.isdir(p)]
    while left:
        for path in left:
            for pid in _pids(path):
                _kill(pid)
        left = [p for p in left if not _rmdir(p)]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.002)
    for parent in {os.path.dirname(p) for p in paths}:
        _rmdir(parent)  # goes only when ours was the last group in it
    return left


class GroupV2(NamedTuple):
    """One directory has it all."""

    path: Path

    def paths(self) -> list[str]:
        return [str(self.path)]

    def limit(self, limits: Limits) -> None:
        _write(self.path / "cpu.max", f"{int(limits.cpu * _PERIOD_US)} {_PERIOD_US}")
        _write(self.path / "memory.max", str(limits.memory))
        _write_if_there(self.path / "memory.swap.max", "0")
        _write(self.path / "pids.max", str(limits.pids))

    def open_to_join(self) -> list[int]:
        return _opened([self.path / "cgroup.procs"])

    def holds(self, pid: int) -> bool:
        return str(pid) in (self.path / "cgroup.procs").read_text().split()

    def freeze(self, is_frozen: bool) -> None:
        _write(self.path / "cgroup.freeze", "1" if is_frozen else "0")
        wanted = f"frozen {int(is_frozen)}"
        _await(lambda: wanted in (self.path / "cgroup.events").read_text())

    def counters(self) -> Counters:
        cpu = _pairs(self.path / "cpu.stat")
        return Counters(
            cpu_s=cpu.get("usage_usec", 0) / 1e6,
            memory_bytes=_number(self.path / "memory.current"),
            pids=_number(self.path / "pids.current"),
        )

    def hits(self) -> dict[str, int]:
        return {
            "memory": _pairs(self.path / "memory.events").get("oom_kill", 0),
            "pids": _pairs(self.path / "pids.events").get("max", 0),
        }


class GroupV1(NamedTuple):
    """One directory for each controller."""

    by_controller: Mapping[str, Path]

    def paths(self) -> list[str]:
        return [str(p) for p in dict.fromkeys(self.by_controller.values())]

    def limit(self, limits: Limits) -> None:
        cpu, memory = self.by_controller["cpu"], self.by_controller["memory"]
        _write(cpu / "cpu.cfs_period_us", str(_PERIOD_US))
        _write(cpu / "cpu.cfs_quota_us", str(int(limits.cpu * _PERIOD_US)))
        _limit_v1_memory(memory, limits.memory)
        _write(self.by_controller["pids"] / "pids.max", str(limits.pids))

    def open_to_join(self) -> list[int]:
        # A process with one thread may use `tasks`, which takes no lock of the whole system.
        return _opened([path / "tasks" for path in dict.fromkeys(self.by_controller.values())])

    def holds(self, pid: int) -> bool:
        # /proc tells of all controllers in one read; the names end with this group's own.
        wanted = "/".join(self.by_controller["memory"].parts[-2:])
        lines = _text(Path(f"/proc/{pid}/cgroup")).splitlines()
        there = {
            c for line in lines if line.endswith(wanted) for c in line.split(":")[1].split(",")
        }
        return set(self.by_controller) <= there

    def freeze(self, is_frozen: bool) -> None:
        """The kernel asks each process once, when the state is written. One that just began to wait
        for its vfork child, which is frozen already, misses that: so it is asked until it is."""
        wanted = "FROZEN" if is_frozen else "THAWED"
        state = self.by_controller["freezer"] / "freezer.state"

        def is_reached() -> bool:
            _write(state, wanted)
            return _text(state).strip() == wanted

        try:
            _await(is_reached)
        except TimeoutError:
            _write(state, "THAWED")
            raise

    def counters(self) -> Counters:
        memory = self.by_controller["memory"]
        cpu = self.by_controller.get("cpuacct", self.by_controller["cpu"])
        return Counters(
            cpu_s=_number(cpu / "cpuacct.usage") / 1e9,
            memory_bytes=_number(memory / "memory.usage_in_bytes"),
            pids=_number(self.by_controller["pids"] / "pids.current"),
        )

    def hits(self) -> dict[str, int]:
        # Read after every command, so no more than the two lines that matter.
        return {
            "memory": _pairs(self.by_controller["memory"] / "memory.oom_control").get(
                "oom_kill", 0
            ),
            "pids": _pairs(self.by_controller["pids"] / "pids.events").get("max", 0),
        }


def _opened(paths: list[Path]) -> list[int]:
    """Descriptors by which whoever has them can join: a process writes `0` to each."""
    fds: list[int] = []
    try:
        for path in paths:
            fds.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        for fd in fds:
            os.close(fd)
        raise
    return fds


# Of cgroup v1: how much of its memory limit a sandbox may hold in the buffers of its TCP sockets.
# They are a counter of their own there, and come on top of the limit.
_SOCKET_SHARE = 2
SOCKET_LIMIT = "memory.kmem.tcp.limit_in_bytes"


def _limit_v1_memory(path: Path, size: int) -> None:
    # Before the first socket is made: only sockets that are made under a limit are counted.
    _write_if_there(path / SOCKET_LIMIT, str(size // _SOCKET_SHARE))
    both, plain = path / "memory.memsw.limit_in_bytes", path / "memory.limit_in_bytes"
    # Memory plus swap may never be below memory, so the order depends on the direction.
    if both.exists() and size > _number(plain):
        _write(both, str(size))
        _write(plain, str(size))
    else:
        _write(plain, str(size))
        _write_if_there(both, str(size))


def _find_v2() -> Hierarchy:
    mounts = [m for m in _mounts() if m[0] == "cgroup2"]
    if not mounts:
        return Hierarchy(0, why_not="no cgroup v2 is mounted")
    root = Path(mounts[0][1])
    base = _own_v2_group(root)
    available = set(_text(base / "cgroup.controllers").split())
    missing = [c for c in _V2_CONTROLLERS if c not in available]
    if missing:
        return Hierarchy(0, why_not=f"cgroup v2 has no {', '.join(missing)} controller here")
    if not _may_make_groups(base, is_v2=True):
        return Hierarchy(
            0,
            why_not=f"this user may not make groups below {base}",
            fix="systemd-run --user --scope -p Delegate=yes -- your-command",
        )
    return Hierarchy(2, {"unified": base})


def _own_v2_group(root: Path) -> Path:
    own = next(
        (ln[3:] for ln in _text(Path("/proc/self/cgroup")).splitlines() if ln[:3] == "0::"), "/"
    )
    if os.geteuid() == 0:
        return root
    # A group with processes cannot have limited children: use the delegated parent of ours.
    group = root / own.lstrip("/")
    return group.parent if os.access(group.parent / "cgroup.procs", os.W_OK) else group


def _find_v1() -> Hierarchy:
    bases: dict[str, Path] = {}
    for kind, path, options in _mounts():
        if kind == "cgroup":
            for controller in _V1_CONTROLLERS:
                if controller in options:
                    bases[controller] = Path(path)
    missing = [c for c in ("cpu", "memory", "pids", "freezer") if c not in bases]
    if missing:
        return Hierarchy(0, why_not=f"cgroup v1 has no {', '.join(missing)} controller here")
    if not all(_may_make_groups(path) for path in bases.values()):
        return Hierarchy(
            0, why_not="cgroup v1 can be written by root alone", fix="run Paddock as root"
        )
    return Hierarchy(1, bases)


def _may_make_groups(base: Path, *, is_v2: bool = False) -> bool:
    """Asks by doing: a read-only mount, a missing right, a busy parent show only then."""
    try:
        probe = base / GROUP / f"probe-{os.getpid()}-{time.monotonic_ns()}"
        _make(probe)
    except OSError:
        return False
    if is_v2:
        _enable_controllers(base)
        _enable_controllers(probe.parent)
    wanted = ("memory.max", "pids.max", "cpu.max") if is_v2 else ("cgroup.procs",)
    is_limitable = all((probe / name).exists() for name in wanted)
    return not remove([str(probe)]) and is_limitable


def _make(path: Path) -> None:
    while True:  # another process may remove the empty parent between the two steps
        path.parent.mkdir(exist_ok=True)
        try:
            path.mkdir(exist_ok=True)
        except FileNotFoundError:
            continue
        return


def _enable_controllers(path: Path) -> None:
    wanted = [f"+{c}" for c in _V2_CONTROLLERS]
    for word in wanted:
        try:
            _write(path / "cgroup.subtree_control", word)
        except OSError:
            continue  # `limit` fails loudly if a needed one is really missing


def _mounts() -> Iterator[tuple[str, str, list[str]]]:
    for line in _text(Path("/proc/mounts")).splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[2] in ("cgroup", "cgroup2"):
            yield fields[2], fields[1], fields[3].split(",")


def _await(condition: object, timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError("the kernel did not freeze or thaw the group in time")
        time.sleep(0.001)


def _pids(path: str) -> list[int]:
    return [int(w) for w in _text(Path(path) / "cgroup.procs").split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except OSError:
        return


def _rmdir(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _write_if_there(path: Path, text: str) -> None:
    if path.exists():
        _write(path, text)


def _text(path: Path) -> str:
    try:  # read after every command: a file object would double the cost
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts).decode()
    except OSError:
        return ""
    finally:
        os.close(fd)


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0


def _pairs(path: Path) -> dict[str, int]:
    fields = [line.split() for line in _text(path).splitlines()]
    return {w[0]: int(w[1]) for w in fields if len(w) == 2 and w[1].isdigit()}
