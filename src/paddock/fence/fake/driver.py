"""`FakeDriver` and `FakeMachine`: the guest over a socketpair, and nothing around it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

from paddock.fence.channel import Channel
from paddock.fence.driver import Allocation, Capability, Driver, Machine, Probe, ProbeFinding
from paddock.fence.event_logs import ExecLog, FileLog
from paddock.fence.offload import offload
from paddock.fence.processes.quiescence import is_stopped
from paddock.fence.processes.tree import descendants
from paddock.fence.uids import LAYER_OWNER
from paddock.model.errors import CannotEnforce, SandboxError
from paddock.model.results import Metrics
from paddock.model.spec import Limits, Spec
from paddock.state.home import Home
from paddock.state.layers.layers import PlainLayers

_WHY = "the fake driver isolates nothing"
_GUEST = Path(__file__).parent.parent / "guest"
_PROGRAM = Path(__file__).with_name("guest_process.py")
_PASSES = 50  # over the process tree, until nothing new has appeared in it
_EXIT_S = 5.0
_FREEZE_S = 5.0


class FakeMachine(Machine):
    """A guest that is a child of this process."""

    missing = {  # noqa: RUF012 - nothing changes it
        Capability.EXEC_EVENTS: _WHY,
        Capability.EXEC_JUDGE: _WHY,
        Capability.FILE_EVENTS: _WHY,
        Capability.NETWORK: f"{_WHY}: programs have the network of the host",
        Capability.MEMORY_CHECKPOINT: _WHY,
    }

    def __init__(
        self,
        spec: Spec,
        allocation: Allocation,
        layers: PlainLayers,
        channel: Channel,
        process: subprocess.Popen[bytes],
    ) -> None:
        self.machine_id = allocation.machine_id
        self.channel = channel
        self.limits = spec.limits
        self.layer = allocation.layer
        self.uid = os.getuid()
        self.enforcement = dict.fromkeys(Limits.__struct_fields__, f"not enforced: {_WHY}")
        self.execs = ExecLog()
        self.files = FileLog({})
        self.is_frozen = False
        self.ended_by: str | None = None
        self.on_end: list[Callable[[str], None]] = []
        self._layers = layers
        self._process = process
        self._stopping: asyncio.Task[None] | None = None
        channel.when_lost(self._lost)

    @property
    def layers(self) -> PlainLayers:
        return self._layers

    @property
    def init_pid(self) -> int:
        return self._process.pid

    @property
    def network(self) -> NoReturn:
        raise CannotEnforce(self.missing[Capability.NETWORK])

    async def freeze(self) -> None:
        deadline = time.monotonic() + _FREEZE_S
        while True:
            self._signal_all(signal.SIGSTOP)
            if all(is_stopped(pid) for pid in descendants(self.init_pid)):
                break
            if time.monotonic() > deadline:
                await self.thaw()
                raise SandboxError(f"sandbox {self.machine_id} could not be paused; it still runs")
            await asyncio.sleep(0.001)
        self.is_frozen = True

    async def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)
        self.is_frozen = False

    async def stats(self) -> Metrics:
        """Count processes and the layer; what a group would measure is 0."""
        return Metrics(
            at=time.time(),
            cpu_used_s=0.0,
            cpu_percent=0.0,
            memory_bytes=0,
            memory_limit_bytes=self.limits.memory,
            pids=1 + sum(1 for _ in descendants(self.init_pid)),
            disk_bytes=await offload(self._layers.used_bytes, self.layer),
            disk_limit_bytes=self.limits.disk,
            io_read_bytes=0,
            io_write_bytes=0,
        )

    async def set_limits(self, limits: Limits) -> None:
        check_limits(limits)
        self.limits = limits

    def hits(self) -> dict[str, int]:
        return {}

    async def is_disk_full(self) -> bool:
        return False

    async def stop(self, reason: str) -> None:
        if self.ended_by is None:
            self.ended_by = reason
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        self.channel.lose(self.ended_by)
        await asyncio.shield(self._stopping)

    def _lost(self, reason: str) -> None:
        if self.ended_by is None:
            self.ended_by = reason
        for callback in self.on_end:
            callback(self.ended_by)
        self.on_end.clear()
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())

    async def _stop(self) -> None:
        self._signal_all(signal.SIGKILL)
        self._process.kill()
        await offload(self._process.wait, _EXIT_S)
        await offload(self._layers.destroy, self.layer)

    def _signal_all(self, number: int) -> None:
        """Signal every program below the guest, and those that they started meanwhile."""
        done: set[int] = set()
        for _ in range(_PASSES):
            pids = set(descendants(self.init_pid)) - done
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            done |= pids


class FakeDriver(Driver):
    """Starts guests as children of this process."""

    name = "fake"

    def __init__(self, home: Home) -> None:
        self._layers = PlainLayers(home.layers)
        self._machines: list[FakeMachine] = []

    @classmethod
    def probe(cls, home: Home) -> Probe:
        names = ("isolation", "seccomp", *Limits.__struct_fields__)
        return Probe(cls.name, tuple(ProbeFinding(name, False, "", _WHY) for name in names))

    @classmethod
    async def open(cls, home: Home) -> FakeDriver:
        return cls(home)

    def close(self, *, is_waiting: bool = True) -> None:
        self.close_in_child()

    def close_in_child(self) -> None:
        for machine in self._machines:
            machine.channel.close_in_child()

    @property
    def is_lost(self) -> bool:
        return False

    @property
    def layers(self) -> PlainLayers:
        return self._layers

    async def sweep(self) -> None:
        """Do nothing: there is no keeper whose sandboxes could be left."""

    def can_adapt(self, limits: Limits) -> bool:
        return limits == Limits()

    @contextlib.asynccontextmanager
    async def prepared(self, name: str, base: str | None = None) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await offload(self._layers.destroy, name)
            raise

    async def start(
        self, spec: Spec, allocation: Allocation, *, is_prepared: bool = False
    ) -> FakeMachine:
        if spec.mounts or spec.snapshot is not None or spec.template != "host":
            raise CannotEnforce(f"a file system of its own: {_WHY}")
        check_limits(spec.limits)
        if not is_prepared:
            self._layers.create(allocation.layer, spec.limits.disk, LAYER_OWNER)
        async with self.prepared(allocation.layer):
            channel, process = await start_guest(allocation.machine_id)
        machine = FakeMachine(spec, allocation, self._layers, channel, process)
        self._machines.append(machine)
        return machine


def check_limits(limits: Limits) -> None:
    """Raise CannotEnforce for limits that somebody chose, except those that the doors keep."""
    by_doors = Limits(output=limits.output, time=limits.time)
    if limits != by_doors:
        raise CannotEnforce(f"limits: {_WHY}")


async def start_guest(name: str) -> tuple[Channel, subprocess.Popen[bytes]]:
    """Start a guest, and return the channel to it and its process."""
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), str(_GUEST)]
        process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
            [*argv, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    ours.setblocking(False)
    return await Channel.connect(ours, name), process
