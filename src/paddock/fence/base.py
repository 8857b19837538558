"""What every fence driver offers: probe what can be enforced, start a machine, hold it, end it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from paddock.fence.channel import Channel
from paddock.model.results import Metrics
from paddock.model.spec import Limits, Spec


class Finding(msgspec.Struct, frozen=True):
    """One thing a driver can or cannot enforce here: by what, or why not and what would fix it."""

    name: str
    is_enforced: bool
    by: str
    why_not: str | None = None
    fix: str | None = None


class Probe(msgspec.Struct, frozen=True):
    """What one driver found on this host."""

    driver: str
    findings: tuple[Finding, ...] = ()

    @property
    def is_usable(self) -> bool:
        return all(f.is_enforced for f in self.findings if f.name in ("isolation", "seccomp"))


class Place(msgspec.Struct, frozen=True):
    """Where a machine's own state lies on the host, and how others know it."""

    machine_id: str
    layer: str  # host path of the sandbox's own writable layer
    hostname: str
    metadata: dict[str, str] = {}
    quotas: dict[str, int] = {}  # of mounted volumes, by layer
    base: str | None = None  # a layer that must outlive this machine, to compare with


class Machine(Protocol):
    """A running fence. Everything above it is spoken through `channel`."""

    machine_id: str
    channel: Channel
    enforcement: dict[str, str]
    uid: int

    async def freeze(self) -> None: ...

    async def thaw(self) -> None: ...

    async def stats(self) -> Metrics: ...

    async def set_limits(self, limits: Limits) -> None: ...

    async def stop(self, reason: str) -> None: ...


class Driver(Protocol):
    """A kind of fence."""

    name: str

    def probe(self) -> Probe: ...

    async def start(self, spec: Spec, place: Place) -> Machine: ...
