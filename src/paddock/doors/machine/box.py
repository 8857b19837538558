"""The core of a sandbox: its machine, its clock, its forks and snapshots.

It runs on the engine's loop; callers meet it through the faces in `sandbox`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.doors.machine.actions import Opening, Passage
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.layer_setup import place, renew_work, restore, snapshots_of, stamps_of
from paddock.doors.machine.network.sandbox_network import BoxNetwork, prepare_door, wants_network
from paddock.doors.machine.read_only_files import with_read_only_files
from paddock.doors.machine.sources import BoxSources
from paddock.doors.machine.worlds import close_world, discard_worlds, fork_worlds
from paddock.fence.channel import Channel
from paddock.fence.container.driver import ContainerDriver
from paddock.fence.container.keeper_protocol import LAYER_OWNER
from paddock.fence.container.machine import ContainerMachine
from paddock.fence.mount_sources import resolved
from paddock.fence.offload import offload
from paddock.model.errors import Conflict, HostCannot, OutOfSpace, SandboxDied, SandboxError
from paddock.model.results import Metrics, SandboxInfo
from paddock.model.spec import Spec, identifier
from paddock.policy.decide import Policy
from paddock.state.disk_space import check_space, files_bytes
from paddock.state.home import Home, new_id
from paddock.state.layers.layers import Layers, copies_lock

if TYPE_CHECKING:
    from paddock.doors.machine.files import FileCore
    from paddock.world.world import World

DEFAULT_SOURCES = BoxSources()
DEFAULT_OPENING = Opening()
SAMPLE_S = 5.0
SPACE_S = 1.0  # between two looks at how much room the disk has left
SAMPLES = 720  # one hour of history


class Start(msgspec.Struct):
    """What the workspace was when the sandbox began, to tell what it changed."""

    base_layer: str | None = None
    stamps: dict[str, Any] = {}


class Box:
    """One sandbox."""

    def __init__(
        self,
        engine: Engine,
        spec: Spec,
        machine: ContainerMachine,
        policy: Policy,
        sources: BoxSources = DEFAULT_SOURCES,
        opening: Opening = DEFAULT_OPENING,
    ) -> None:
        self.engine = engine
        self.spec = spec
        self.machine = machine
        self.sandbox_id = machine.machine_id
        self.contexts: dict[str, Any] = {}
        self.start = Start()
        self.parent_id: str | None = None
        self.started_at = time.time()
        self._end_at: float | None = None
        self._time_end: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._hits: dict[str, int] = {}
        self._samples: deque[Metrics] = deque(maxlen=SAMPLES)
        self._sampler: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._space_watch: asyncio.Task[None] | None = None
        self.failure: HostCannot | None = None  # of the host: why it could not go on
        self._is_paused = False  # by its owner: not while it stands still for a fork or snapshot
        self._paused_left: float | None = None
        self._freezing = asyncio.Lock()  # one at a time freezes, thaws, or needs it to be frozen
        self.server: Any = None
        self.world: World | None = None
        self._world_source = sources.world
        self._world_bytes = 0  # of the stand-ins' files, when they were last looked at
        self.network = BoxNetwork(self, sources.secrets)
        self.passage = Passage(self, policy, opening)

    @cached_property
    def files(self) -> FileCore:
        """Its files, for callers outside."""
        from paddock.doors.machine.files import FileCore  # an agent at work has its own

        return FileCore(self)

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
            prepare_door(engine)
        spec, machine, start = await cls._start_machine(engine, spec, policy)
        box = cls(engine, spec, machine, policy, sources, opening)
        box._begin(start)
        return await box._connected(None)

    async def _connected(self, parent: Box | None) -> Box:
        try:
            if parent is None:
                home, policy = self.engine.home, self.passage.policy
                self.world = await self._world_source.open(home, self.sandbox_id, policy)
            if self.world is not None:
                self._world_bytes = await offload(files_bytes, self.world.directory)
            await self.network.open(None if parent is None else parent.network)
        except BaseException:
            await self.end("its world or its network could not be opened")
            raise
        return self

    @classmethod
    async def _start_machine(
        cls, engine: Engine, spec: Spec, policy: Policy
    ) -> tuple[Spec, ContainerMachine, Start]:
        if spec.mounts:
            spec = await offload(resolved, engine.home, spec)
            spec = await offload(with_read_only_files, spec, policy)
        driver = await engine.driver()
        if spec.is_poolable:
            machine = await engine.pool.take(spec)
            if machine is None:
                machine = await driver.start_new(spec, place(engine.home, new_id(), spec))
            return spec, machine, Start()
        name = new_id()
        layers = driver.link.layers
        start = Start()
        async with driver.prepared(name):
            path = layers.create(name, spec.limits.disk, LAYER_OWNER)
            if spec.snapshot is not None:
                await offload(restore, engine, spec.snapshot, layers, name)
                start.stamps = await offload(stamps_of, path)
            machine = await driver.start(spec, place(engine.home, name, spec))
        return spec, machine, start

    def _begin(self, start: Start) -> None:
        """Register the sandbox and start its clock."""
        self.start = start
        self.engine.boxes[self.sandbox_id] = self
        self.machine.on_end.append(lambda reason: self._ended())
        if self.spec.limits.time is not None:
            self._time_end = time.monotonic() + self.spec.limits.time
        self.set_timeout(self.spec.timeout_s)
        self._sampler = asyncio.ensure_future(self._sample())
        self._space_watch = asyncio.ensure_future(self._watch_space())

    @property
    def channel(self) -> Channel:
        """The way to the guest; refused while paused, so that no call waits for a thaw. While it
        stands still for a fork or a snapshot, requests are taken and wait (`still`)."""
        if self.failure is not None:
            raise self.failure
        if self.machine.ended_by is not None:
            raise SandboxDied(self.sandbox_id, self.machine.ended_by)
        if self._is_paused:
            raise Conflict(f"sandbox {self.sandbox_id} is paused", hint="call resume() first")
        return self.machine.channel

    @property
    def state(self) -> str:
        if self.machine.ended_by is not None:
            return "ended"
        return "paused" if self._is_paused else "running"

    @property
    def layers(self) -> Layers:
        layers: Layers = self.machine.layers
        return layers

    def envs(self, more: dict[str, str] | None) -> dict[str, str]:
        return self.network.envs({**dict(self.spec.envs), **(more or {})})

    def set_timeout(self, timeout_s: float) -> None:
        """The sandbox ends by itself after this; `limits.time` stays the ceiling."""
        self._end_at = time.monotonic() + timeout_s
        if self._timer is not None:
            self._timer.cancel()
        moments = [t for t in (self._end_at, self._time_end) if t is not None]
        soonest = min(moments)
        reason = "time limit" if soonest == self._time_end else "timeout"
        delay = soonest - time.monotonic()
        self._timer = self.engine.loop.call_later(delay, self._time_is_up, reason)

    async def pause(self) -> None:
        async with self._freezing:
            _ = self.channel
            await self.machine.freeze()
            self._is_paused = True
            if self._timer is not None and self._end_at is not None:
                self._timer.cancel()  # a paused sandbox does not use up its time
                self._paused_left = self._end_at - time.monotonic()

    async def resume(self) -> None:
        async with self._freezing:
            if self.machine.ended_by is not None:
                raise SandboxDied(self.sandbox_id, self.machine.ended_by)
            if self._is_paused:
                await self.machine.thaw()
                self._is_paused = False
                self.set_timeout(self._paused_left or self.spec.timeout_s)

    async def end(self, reason: str) -> None:
        await self.network.close()
        await self.machine.stop(reason)
        self._ended()
        await self.closed()

    def fail(self, failure: HostCannot) -> None:
        """End the sandbox because its host cannot record it any more. May come from any thread;
        the first failure is the one that callers are told."""
        if self.failure is None:
            self.failure = failure
            self.engine.loop.call_soon_threadsafe(self._stop_for, failure)

    def _stop_for(self, failure: HostCannot) -> None:
        if self.machine.ended_by is None:
            self._stopping = asyncio.ensure_future(self.end(failure.message))

    async def closed(self) -> None:
        """Returns when the journal is closed, whatever ended the sandbox."""
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def limits_hit(self, ending: dict[str, Any]) -> list[str]:
        """Which limits have bitten since the last ask; told to the command that ended now."""
        if self.machine.ended_by is not None:
            return []
        with contextlib.suppress(OSError):
            hits = self.machine.hits()
            for name, count in (ending.get("hits") or {}).items():
                hits[name] = hits.get(name, 0) + int(count)
            new = [n for n, count in hits.items() if count > self._hits.get(n, 0)]
            self._hits = hits
            if ending.get("exit") != 0 and "disk" not in new and await self.machine.is_disk_full():
                new.append("disk")
            return new
        return []

    async def metrics(self) -> Metrics:
        _ = self.channel if not self._is_paused else None
        sample = await self.machine.stats()
        self._samples.append(sample)
        return sample

    def history(self) -> list[Metrics]:
        return list(self._samples)

    def info(self) -> SandboxInfo:
        moments = [t for t in (self._end_at, self._time_end) if t is not None]
        left = min(moments) - time.monotonic() if moments else None
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

    @contextlib.asynccontextmanager
    async def still(self) -> Any:
        """Nothing inside runs within this, and nothing is started: calls that come meanwhile wait
        until it is over. What was paused before stays paused after, and refuses calls."""
        if self.machine.ended_by is not None:
            raise SandboxDied(self.sandbox_id, self.machine.ended_by)
        async with self._freezing:
            if self._is_paused:
                yield
                return
            with self.machine.holding_calls():
                await self.machine.freeze()
                try:
                    yield
                finally:
                    if self.machine.ended_by is None:
                        await self.machine.thaw()

    async def fork(self, count: int) -> list[Box]:
        """Sandboxes with the files of this moment; processes and identities stay behind."""
        layers = self.layers
        base, names = f"base-{int(time.time())}-{new_id()}", [new_id() for _ in range(count)]
        driver = await self.engine.driver()
        async with _copying(self.engine.home):
            async with self.still():  # files and world of one moment
                worlds = await fork_worlds(self, names)
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
        self, driver: ContainerDriver, base: str, name: str, worlds: dict[str, World]
    ) -> Box:
        layers = self.layers
        spec = msgspec.structs.replace(self.spec, snapshot=None)
        kept = base if layers.is_copy_on_write else None
        async with driver.prepared(name, base=kept):
            path = await offload(layers.fork, base, name, spec.limits.disk)
            await offload(renew_work, path)
            start = Start(kept) if kept else Start(None, stamps_of(path))
            machine = await driver.start(spec, place(self.engine.home, name, spec, base=kept))
        box = Box(self.engine, spec, machine, self.passage.policy)
        box._begin(start)
        box.parent_id = self.sandbox_id
        box.world = worlds.pop(name, None)
        box.passage.go_on_from(self.passage)
        if start.base_layer is not None:
            self.engine.keep(base)
        return await box._connected(self)

    async def snapshot(self, name: str | None = None) -> str:
        """Saves the files of this moment, content-addressed; the sandbox is still only briefly."""
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
        if self._sampler is not None:
            self._sampler.cancel()
            self.engine.remember(self._sampler)
        if self._space_watch is not None:
            self._space_watch.cancel()
            self.engine.remember(self._space_watch)
        if self.server is not None:
            self.server.close()

    async def _close(self, reason: str) -> None:
        await self.network.close()  # first: what is under way then has an end to record
        try:
            await close_world(self)
        finally:
            await self.passage.close(reason)

    async def _watch_space(self) -> None:
        """A run that goes on while its disk is full loses what it does."""
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
            self.passage.count_stored(max(size - self._world_bytes, 0))
            self._world_bytes = max(size, self._world_bytes)


@contextlib.asynccontextmanager
async def _copying(home: Home) -> AsyncIterator[None]:
    """Keeps copies of layers from being swept by other processes."""
    with contextlib.ExitStack() as lock:
        await offload(lock.enter_context, copies_lock(home).shared())
        yield
