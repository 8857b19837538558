"""Warm machines, booted before they are asked for, so that a sandbox is there at once.

A pooled machine runs with the default spec; taking it applies the limits of the spec at hand. What
it cannot become (own mounts, a template, a snapshot) is started cold.
"""

from __future__ import annotations

import asyncio
import os

import msgspec

from paddock.doors.machine.engine import Engine
from paddock.doors.machine.layer_setup import place
from paddock.fence.container.machine import ContainerMachine
from paddock.model.errors import InvalidInput
from paddock.model.spec import Limits, Spec
from paddock.state.home import new_id

AUTO_AFTER = 3  # this many sandboxes make a process a long-lived host
AUTO_SIZE = 2
AUTO_IDLE_S = 60.0  # without a new sandbox for so long, the automatic pool is given up
_NO_PROGRAM = "/.paddock/none"
_AT_ONCE = 2  # machines booted at the same time: more only delays whoever waits


class Pool:
    """The warm machines of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ready: list[ContainerMachine] = []
        self._size = 0
        self._booting: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._created = 0
        self._is_auto = os.environ.get("PADDOCK_POOL", "auto") == "auto"
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def resize(self, size: int) -> None:
        """Sets how many are kept ready, and waits until they are."""
        if not isinstance(size, int) or size < 0:
            raise InvalidInput(f"pool size: {size!r} must be a whole number from 0")
        self._is_auto = False
        self._size = size
        while len(self._ready) > size:
            await self._ready.pop().stop("the pool became smaller")
        self._refill()
        while len(self._ready) < self._size and self._booting:
            self._changed.clear()
            await self._changed.wait()
        if len(self._ready) < self._size:
            await self._boot()  # fails with the reason

    async def take(self, spec: Spec) -> ContainerMachine | None:
        """A warm machine made to fit `spec`, or None where only a cold one can be."""
        self._count()
        machine = None
        while self._ready and self._fits(spec):
            candidate = self._ready.pop(0)
            if candidate.ended_by is None:
                machine = candidate
                break
        self._engine.loop.call_later(0.02, self._refill)
        if machine is not None and machine.limits != spec.limits:
            await machine.set_limits(spec.limits)
        return machine

    async def drain(self) -> None:
        self._is_closed = True
        self._size = 0
        for task in list(self._booting):
            task.cancel()
        await asyncio.gather(*self._booting, return_exceptions=True)
        while self._ready:
            await self._ready.pop().stop("the pool was closed")

    def _fits(self, spec: Spec) -> bool:
        """Limits that the guest set for itself at boot cannot be changed afterwards."""
        default = Limits()
        driver = self._engine.opened_driver
        if driver is None or not spec.audit_files:
            return False
        if not driver.hierarchy.version or not driver.link.layers.has_hard_quota:
            return msgspec.structs.replace(spec.limits, time=None, output=default.output) == default
        return spec.limits.files == default.files

    def _count(self) -> None:
        self._created += 1
        if not self._is_auto:
            return
        if self._created >= AUTO_AFTER:
            self._size = AUTO_SIZE
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._engine.loop.call_later(AUTO_IDLE_S, self._give_up)

    def _give_up(self) -> None:
        self._size = self._created = 0
        for machine in self._ready:
            task = asyncio.ensure_future(machine.stop("the pool was idle"))
            self._booting.add(task)
            task.add_done_callback(self._booting.discard)
        self._ready = []

    def _refill(self) -> None:
        while (
            not self._is_closed
            and len(self._ready) + len(self._booting) < self._size
            and len(self._booting) < _AT_ONCE
        ):
            task = asyncio.ensure_future(self._boot())
            self._booting.add(task)
            task.add_done_callback(self._booted)

    def _booted(self, task: asyncio.Task[None]) -> None:
        self._booting.discard(task)
        self._changed.set()
        if not task.cancelled() and task.exception() is None:
            self._refill()  # a failure is not repeated: the next cold start will tell it

    async def _boot(self) -> None:
        driver = await self._engine.driver()
        machine = await driver.start_new(Spec(), place(self._engine.home, new_id(), Spec()))
        await _warm_up(machine)
        machine.on_end.append(lambda _: self._lost(machine))
        self._ready.append(machine)

    def _lost(self, machine: ContainerMachine) -> None:
        if machine in self._ready:
            self._ready.remove(machine)


async def _warm_up(machine: ContainerMachine) -> None:
    """Lets the guest do once what its first command will need: a start of a program that is not
    there runs nothing and leaves no trace, and the memory that it touches is then its own."""
    stream = machine.channel.open("exec", argv=[_NO_PROGRAM], cwd="/", env={}, stdin=False)
    with stream:
        await stream.end()
