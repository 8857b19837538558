"""The way to the guest of one sandbox: what commands, files, cells and actions need of it.

There are two ways. `LocalGuest` speaks to a machine of this process; it refuses calls while the
sandbox is paused or has ended, so that no call waits for a thaw that may never come. `RemoteGuest`
(in `remote`) speaks through the process that holds the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any

from paddock.fence.channel import Channel
from paddock.fence.driver import Machine
from paddock.model.errors import Conflict, HostCannot, SandboxDied
from paddock.model.spec import Spec


class Guest(ABC):
    """The guest of one sandbox, as callers reach it."""

    sandbox_id: str
    spec: Spec

    @property
    @abstractmethod
    def channel(self) -> Channel:
        """Return the channel. Raises Conflict, SandboxDied or HostCannot when nobody answers."""

    @abstractmethod
    async def limits_hit(self, ending: dict[str, Any]) -> list[str]:
        """Return which limits were reached since the last call, for the command that ended now."""


class LocalGuest(Guest):
    """The guest of a machine of this process. It can be paused, and held still for a moment."""

    def __init__(
        self, machine: Machine, spec: Spec, on_failure: Callable[[HostCannot], None]
    ) -> None:
        """`on_failure` is called once, on the machine's event loop, when the host fails."""
        self.machine = machine
        self.spec = spec
        self.sandbox_id = machine.machine_id
        self.failure: HostCannot | None = None  # of the host: why the sandbox could not go on
        self.is_paused = False  # by its owner: not while it stands still for a fork or snapshot
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._freezing = asyncio.Lock()  # one at a time freezes, thaws, or needs it to be frozen
        self._hits: dict[str, int] = {}

    @property
    def channel(self) -> Channel:
        # While it stands still for a fork or a snapshot, requests are taken and wait (`still`).
        if self.failure is not None:
            raise self.failure
        self.check_alive()
        if self.is_paused:
            raise Conflict(f"sandbox {self.sandbox_id} is paused", hint="call resume() first")
        return self.machine.channel

    def check_alive(self) -> None:
        """Raise SandboxDied if the machine has ended."""
        if self.machine.ended_by is not None:
            raise SandboxDied(self.sandbox_id, self.machine.ended_by)

    def fail(self, failure: HostCannot) -> None:
        """End the sandbox because its host cannot record it any more. May come from any thread;
        the first failure is the one that callers are told."""
        if self.failure is None:
            self.failure = failure
            self._loop.call_soon_threadsafe(self._on_failure, failure)

    async def pause(self) -> None:
        """Stop everything inside until `resume`, and refuse calls meanwhile."""
        async with self._freezing:
            _ = self.channel
            await self.machine.freeze()
            self.is_paused = True

    async def resume(self) -> bool:
        """Let everything go on; return whether it was paused."""
        async with self._freezing:
            self.check_alive()
            was_paused = self.is_paused
            if was_paused:
                await self.machine.thaw()
                self.is_paused = False
            return was_paused

    @contextlib.asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Within this nothing inside runs and nothing is started: calls that come meanwhile wait
        until it is over. What was paused before stays paused after, and refuses calls."""
        self.check_alive()
        async with self._freezing:
            if self.is_paused:
                yield
                return
            with self.machine.holding_calls():
                await self.machine.freeze()
                try:
                    yield
                finally:
                    if self.machine.ended_by is None:
                        await self.machine.thaw()

    async def limits_hit(self, ending: dict[str, Any]) -> list[str]:
        if self.machine.ended_by is not None:
            return []
        with contextlib.suppress(OSError):
            hits = self.machine.hits()
            for name, count in (ending.get("hits") or {}).items():
                hits[name] = hits.get(name, 0) + int(count)
            reached = [name for name, count in hits.items() if count > self._hits.get(name, 0)]
            self._hits = hits
            has_failed = ending.get("exit") != 0
            if has_failed and "disk" not in reached and await self.machine.is_disk_full():
                reached.append("disk")
            return reached
        return []
