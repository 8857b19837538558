"""The core of a sandbox: its parts, its clock, its forks and snapshots.

`Box` makes the parts of one sandbox and passes each what it needs: the guest (`guest`), the gate
(`sandbox_gate`), calls as actions (`actions`), the network and the secrets (`network`), the world.
No part knows the box. It runs on the engine's loop; callers meet it through the faces in `sandbox`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.doors.machine.actions import SandboxActions
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.guest import LocalGuest
from paddock.doors.machine.layer_setup import allocate, renew_work, restore, snapshots_of, stamps_of
from paddock.doors.machine.network.sandbox_network import SandboxNetwork, wants_network
from paddock.doors.machine.network.sandbox_secrets import SandboxSecrets
from paddock.doors.machine.read_only_files import with_read_only_files
from paddock.doors.machine.sandbox_gate import Opening, SandboxGate
from paddock.doors.machine.sources import BoxSources
from paddock.doors.machine.worlds import close_world, discard_worlds, fork_worlds
from paddock.fence.channel import Channel
from paddock.fence.driver import Driver, Machine
from paddock.fence.mount_sources import resolved
from paddock.fence.offload import offload
from paddock.fence.uids import LAYER_OWNER
from paddock.gate.alerts import RaisedAlert
from paddock.model.errors import HostCannot, OutOfSpace, SandboxError
from paddock.model.results import Metrics, SandboxInfo
from paddock.model.spec import Spec, identifier
from paddock.policy.decide import Policy
from paddock.state.disk_space import check_space, files_bytes
from paddock.state.home import Home, new_id
from paddock.state.layers.layers import Layers, copies_lock

if TYPE_CHECKING:
    from paddock.doors.machine.code import CodeCore
    from paddock.doors.machine.files import FileCore
    from paddock.world.world import World

DEFAULT_SOURCES = BoxSources()
DEFAULT_OPENING = Opening()
SAMPLE_S = 5.0
SPACE_S = 1.0  # between two looks at how much room the disk has left
SAMPLES = 720  # one hour of history


class WorkspaceStart(msgspec.Struct, frozen=True):
    """The state of the workspace when the sandbox began, to tell what it changed: a layer to
    compare with, or the stamps of the files."""

    base_layer: str | None = None
    stamps: dict[str, Any] = {}


class StartedMachine(msgspec.Struct, frozen=True):
    """A machine that runs, with the spec that is in force in it."""

    machine: Machine
    spec: Spec
    start: WorkspaceStart = WorkspaceStart()


class Box:
    """One sandbox."""

    def __init__(
        self,
        engine: Engine,
        started: StartedMachine,
        policy: Policy,
        sources: BoxSources = DEFAULT_SOURCES,
        opening: Opening = DEFAULT_OPENING,
    ) -> None:
        """Register the sandbox and start its clock."""
        self.engine = engine
        self.spec = started.spec
        self.machine = started.machine
        self.start = started.start
        self.sandbox_id = self.machine.machine_id
        self.parent_id = opening.parent
        self.started_at = time.time()
        self.world: World | None = None
        self._world_source = sources.world
        self._world_bytes = 0  # of the stand-ins' files, when they were last looked at
        self._end_at: float | None = None
        self._time_end: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused_left: float | None = None
        self._samples: deque[Metrics] = deque(maxlen=SAMPLES)
        self._closing: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.guest = LocalGuest(self.machine, self.spec, self._stop_for)
        self._secrets = SandboxSecrets(sources.secrets, engine.home, self.sandbox_id)
        self._gate = SandboxGate(engine.home, self.guest, policy, opening, self._secrets.values)
        self.actions = SandboxActions(self.guest, self._gate, lambda: self.envs(None))
        self.network = SandboxNetwork(
            engine.credentials, self.guest, self._gate, self.actions, self._secrets
        )
        engine.boxes[self.sandbox_id] = self
        self.machine.on_end.append(lambda reason: self._ended())
        if self.spec.limits.time is not None:
            self._time_end = time.monotonic() + self.spec.limits.time
        self.set_timeout(self.spec.timeout_s)
        self._sampler = asyncio.ensure_future(self._sample())
        self._space_watch = asyncio.ensure_future(self._watch_space())

    @cached_property
    def files(self) -> FileCore:
        """Return its files, for callers outside."""
        from paddock.doors.machine.files import FileCore  # an agent at work has its own

        return FileCore(self.guest)

    @cached_property
    def code(self) -> CodeCore:
        """Return its interpreters."""
        from paddock.doors.machine.code import CodeCore

        return CodeCore(self.guest, self.envs, self.engine.home.cache)

    @classmethod
    async def create(
        cls,
        engine: Engine,
        spec: Spec,
        policy: Policy,
        sources: BoxSources = DEFAULT_SOURCES,
        opening: Opening = DEFAULT_OPENING,
    ) -> Box:
        """Create a sandbox with everything that its policy wants in force."""
        if wants_network(policy.network):
            engine.credentials.prepare()  # a machine boots meanwhile
        started = await cls._start_machine(engine, spec, policy)
        box = await cls._make(engine, started, policy, sources, opening)
        return await box._connected(None)

    @classmethod
    async def _make(
        cls,
        engine: Engine,
        started: StartedMachine,
        policy: Policy,
        sources: BoxSources = DEFAULT_SOURCES,
        opening: Opening = DEFAULT_OPENING,
    ) -> Box:
        try:
            return cls(engine, started, policy, sources, opening)
        except BaseException:
            await started.machine.stop("its policy cannot be enforced")
            raise

    async def _connected(self, parent: Box | None) -> Box:
        try:
            if parent is None:
                home, policy = self.engine.home, self.actions.policy
                self.world = await self._world_source.open(home, self.sandbox_id, policy)
            if self.world is not None:
                self._world_bytes = await offload(files_bytes, self.world.directory)
            await self.network.open(self.world, None if parent is None else parent._secrets)
        except BaseException:
            await self.end("its world or its network could not be opened")
            raise
        return self

    @classmethod
    async def _start_machine(cls, engine: Engine, spec: Spec, policy: Policy) -> StartedMachine:
        if spec.mounts:
            spec = await offload(resolved, engine.home, spec)
            spec = await offload(with_read_only_files, spec, policy)
        driver = await engine.driver()
        if spec.is_poolable:
            machine = await engine.pool.take(spec)
            if machine is None:
                machine = await driver.start(spec, allocate(engine.home, new_id(), spec))
            return StartedMachine(machine, spec)
        name = new_id()
        start = WorkspaceStart()
        async with driver.prepared(name):
            path = driver.layers.create(name, spec.limits.disk, LAYER_OWNER)
            if spec.snapshot is not None:
                await offload(restore, engine.home, spec.snapshot, driver.layers, name)
                start = WorkspaceStart(stamps=await offload(stamps_of, path))
            allocation = allocate(engine.home, name, spec)
            machine = await driver.start(spec, allocation, is_prepared=True)
        return StartedMachine(machine, spec, start)

    @property
    def channel(self) -> Channel:
        """Return the way to the guest; refused while paused or ended."""
        return self.guest.channel

    @property
    def failure(self) -> HostCannot | None:
        """Return why the host could not go on, if it could not."""
        return self.guest.failure

    @property
    def state(self) -> str:
        if self.machine.ended_by is not None:
            return "ended"
        return "paused" if self.guest.is_paused else "running"

    @property
    def layers(self) -> Layers:
        return self.machine.layers

    def alerts(self) -> list[RaisedAlert]:
        """Return what somebody should look at, oldest first."""
        return self._gate.alerts()

    def envs(self, more: dict[str, str] | None) -> dict[str, str]:
        return self.network.envs({**dict(self.spec.envs), **(more or {})})

    def set_timeout(self, timeout_s: float) -> None:
        """Let the sandbox end by itself after this; `limits.time` stays the ceiling."""
        self._end_at = time.monotonic() + timeout_s
        if self._timer is not None:
            self._timer.cancel()
        ends = [t for t in (self._end_at, self._time_end) if t is not None]
        soonest = min(ends)
        reason = "time limit" if soonest == self._time_end else "timeout"
        delay = soonest - time.monotonic()
        self._timer = self.engine.loop.call_later(delay, self._time_is_up, reason)

    async def pause(self) -> None:
        """Freeze everything inside. A paused sandbox does not use up its time."""
        await self.guest.pause()
        if self._timer is not None and self._end_at is not None:
            self._timer.cancel()
            self._paused_left = self._end_at - time.monotonic()

    async def resume(self) -> None:
        """Let a paused sandbox go on."""
        if await self.guest.resume():
            self.set_timeout(self._paused_left or self.spec.timeout_s)

    async def end(self, reason: str) -> None:
        """End everything inside, and wait until the journal is closed."""
        await self.network.close()
        await self.machine.stop(reason)
        self._ended()
        await self.closed()

    def fail(self, failure: HostCannot) -> None:
        """End the sandbox because its host cannot record it any more. May come from any thread."""
        self.guest.fail(failure)

    def _stop_for(self, failure: HostCannot) -> None:
        if self.machine.ended_by is None:
            self._stopping = asyncio.ensure_future(self.end(failure.message))

    def still(self) -> AbstractAsyncContextManager[None]:
        """Within this nothing inside runs and nothing is started: see `LocalGuest.still`."""
        return self.guest.still()

    async def closed(self) -> None:
        """Return when the journal is closed, whatever ended the sandbox."""
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def metrics(self) -> Metrics:
        if not self.guest.is_paused:
            _ = self.channel  # raises when it has ended
        sample = await self.machine.stats()
        self._samples.append(sample)
        return sample

    def history(self) -> list[Metrics]:
        return list(self._samples)

    def info(self) -> SandboxInfo:
        ends = [t for t in (self._end_at, self._time_end) if t is not None]
        left = min(ends) - time.monotonic() if ends else None
        end = None if left is None or self.state != "running" else time.time() + left
        return SandboxInfo(
            sandbox_id=self.sandbox_id,
            state=self.state,
            template=self.spec.template,
            started_at=datetime.fromtimestamp(self.started_at, UTC),
            end_at=None if end is None else datetime.fromtimestamp(end, UTC),
            limits=msgspec.structs.asdict(self.spec.limits),
            enforcement=dict(self.machine.enforcement),
            metadata=dict(self.spec.metadata),
            hostname=self.sandbox_id,
            uid=self.machine.uid,
            ended_by=self.machine.ended_by,
            parent_id=self.parent_id,
        )

    async def fork(self, count: int) -> list[Box]:
        """Make sandboxes with the files of this moment; processes and identities stay behind."""
        layers = self.layers
        base, names = f"base-{int(time.time())}-{new_id()}", [new_id() for _ in range(count)]
        driver = await self.engine.driver()
        async with _copying(self.engine.home):
            async with self.still():  # files and world of one moment
                worlds = await fork_worlds(self.world, self.engine.home.worlds, names)
                try:
                    await offload(layers.fork, self.machine.layer, base, self.spec.limits.disk)
                except BaseException:
                    await discard_worlds(worlds)
                    raise
            with self.engine.keeping(base, layers):
                made = await asyncio.gather(
                    *(self._fork_one(driver, base, name, worlds) for name in names),
                    return_exceptions=True,
                )
        await discard_worlds(worlds)
        failed = [m for m in made if isinstance(m, BaseException)]
        if failed:
            for box in made:
                if isinstance(box, Box):
                    await box.end("a sibling fork failed")
            raise failed[0]
        return [m for m in made if isinstance(m, Box)]

    async def _fork_one(
        self, driver: Driver, base: str, name: str, worlds: dict[str, World]
    ) -> Box:
        layers = self.layers
        spec = msgspec.structs.replace(self.spec, snapshot=None)
        kept = base if layers.is_copy_on_write else None
        async with driver.prepared(name, base=kept):
            path = await offload(layers.fork, base, name, spec.limits.disk)
            await offload(renew_work, path)
            start = WorkspaceStart(kept) if kept else WorkspaceStart(stamps=stamps_of(path))
            allocation = allocate(self.engine.home, name, spec, base=kept)
            machine = await driver.start(spec, allocation, is_prepared=True)
        opening = Opening(parent=self.sandbox_id, fault_counts=self._gate.fault_counts())
        started = StartedMachine(machine, spec, start)
        box = await Box._make(self.engine, started, self.actions.policy, opening=opening)
        box.world = worlds.pop(name, None)
        if start.base_layer is not None:
            self.engine.keep(base)
        return await box._connected(self)

    async def snapshot(self, name: str | None = None) -> str:
        """Save the files of this moment, content-addressed; the sandbox is still only briefly."""
        layers, store = self.layers, snapshots_of(self.engine.home)
        if name is not None:
            await offload(store.check_name, identifier(name, "snapshot"))
        copy = f"saving-{int(time.time())}-{new_id()}"
        async with _copying(self.engine.home):
            async with self.still():
                await offload(layers.fork, self.machine.layer, copy, self.spec.limits.disk)
            meta = {"template": self.spec.template, "mounts": [m.target for m in self.spec.mounts]}
            try:
                return await offload(store.save, layers.path(copy), meta=meta, name=name)
            finally:
                await offload(layers.destroy, copy)

    def _time_is_up(self, reason: str) -> None:
        self._stopping = asyncio.ensure_future(self.end(reason))

    def _ended(self) -> None:
        if self.engine.boxes.pop(self.sandbox_id, None) is None:
            return
        reason = self.machine.ended_by or "it ended"
        self._closing = asyncio.ensure_future(self._close(reason))
        self.engine.remember(self._closing)
        if self.start.base_layer is not None:
            self.engine.release(self.start.base_layer, self.layers)
        if self._timer is not None:
            self._timer.cancel()
        for watch in (self._sampler, self._space_watch):
            watch.cancel()
            self.engine.remember(watch)

    async def _close(self, reason: str) -> None:
        await self.network.close()  # first: what is under way then has an end to record
        try:
            if self.world is not None:
                await close_world(self.world, lambda ended: self._gate.gate.record(ended))
        finally:
            await self._gate.close(reason)

    async def _watch_space(self) -> None:
        """End the sandbox when the disk is full: a run that went on would lose what it does."""
        while self.machine.ended_by is None:
            await asyncio.sleep(SPACE_S)
            try:
                check_space(self.engine.home.root)
            except OutOfSpace as full:
                self.fail(full)
                return
            except OSError:
                continue  # whoever writes there next says what is wrong

    async def _sample(self) -> None:
        while self.machine.ended_by is None:
            await asyncio.sleep(SAMPLE_S)
            if not self.machine.is_frozen:
                with contextlib.suppress(SandboxError, OSError, asyncio.TimeoutError):
                    self._samples.append(await self.machine.stats())
            await self.count_world()

    async def count_world(self) -> None:
        """Count what stand-ins have kept of what the agent sent them for the run's budget."""
        if self.world is not None:
            size = await offload(files_bytes, self.world.directory)
            self._gate.count_stored(max(size - self._world_bytes, 0))
            self._world_bytes = max(size, self._world_bytes)


@contextlib.asynccontextmanager
async def _copying(home: Home) -> AsyncIterator[None]:
    """Within this copies of layers are not swept by other processes."""
    with contextlib.ExitStack() as lock:
        await offload(lock.enter_context, copies_lock(home).shared())
        yield
