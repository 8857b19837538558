"""What the paddock file says about the world: who stands in for whom. Values only; the stand-ins
themselves live in `paddock.world`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.action import Action, Effect, Kind
from paddock.model.hosts import HostPattern
from paddock.policy.globs import any_of
from paddock.policy.network import Destination, NetworkTerms, SecretTerms

DRAFT = "draft"  # the service whose reads are real


class RequestPattern(msgspec.Struct, frozen=True):
    """Some requests: a method, and a path with `*`."""

    method: str
    path: str

    def matches(self, method: str, path: str) -> bool:
        return self.method in ("*", method) and any_of([self.path], "/")(path)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class StandInTerms(msgspec.Struct, frozen=True):
    """One stand-in: where it stands, and what it is told."""

    place: str  # as the file writes it, in one spelling: host or host:port
    service: str
    at: tuple[Destination, ...]
    options: Mapping[str, Any] = {}
    writes: tuple[RequestPattern, ...] = ()  # that look like reads; of a draft
    reads: tuple[RequestPattern, ...] = ()  # that look like writes; of a draft

    @property
    def reads_are_real(self) -> bool:
        return self.service == DRAFT

    def is_real(self, action: Action) -> bool:
        """Whether the real system answers after all."""
        return self.reads_are_real and self.effect(action) is Effect.READ

    def effect(self, action: Action) -> Effect:
        """What a request does, where the file knows better than its method."""
        if action.kind is not Kind.HTTP or not (self.writes or self.reads):
            return action.effect
        method, path = str(action.arguments.get("method")), str(action.arguments.get("path"))
        if any(one.matches(method, path) for one in self.writes):
            return max(action.effect, Effect.WRITE, key=list(Effect).index)
        if any(one.matches(method, path) for one in self.reads):
            return Effect.READ
        return action.effect


class WorldTerms(msgspec.Struct, frozen=True, dict=True):
    """All stand-ins of one agent."""

    stand_ins: tuple[StandInTerms, ...] = ()
    seed: int = 0
    clock: str | None = None  # `now`, or the moment at which the world begins

    @cached_property
    def _at(self) -> Mapping[Destination, StandInTerms]:
        return {to: one for one in self.stand_ins for to in one.at}

    @cached_property
    def _same(self) -> Mapping[int, StandInTerms]:
        """The same by identity: to hash a destination takes longer than the rest of a decision
        about it."""
        return {id(to): self._at[to] for one in self.stand_ins for to in one.at}

    @property
    def destinations(self) -> tuple[Destination, ...]:
        return tuple(self._at)

    def at(self, destination: Destination) -> StandInTerms:
        found = self._same.get(id(destination))
        return self._at[destination] if found is None else found


def reach(network: NetworkTerms | None, world: WorldTerms | None) -> NetworkTerms | None:
    """The network with the stand-ins in it. They are there even if nothing else is."""
    if world is None or not world.stand_ins:
        return network
    return replace(network or NetworkTerms(), stand_ins=world.destinations)


def is_rehearsed(secret: SecretTerms, network: NetworkTerms, world: WorldTerms | None) -> bool:
    """Whether no request can carry the secret out: wherever it may go stand-ins answer, at every
    port that can be reached, and none of them reads the real system."""
    stand_ins = () if world is None else world.stand_ins
    standing = [to for one in stand_ins if not one.reads_are_real for to in one.at]
    drafting = [to for one in stand_ins if one.reads_are_real for to in one.at]
    return all(_is_stood_in(host, network, standing, drafting) for host in secret.to)


def _is_stood_in(
    host: HostPattern,
    network: NetworkTerms,
    standing: Sequence[Destination],
    drafting: Sequence[Destination],
) -> bool:
    answering = [one for one in standing if one.host.covers(host)]
    if not answering or any(one.host.overlaps(host) for one in drafting):
        return False
    return all(
        any(one.has_port(real.first_port) and one.has_port(real.last_port) for one in answering)
        for real in network.allow
        if real.host.overlaps(host)
    )


def plain_world(world: WorldTerms) -> dict[str, Any]:
    """As the file writes it."""
    plain: dict[str, Any] = {}
    for one in world.stand_ins:
        words = {"service": one.service, **one.options}
        plain[one.place] = one.service if not one.options else words
    settings: dict[str, Any] = {}
    if world.seed:
        settings["seed"] = world.seed
    if world.clock is not None:
        settings["clock"] = world.clock
    return {**plain, **({"settings": settings} if settings else {})}
