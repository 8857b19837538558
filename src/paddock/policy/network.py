"""What the paddock file says about the network and about secrets, as values. How that is written
lives in `network_words`; nothing here does I/O or knows a secret's value.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Mapping
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network

import msgspec

from paddock.model.hosts import HostPattern
from paddock.policy.graphql import GraphqlEndpoint

IpNetwork = IPv4Network | IPv6Network


class Mode(enum.StrEnum):
    """Whether there is a network at all."""

    FILTERED = "filtered"
    NONE = "none"


class Transport(enum.StrEnum):
    """What may be spoken to a destination: what the first bytes say, or bare TCP as it comes."""

    ANY = "any"
    TCP = "tcp"


class Destination(msgspec.Struct, frozen=True, order=True):
    """Some hosts at some ports that the agent may speak to."""

    host: HostPattern
    first_port: int
    last_port: int
    transport: Transport = Transport.ANY

    def has_port(self, port: int) -> bool:
        return self.first_port <= port <= self.last_port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host.host else str(self.host)
        ports = str(self.first_port)
        if self.last_port != self.first_port:
            ports += f"-{self.last_port}"
        return f"{host}:{ports}" + ("/tcp" if self.transport is Transport.TCP else "")


class NetworkTerms(msgspec.Struct, frozen=True, dict=True):
    """The network of one agent. What `allow` does not name does not exist for it."""

    mode: Mode = Mode.FILTERED
    allow: tuple[Destination, ...] = ()
    passthrough: tuple[HostPattern, ...] = ()  # TLS is not ended there, so nothing is seen of it
    hosts: Mapping[str, str] = {}  # a name to `address` or `address:port`
    private: tuple[IpNetwork, ...] = ()  # ranges of a private network that names may lead to
    ca: str | None = None  # a file of authorities to trust upstream, besides the usual ones
    graphql: tuple[GraphqlEndpoint, ...] = ()  # where a POST may be a query that reads
    # What a world answers for. It holds whatever `allow` says of the same place.
    stand_ins: tuple[Destination, ...] = ()

    # By host, so that the length of the list does not matter to a decision.

    @cached_property
    def _exact(self) -> Mapping[str, tuple[Destination, ...]]:
        return _by_host(self._reached, is_wildcard=False)

    @cached_property
    def _below(self) -> Mapping[str, tuple[Destination, ...]]:
        return _by_host(self._reached, is_wildcard=True)

    @cached_property
    def _world(self) -> NetworkTerms | None:
        return NetworkTerms(self.mode, self.stand_ins) if self.stand_ins else None

    @property
    def _reached(self) -> tuple[Destination, ...]:
        return () if self.mode is Mode.NONE else self.allow

    def covers(self, host: str, port: int) -> Destination | None:
        """The entry that allows a canonical host and port. Of several the one that says most: the
        host itself before a wildcard, a longer before a shorter one, few ports before many."""
        if self._world is not None and (stand_in := self._world.covers(host, port)) is not None:
            return stand_in
        for one in self._exact.get(host, ()):
            if one.has_port(port):
                return one
        for found in self._wildcards(host):
            for one in found:
                if one.has_port(port):
                    return one
        return None

    def covers_name(self, host: str) -> bool:
        """Whether a canonical host may be spoken to at any port, so that its name exists."""
        is_stood_in = self._world is not None and self._world.covers_name(host)
        return is_stood_in or host in self._exact or bool(self._wildcards(host))

    def stand_in(self, host: str, port: int) -> Destination | None:
        """Where in the world a canonical host and port are, if they are there."""
        return None if self._world is None else self._world.covers(host, port)

    def covers_pattern(self, pattern: HostPattern) -> bool:
        """Whether every host of the pattern may be spoken to at some port."""
        reached = (*self.stand_ins, *self.allow)
        return self.mode is not Mode.NONE and any(one.host.covers(pattern) for one in reached)

    def is_passthrough(self, host: str) -> bool:
        """Whether TLS to a canonical host is left alone."""
        return any(one.matches(host) for one in self.passthrough)

    def _wildcards(self, host: str) -> list[tuple[Destination, ...]]:
        if not self._below:
            return []
        found, at = [], host.find(".")
        while at >= 0:
            entry = self._below.get(host[at + 1 :])
            if entry is not None:
                found.append(entry)
            at = host.find(".", at + 1)
        return found


class Source(enum.StrEnum):
    """Where the value of a secret comes from."""

    ENV = "env"
    FILE = "file"
    COMMAND = "command"
    KEYRING = "keyring"


class SecretTerms(msgspec.Struct, frozen=True):
    """A secret that the sandbox knows by a placeholder, and the hosts that get the real value."""

    name: str  # the variable of the environment that holds the placeholder
    source: str  # env:VAR, file:PATH, command:WORDS, keyring:SERVICE/USER
    to: tuple[HostPattern, ...]
    placed: str | None = None  # header:NAME[=SCHEME], basic:USER, query:NAME, body
    # Where the paths of a caller's own words start; those of a paddock file start where it lies.
    base: str | None = None

    @property
    def scheme(self) -> Source:
        return Source(self.source.partition(":")[0])

    @property
    def place(self) -> str:
        """The source without its scheme."""
        return self.source.partition(":")[2]

    @property
    def command(self) -> tuple[str, ...]:
        """The words to run, for a secret that a command tells."""
        return tuple(shlex.split(self.place))

    def is_for(self, host: str) -> bool:
        """Whether a canonical host gets the real value."""
        return any(one.matches(host) for one in self.to)


def plain_network(terms: NetworkTerms) -> dict[str, object]:
    """As the file writes it. What has its usual value is left out."""
    tls: dict[str, object] = {}
    if terms.passthrough:
        tls["passthrough"] = [str(one) for one in terms.passthrough]
    if terms.ca is not None:
        tls["ca"] = terms.ca
    plain: dict[str, object] = {}
    if terms.mode is not Mode.FILTERED:
        plain["mode"] = terms.mode.value
    if terms.allow:
        plain["allow"] = [str(one) for one in terms.allow]
    if tls:
        plain["tls"] = tls
    if terms.hosts:
        plain["hosts"] = dict(terms.hosts)
    if terms.private:
        plain["private"] = [str(one) for one in terms.private]
    if terms.graphql:
        plain["graphql"] = [str(one) for one in terms.graphql]
    return plain


def plain_secret(terms: SecretTerms) -> dict[str, object]:
    """As the file writes it, without its name."""
    plain: dict[str, object] = {"from": terms.source, "to": [str(one) for one in terms.to]}
    return plain if terms.placed is None else {**plain, "as": terms.placed}


def _by_host(
    allow: tuple[Destination, ...], *, is_wildcard: bool
) -> dict[str, tuple[Destination, ...]]:
    found: dict[str, list[Destination]] = {}
    for one in allow:
        if one.host.is_wildcard is is_wildcard:
            found.setdefault(one.host.host, []).append(one)
    return {host: tuple(sorted(ones, key=_fewest_ports)) for host, ones in found.items()}


def _fewest_ports(one: Destination) -> tuple[int, int, str]:
    return one.last_port - one.first_port, one.first_port, one.transport
