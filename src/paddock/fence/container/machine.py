"""A running container: its group, its guest, its notifier, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from paddock.fence.channel import Channel
from paddock.fence.container.cgroups import Counters, Group
from paddock.fence.container.keeper_link import KeeperLink
from paddock.fence.container.network import socket_memory
from paddock.fence.container.network.namespace import NamespaceNetwork, NamespaceSockets
from paddock.fence.container.notifier import Notifier
from paddock.fence.driver import Capability, Machine
from paddock.fence.event_logs import ExecLog, FileLog
from paddock.fence.offload import offload
from paddock.model.errors import PaddockError, SandboxDied, SandboxError
from paddock.model.results import Metrics
from paddock.model.spec import Limits
from paddock.state.layers.layers import Layers

DISK_WATCH_S = 0.25  # the least time between two counts of a watched layer
_CALL_S = 10.0


class Parts(msgspec.Struct):
    """The parts that the driver hands over when a machine has booted."""

    machine_id: str
    link: KeeperLink
    layer: str
    group: Group | None
    limits: Limits
    enforcement: dict[str, str]
    uid: int
    init_pid: int
    sockets: NamespaceSockets
    quotas: dict[str, int]  # the own layer and mounted volumes, in bytes
    cgroup_version: int = 0


class ContainerMachine(Machine):
    """One sandbox's machine. All methods run on the engine's loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.machine_id = parts.machine_id
        self.enforcement = parts.enforcement
        self.uid = parts.uid
        self.layer = parts.layer
        self.limits = parts.limits
        self.channel: Channel
        self.missing: dict[Capability, str] = {
            Capability.MEMORY_CHECKPOINT: "a container's memory cannot be saved",
        }
        self._network = NamespaceNetwork(parts.sockets, parts.init_pid)
        self.execs = ExecLog()
        self.files = FileLog(self.execs.pids)
        self.ended_by: str | None = None
        self.is_frozen = False
        self.on_end: list[Callable[[str], None]] = []
        self._notifier: Notifier | None = None
        self._watch: asyncio.Task[None] | None = None
        self._socket_watch: asyncio.Task[None] | None = None
        self._socket_hits = 0
        self._registering: asyncio.Task[dict[str, Any]] | None = None
        self._last: tuple[float, float] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._disk_hits = 0
        self._tolerated = 0
        self._usage: dict[str, Any] = dict.fromkeys(("cpu", "memory", "pids", "read", "written"), 0)

    @property
    def init_pid(self) -> int:
        return self._parts.init_pid

    @property
    def network(self) -> NamespaceNetwork:
        return self._network

    @property
    def layers(self) -> Layers:
        return self._parts.link.layers

    def begin(self, channel: Channel, listener: int) -> None:
        """Called once by the driver when everything is enforced."""
        self.channel = channel
        self._notifier = Notifier(listener, self.execs, self.init_pid)
        self._parts.link.when_exited(self.machine_id, self._on_exited)
        if not self.layers.has_hard_quota:
            self._watch = asyncio.ensure_future(self._watch_disk())
        self._socket_watch = asyncio.ensure_future(self._watch_sockets())
        channel.when_lost(self.lost)

    def register(self, info: dict[str, Any]) -> None:
        """Tells other processes of it, while the caller goes on; what cannot be told is ended."""

        def done(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and task.exception() is not None and self._stopping is None:
                self.channel.lose(f"it could not be registered: {task.exception()}")

        asking = self._parts.link.ask("ready", id=self.machine_id, info=info)
        self._registering = asyncio.ensure_future(asking)
        self._registering.add_done_callback(done)

    async def registered(self) -> None:
        """Returns when other processes can know of it."""
        assert self._registering is not None
        await self._registering

    async def freeze(self) -> None:
        """Nothing inside runs from now on. Without a control group the guest itself still does:
        whoever calls this keeps requests from it, by `holding_calls` or by refusing them."""
        try:
            if self._parts.group is not None:
                await offload(self._parts.group.freeze, True)
            else:
                await self._stop_programs()
        except TimeoutError:
            raise SandboxError(
                f"sandbox {self.machine_id} could not be paused; it still runs"
            ) from None
        self.is_frozen = True

    async def _stop_programs(self) -> None:
        answer = await asyncio.wait_for(self.channel.ask_at_once("freeze"), _CALL_S)
        if not answer.get("frozen"):
            await self.channel.ask_at_once("thaw")
            raise TimeoutError

    async def thaw(self) -> None:
        if self._parts.group is not None:
            await offload(self._parts.group.freeze, False)
        else:
            await asyncio.wait_for(self.channel.ask_at_once("thaw"), _CALL_S)
        self.is_frozen = False

    async def set_limits(self, limits: Limits) -> None:
        """Apply the limits of a spec to a pooled machine: to its group and its quota."""
        if self._parts.group is not None:
            self._parts.group.limit(limits)
        self.layers.set_quota(self.layer, limits.disk)
        self._parts.quotas[self.layer] = limits.disk
        self.limits = limits

    def hits(self) -> dict[str, int]:
        """Return how often each limit was reached so far; two readings tell what a command ran
        into."""
        counted = self._parts.group.hits() if self._parts.group is not None else {}
        memory = counted.get("memory", 0) + self._socket_hits
        return {**counted, "memory": memory, "disk": self._disk_hits}

    async def is_disk_full(self) -> bool:
        """Return whether a quota is reached: within a block of it nothing more can be written."""
        for name, quota in self._parts.quotas.items():
            used = await offload(self.layers.used_bytes, name)
            if used + max(256 << 10, quota // 50) >= quota:
                return True
        return False

    async def stats(self) -> Metrics:
        now = time.time()
        counters = await self._measure()
        before = self._last or (now, counters.cpu_s)
        self._last = (now, counters.cpu_s)
        span = now - before[0]
        disk = await offload(self.layers.used_bytes, self.layer)
        return Metrics(
            at=now,
            cpu_used_s=counters.cpu_s,
            cpu_percent=100 * (counters.cpu_s - before[1]) / span if span > 0 else 0.0,
            memory_bytes=counters.memory_bytes,
            memory_limit_bytes=self.limits.memory,
            pids=counters.pids,
            disk_bytes=disk,
            disk_limit_bytes=self.limits.disk,
            io_read_bytes=counters.read_bytes,
            io_write_bytes=counters.written_bytes,
        )

    async def stop(self, reason: str) -> None:
        """Ends everything inside and removes what it left. Waiting calls return with the reason."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop(reason))
        await asyncio.shield(self._stopping)

    def lost(self, reason: str) -> None:
        """Explain why the channel closed, as exactly as we can, then clean up."""
        if self.ended_by is None:
            self.ended_by = self._explain(reason)
        for callback in self.on_end:
            callback(self.ended_by)
        self.on_end.clear()
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop(self.ended_by))

    async def _stop(self, reason: str) -> None:
        if self.ended_by is None:
            self.ended_by = reason
        self.channel.lose(self.ended_by)
        for watch in (self._watch, self._socket_watch):
            if watch is not None:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)
        self.files.close()
        self._parts.sockets.close()
        self._parts.link.forget(self.machine_id)
        with contextlib.suppress(PaddockError):  # without a keeper, the next one sweeps
            await self._parts.link.ask("discard", id=self.machine_id)
        if self._notifier is not None:
            self._notifier.close()

    def _on_exited(self) -> None:
        self.channel.lose(self._explain("its first process ended"))

    def _explain(self, reason: str) -> str:
        with contextlib.suppress(OSError):
            if self._parts.group is not None and self._parts.group.hits()["memory"]:
                return "killed by the memory limit"
        return reason

    async def _measure(self) -> Counters:
        if not self.is_frozen or self._parts.group is None:
            # A guest in a frozen group does not answer; what it said last still holds.
            self._usage = await asyncio.wait_for(self.channel.ask_at_once("usage"), _CALL_S)
        usage = self._usage
        io = {"read_bytes": usage["read"], "written_bytes": usage["written"]}
        if self._parts.group is not None:
            return self._parts.group.counters()._replace(**io)
        counted = {"cpu_s": usage["cpu"], "memory_bytes": usage["memory"], "pids": usage["pids"]}
        return Counters(**counted, **io)

    async def _watch_disk(self) -> None:
        """Keep a quota that the file system does not keep: count, and over the limit stop, count
        exactly, and kill."""
        while self.ended_by is None:
            began = time.monotonic()
            with contextlib.suppress(SandboxDied, asyncio.TimeoutError, FileNotFoundError):
                if not self.is_frozen and await self._is_growing_over():
                    await self._enforce_disk()
            # A large tree takes long to count: never spend more than a third of a core on it.
            await asyncio.sleep(max(DISK_WATCH_S, 2 * (time.monotonic() - began)))

    async def _watch_sockets(self) -> None:
        """End every program when sockets hold more than the memory limit and a little: whose bytes
        they are cannot be told."""
        meter = self._parts.sockets.get("meter")
        kinds = socket_memory.watched_kinds(self._parts.cgroup_version)
        pause_s = socket_memory.WATCH_S
        while self.ended_by is None and meter is not None:
            await asyncio.sleep(pause_s)
            if self.is_frozen:
                continue
            try:
                held = await offload(self._socket_bytes, meter, kinds)
            except OSError:  # the machine ends, and the socket with it
                return
            most = self.limits.memory + socket_memory.ALLOWED_BYTES
            is_near = held is None or 4 * held > most
            pause_s = socket_memory.NEAR_S if is_near else socket_memory.WATCH_S
            if held is None or held > most:
                self._socket_hits += 1
                with contextlib.suppress(SandboxDied, asyncio.TimeoutError):
                    await asyncio.wait_for(self.channel.ask("kill_all", limit="memory"), _CALL_S)

    def _socket_bytes(
        self, meter: socket.socket, kinds: tuple[socket_memory.SocketKind, ...]
    ) -> int | None:
        held = socket_memory.held_bytes(meter, kinds)
        return None if held is None else held + socket_memory.ping_bytes(self.init_pid)

    async def _is_growing_over(self) -> bool:
        """Over the quota, and more than when that was last punished: an `rm` must be possible."""
        excess = await self._excess()
        if excess <= 0:
            self._tolerated = 0
        return excess > self._tolerated

    async def _excess(self) -> int:
        """Return by how many bytes the worst of the layers is over its quota; negative when none
        is."""
        hidden = await asyncio.wait_for(self.channel.ask("deleted_bytes"), _CALL_S)
        worst = -(1 << 62)
        for name, quota in self._parts.quotas.items():
            used = await offload(self.layers.used_bytes, name)
            worst = max(worst, used - quota + (int(hidden["bytes"]) if name == self.layer else 0))
        return worst

    async def _enforce_disk(self) -> None:
        await self.channel.ask("freeze")
        try:
            excess = await self._excess()
            if excess > self._tolerated:
                self._disk_hits += 1
                self._tolerated = excess
                await self.channel.ask("kill_all", limit="disk")
        finally:
            await self.channel.ask("thaw")
