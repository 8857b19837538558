"""Warm machines, booted before they are asked for, so that a sandbox is there at once.

A pooled machine runs with the default spec; taking it applies the limits of the spec at hand. What
it cannot become (own mounts, a template, a snapshot) is started cold.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from paddock.fence.driver import Allocation, Driver, Machine
from paddock.model.errors import InvalidInput
from paddock.model.spec import Spec
from paddock.state.home import new_id

AUTO_AFTER = 3  # this many sandboxes make a process a long-lived host
AUTO_SIZE = 2
AUTO_IDLE_S = 60.0  # without a new sandbox for so long, the automatic pool is given up
_NO_PROGRAM = "/.paddock/none"
_AT_ONCE = 2  # machines booted at the same time: more only delays whoever waits


class MachinePool:
    """The warm machines of one engine."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        driver: Callable[[], Awaitable[Driver]],
    ) -> None:
        """`driver` opens the driver, or returns the open one. Nothing is started before the pool
        is asked for, or the process proves long-lived."""
        self._loop = loop
        self._driver = driver
        self._ready: list[Machine] = []
        self._size = 0
        self._booting: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._created = 0
        self._is_auto = os.environ.get("PADDOCK_POOL", "auto") == "auto"
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def resize(self, size: int) -> None:
        """Set how many are kept ready, and wait until they are."""
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

    async def take(self, spec: Spec) -> Machine | None:
        """Return a warm machine made to fit `spec`, or None where only a cold one can be."""
        self._count()
        machine = None
        driver = await self._driver()
        can_serve = spec.audit_files and driver.can_adapt(spec.limits)
        while self._ready and can_serve:
            candidate = self._ready.pop(0)
            if candidate.ended_by is None:
                machine = candidate
                break
        self._loop.call_later(0.02, self._refill)
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

    def _count(self) -> None:
        self._created += 1
        if not self._is_auto:
            return
        if self._created >= AUTO_AFTER:
            self._size = AUTO_SIZE
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._loop.call_later(AUTO_IDLE_S, self._give_up)

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
        driver = await self._driver()
        name = new_id()
        machine = await driver.start(Spec(), Allocation(name, name, name))
        await _warm_up(machine)
        machine.on_end.append(lambda _: self._lost(machine))
        self._ready.append(machine)

    def _lost(self, machine: Machine) -> None:
        if machine in self._ready:
            self._ready.remove(machine)


async def _warm_up(machine: Machine) -> None:
    """Lets the guest do once what its first command will need: a start of a program that is not
    there runs nothing and leaves no trace, and the memory that it touches is then its own."""
    stream = machine.channel.open("exec", argv=[_NO_PROGRAM], cwd="/", env={}, stdin=False)
    with stream:
        await stream.end()
