"""Limits that are watched from in here when the host has no cgroup to give: memory of all
programs together, and stopping everything without a freezer. Pid 1 cannot be signalled, traced or
outrun by what it watches, and sees every process of the sandbox.
"""

import _signal
import os
import resource
from time import monotonic, sleep

INTERVAL_S = 0.05
NEAR_S = 0.01  # between two looks when more than half of the limit is in use
SWARM = 8  # kills within a second that show that killing one by one does not help
FREEZE_S = 5.0  # that programs have to stop; the host waits longer
# Functions of the kernel in which a process waits for its vfork child, by the kernel's version.
_VFORK = (b"kernel_clone", b"_do_fork", b"wait_for_vfork_done")
REFREEZE_S = 0.01
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Kills the largest program when all together use more memory than the limit, and notes when
    the number of processes (which the kernel bounds) has reached its own."""

    def __init__(self, loop, table, limit_bytes, limit_pids):
        self._loop = loop
        self._table = table
        self._limit = limit_bytes
        self._limit_pids = limit_pids
        self.hits = table.hits
        self._kills = []
        loop.after(INTERVAL_S, self._look)

    def _look(self):
        sizes = {pid: resident(pid) for pid in pids()}
        is_near = 2 * sum(sizes.values()) > self._limit
        self._loop.after(NEAR_S if is_near else INTERVAL_S, self._look)
        if len(sizes) + 1 >= self._limit_pids:
            self.hits["pids"] += 1
        if sum(sizes.values()) <= self._limit:
            return
        # Resident pages that processes share were counted twice: ask the exact question only now.
        sizes = {pid: proportional(pid, size) for pid, size in sizes.items()}
        while sizes and sum(sizes.values()) > self._limit:
            del sizes[self._kill_largest(sizes)]
            self._kills.append(monotonic())
        self._kills = [at for at in self._kills if at > monotonic() - 1]
        if len(self._kills) > SWARM:
            self._kills = []
            self._table.kill_everything(
                "memory"
            )  # what is killed comes back: end those who start it

    def _kill_largest(self, sizes):
        self.hits["memory"] += 1
        largest = max(sizes, key=lambda pid: sizes[pid])
        started = _ancestor_in(largest, self._table.running)
        if started is not None:
            self._table.killed_by[started] = "memory"
        try:
            os.kill(largest, _signal.SIGKILL)
        except ProcessLookupError:
            pass
        return largest


def pids():
    """Return every process of the sandbox but ourselves."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def proportional(pid, fallback):
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except (OSError, IndexError):
        pass
    return fallback


def usage(stream, ask):
    """Measure what everything in here uses, for hosts without cgroups."""
    memory = cpu = 0
    running = pids()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    read, written = ended.ru_inblock * 512, ended.ru_oublock * 512
    for pid in [*running, 1]:
        memory += resident(pid)
        cpu += _cpu_ticks(pid)
        io = _io(pid)
        read += io.get(b"read_bytes:", 0)
        written += io.get(b"write_bytes:", 0)
    stream.end(
        {
            "memory": memory,
            "cpu": cpu / os.sysconf("SC_CLK_TCK"),
            "pids": len(running) + 1,
            "read": read,
            "written": written,
        }
    )


def _io(pid):
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            pairs = [line.split() for line in file]
        return {name: int(value) for name, value in pairs}
    except (OSError, ValueError):
        return {}


def deleted_bytes(stream, ask):
    """Count what nameless files hold that are still open: no walk of the tree sees them."""
    seen = {}
    for pid in pids():
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            try:
                info = os.stat(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if info.st_nlink == 0:
                seen[(info.st_dev, info.st_ino)] = info.st_blocks * 512
    stream.end({"bytes": sum(seen.values())})


class Freezer:
    """SIGSTOP to all until nothing but ourselves runs; stopped programs cannot start new ones.

    While frozen it looks again and again: a timer that a program had set may wake it by SIGCONT.
    """

    def __init__(self, loop):
        self._loop = loop
        self._is_frozen = False
        self._stopped_before = set()

    def freeze(self, stream, ask):
        if not self._is_frozen:
            self._stopped_before = {pid for pid in pids() if _state(pid) in b"Tt"}
        until = monotonic() + FREEZE_S
        while monotonic() < until:
            if not _signal_all(_signal.SIGSTOP) or _all_stopped():
                if not self._is_frozen:
                    self._is_frozen = True
                    self._loop.after(REFREEZE_S, self._again)
                stream.end({"frozen": True})
                return
            sleep(0.001)  # on a busy machine each needs its turn on a core to stop
        stream.end({"frozen": False})

    def thaw(self, stream, ask):
        self._is_frozen = False
        for pid in pids():
            if pid not in self._stopped_before:  # those, the agent itself had stopped
                try:
                    os.kill(pid, _signal.SIGCONT)
                except ProcessLookupError:
                    pass
        stream.end({})

    def _again(self):
        if self._is_frozen:
            if not _all_stopped():
                _signal_all(_signal.SIGSTOP)
            self._loop.after(REFREEZE_S, self._again)


def _all_stopped():
    return all(_is_stopped(pid) for pid in pids())


def _signal_all(number):
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return False
    return True


def _is_stopped(pid):
    """Return whether the process has ended, or runs nothing of its own until it is continued."""
    state = _state(pid)
    if state == b"D":
        return _waits_for_vfork(pid)
    return state in b"TtZX"


def _state(pid):
    """Return the state of a process as proc(5) writes it; X (dead) for one that is gone."""
    fields = _stat_fields(pid)
    return fields[0] if fields else b"X"


def _waits_for_vfork(pid):
    """Return whether the process waits until its child has executed a program. It runs nothing of
    its own before that, and then finds the signal that stops it. Nothing else can wake it."""
    try:
        with open(f"/proc/{pid}/wchan", "rb") as file:
            return file.read() in _VFORK
    except OSError:
        return False


def _cpu_ticks(pid):
    fields = _stat_fields(pid)
    return sum(int(ticks) for ticks in fields[11:15]) if len(fields) > 15 else 0


def _ancestor_in(pid, running):
    while pid > 1:
        if pid in running:
            return pid
        fields = _stat_fields(pid)
        pid = int(fields[1]) if len(fields) > 1 else 0
    return None


def _stat_fields(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(1024).rpartition(b")")[2].split()
    except OSError:
        return []
