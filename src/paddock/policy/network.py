"""The section `network` of a paddock file: its values, and how they are written.

No name is resolved and nothing is dialled here. The order of a list means nothing in this section,
so it is lost when the section is read: two files that say the same give equal values.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern, bracketed, canonical_host, is_address
from paddock.policy.graphql import GraphqlEndpoint
from paddock.policy.problems import suggest
from paddock.policy.section import (
    MAX_ENTRIES,
    Cursor,
    Key,
    ListOf,
    Section,
    Value,
    as_given,
    checked_text,
    parse_section,
)

IpNetwork = IPv4Network | IPv6Network

_STAND_INS = IPv4Network("198.18.0.0/15")  # addresses that stand for names inside a sandbox
_BARE_HOST = re.compile(r"[A-Za-z0-9.-]{1,60}")
_ENDING = "only /tcp can be said; paths are for rules, and ranges of addresses cannot be allowed"
_NARROWEST = {4: 8, 6: 7}  # 10.0.0.0/8 and fc00::/7 are the widest private ranges there are


class Mode(enum.StrEnum):
    """The two modes of a network: only what is allowed, or nothing at all."""

    FILTERED = "filtered"
    NONE = "none"


class Transport(enum.StrEnum):
    """The protocols that may be spoken to a destination: those that are recognised by their first
    bytes, or bare TCP."""

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
        text = f"{bracketed(str(self.host))}:{self.first_port}"
        if self.last_port != self.first_port:
            text += f"-{self.last_port}"
        if self.transport is Transport.TCP:
            text += "/tcp"
        return text


class NetworkTerms(msgspec.Struct, frozen=True, dict=True):
    """The network of one agent. What `allow` does not name does not exist for it."""

    mode: Mode = Mode.FILTERED
    allow: tuple[Destination, ...] = ()
    passthrough: tuple[HostPattern, ...] = ()  # TLS is not ended there, so nothing is seen of it
    hosts: Mapping[str, str] = {}  # a name to `address` or `address:port`
    private: tuple[IpNetwork, ...] = ()  # ranges of a private network that names may lead to
    ca: str | None = None  # a file of authorities to trust upstream, besides the usual ones
    graphql: tuple[GraphqlEndpoint, ...] = ()  # where a POST may be a query that reads
    # Destinations that a world answers for, whatever `allow` says of the same host and port.
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
        """Return the entry that allows a canonical host and port. Of several, the most specific:
        the host itself before a wildcard, a longer before a shorter one, few ports before many."""
        if self._world is not None and (stand_in := self._world.covers(host, port)) is not None:
            return stand_in
        for entry in self._exact.get(host, ()):
            if entry.has_port(port):
                return entry
        for entries in self._wildcards(host):
            for entry in entries:
                if entry.has_port(port):
                    return entry
        return None

    def covers_name(self, host: str) -> bool:
        """Return whether a canonical host may be spoken to at any port, so that its name exists."""
        is_stood_in = self._world is not None and self._world.covers_name(host)
        return is_stood_in or host in self._exact or bool(self._wildcards(host))

    def stand_in(self, host: str, port: int) -> Destination | None:
        """Return the destination in the world that answers for a canonical host and port."""
        return None if self._world is None else self._world.covers(host, port)

    def covers_pattern(self, pattern: HostPattern) -> bool:
        """Return whether every host of the pattern may be spoken to at some port."""
        reached = (*self.stand_ins, *self.allow)
        return self.mode is not Mode.NONE and any(entry.host.covers(pattern) for entry in reached)

    def is_passthrough(self, host: str) -> bool:
        """Return whether TLS to a canonical host is left alone."""
        return any(pattern.matches(host) for pattern in self.passthrough)

    def _wildcards(self, host: str) -> list[tuple[Destination, ...]]:
        """Return the entries of wildcards that match the host, those of longer names first."""
        if not self._below:
            return []
        matches, dot = [], host.find(".")
        while dot >= 0:
            entries = self._below.get(host[dot + 1 :])
            if entries is not None:
                matches.append(entries)
            dot = host.find(".", dot + 1)
        return matches


def network_of(value: Mapping[str, Any]) -> NetworkTerms:
    """Return the network that a Python caller describes like a paddock file does. Raises
    InvalidInput."""
    terms: NetworkTerms = parse_section(NETWORK, value, "network")
    return terms


def plain_network(terms: NetworkTerms) -> dict[str, object]:
    """Return the network as the file writes it. What has its usual value is left out."""
    tls: dict[str, object] = {}
    if terms.passthrough:
        tls["passthrough"] = [str(pattern) for pattern in terms.passthrough]
    if terms.ca is not None:
        tls["ca"] = terms.ca
    plain: dict[str, object] = {}
    if terms.mode is not Mode.FILTERED:
        plain["mode"] = terms.mode.value
    if terms.allow:
        plain["allow"] = [str(entry) for entry in terms.allow]
    if tls:
        plain["tls"] = tls
    if terms.hosts:
        plain["hosts"] = dict(terms.hosts)
    if terms.private:
        plain["private"] = [str(network) for network in terms.private]
    if terms.graphql:
        plain["graphql"] = [str(endpoint) for endpoint in terms.graphql]
    return plain


def _by_host(
    allow: tuple[Destination, ...], *, is_wildcard: bool
) -> dict[str, tuple[Destination, ...]]:
    by_host: dict[str, list[Destination]] = {}
    for entry in allow:
        if entry.host.is_wildcard is is_wildcard:
            by_host.setdefault(entry.host.host, []).append(entry)
    return {host: tuple(sorted(entries, key=_fewest_ports)) for host, entries in by_host.items()}


def _fewest_ports(entry: Destination) -> tuple[int, int, str]:
    return entry.last_port - entry.first_port, entry.first_port, entry.transport


def _build_network(
    cursor: Cursor,
    mode: Mode = Mode.FILTERED,
    allow: Iterable[Destination] = (),
    tls: Mapping[str, Any] | None = None,
    hosts: Mapping[str, str] | None = None,
    private: Iterable[IpNetwork] = (),
    graphql: Iterable[GraphqlEndpoint] = (),
) -> NetworkTerms:
    tls = tls or {}
    terms = NetworkTerms(
        mode=mode,
        allow=tuple(sorted(set(allow))),
        passthrough=tuple(sorted(set(tls.get("passthrough", ())))),
        hosts=dict(sorted((hosts or {}).items())),
        private=tuple(sorted(set(private), key=lambda network: (network.version, network))),
        ca=tls.get("ca"),
        graphql=tuple(sorted(set(graphql))),
    )
    _check_allow(terms, cursor.at("allow"))
    return terms


def _check_allow(terms: NetworkTerms, cursor: Cursor) -> None:
    if terms.mode is Mode.NONE and terms.allow:
        hint = "remove it, or write mode: filtered"
        cursor.report("with mode: none nothing can be allowed", hint)
    seen: dict[tuple[HostPattern, int, int], Destination] = {}
    for entry in terms.allow:
        other = seen.setdefault((entry.host, entry.first_port, entry.last_port), entry)
        if other is not entry:
            cursor.report(f"has both {other} and {entry}", "write one of them")


def _parse_mode(value: Any) -> Mode:
    if isinstance(value, str) and value in list(Mode):
        return Mode(value)
    raise InvalidInput(f"{str(value)[:60]!r} is not a mode", hint=suggest(value, list(Mode)))


def parse_destination(value: Any) -> Destination:
    """Read `host:port`, `host:8000-8010`, `[2001:db8::1]:80`, each with `/tcp` or without. Raises
    InvalidInput."""
    text = checked_text(value, "write host:port, as in api.example.com:443")
    if "://" in text:
        raise InvalidInput(f"{text[:60]!r} is a URL", hint=_without_url(text))
    where, slash, transport = text.partition("/")
    if slash and transport != "tcp":
        raise InvalidInput(f"{text[:60]!r} ends in /{transport[:20]}", hint=_ENDING)
    host, ports = _split_port(where)
    pattern = HostPattern.parse(host)
    if is_address(pattern.host):
        _check_address(pattern.host)
    _check_outside(pattern.host)
    first, last = _parse_ports(ports, pattern)
    return Destination(pattern, first, last, Transport.TCP if slash else Transport.ANY)


def _parse_hosts(value: Any) -> dict[str, str]:
    """Read names, and the addresses that are dialled for them."""
    if not isinstance(value, Mapping) or len(value) > MAX_ENTRIES:
        raise InvalidInput("not a mapping of names to addresses", hint="write name: 10.0.0.5")
    addresses = {}
    for name, address in value.items():
        host = canonical_host(name)
        if is_address(host):
            raise InvalidInput(f"{host} is an address", hint="write the name that is staged")
        if host in addresses:
            raise InvalidInput(f"{host} is there twice")
        addresses[host] = _parse_address(address)
    return addresses


def _parse_address(value: Any) -> str:
    """Read `10.0.0.5`, `10.0.0.5:8080`, `::1` or `[::1]:8080`."""
    hint = "write an address, as in 10.0.0.5, 10.0.0.5:8080 or [::1]:8080"
    text = checked_text(value, hint)
    is_bare = text.count(":") > 1 and not text.startswith("[")
    host, port = (text, "") if is_bare else _split_port(text)
    address = canonical_host(host)
    if not is_address(address):
        raise InvalidInput(f"{text[:60]!r} is not an address", hint=hint)
    _check_address(address)
    if not port:
        return address
    return f"{bracketed(address)}:{_parse_port(port, port)}"


def _parse_range(value: Any) -> IpNetwork:
    """Read a range of private addresses, as in 10.0.0.0/8."""
    text = checked_text(value, "write a range, as in 10.1.0.0/16")
    try:
        network = ip_network(text)
    except ValueError as error:
        raise InvalidInput(f"{text[:60]!r}: {str(error)[:80]}", hint="as in 10.1.0.0/16") from None
    if network.prefixlen < _NARROWEST[network.version]:
        raise InvalidInput(f"{text[:60]!r} is most of the internet", hint="as in 10.1.0.0/16")
    return network


def _parse_path(value: Any) -> str:
    text = checked_text(value, "write the path of a file")
    if "\0" in text:
        raise InvalidInput("a path has no NUL in it")
    return text


def _without_url(text: str) -> str:
    """Return what to write in place of a URL, as far as that is known."""
    scheme, _, rest = text.partition("://")
    host, port = rest.partition("/")[0], {"https": 443, "http": 80}.get(scheme.lower())
    if port is None or not _BARE_HOST.fullmatch(host):
        return "write host:port only"
    return f"write {host}:{port}"


def _split_port(where: str) -> tuple[str, str]:
    """Return host and port; an IPv6 address stands in brackets."""
    if where.startswith("["):
        host, _, rest = where.partition("]")
        if rest and not rest.startswith(":"):
            raise InvalidInput(f"{where[:60]!r} is not host:port", hint="write [::1]:80 for IPv6")
        return f"{host}]", rest.removeprefix(":")
    host, _, port = where.rpartition(":") if ":" in where else (where, "", "")
    if ":" in host:
        raise InvalidInput(f"{where[:60]!r} is not host:port", hint="write [::1]:80 for IPv6")
    return host, port


def _parse_ports(text: str, pattern: HostPattern) -> tuple[int, int]:
    if not text:
        raise InvalidInput(f"{pattern} has no port", hint=f"write {Destination(pattern, 443, 443)}")
    first, dash, last = text.partition("-")
    low = _parse_port(first, text)
    high = _parse_port(last, text) if dash else low
    if high < low:
        raise InvalidInput(f"{text[:20]!r} ends before it begins", hint=f"write {high}-{low}")
    return low, high


def _parse_port(text: str, whole: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536:
        return int(text)
    raise InvalidInput(f"{whole[:60]!r} is not a port", hint="write a number, or 8000-8010")


def _check_outside(address: str) -> None:
    """Refuse loopback: it never leaves the sandbox, so that to allow it would do nothing."""
    is_name = address.rpartition(".")[2] == "localhost"
    if is_name or (is_address(address) and ip_address(address).is_loopback):
        raise InvalidInput(
            f"{address} is the sandbox itself, seen from inside",
            hint="give the host's service a name: allow api.local:80, and write"
            " hosts: {api.local: 127.0.0.1:8080} under network",
        )


def _check_address(text: str) -> None:
    address = ip_address(text)
    if isinstance(address, IPv4Address) and address in _STAND_INS:
        raise InvalidInput(f"{text} stands for a name inside a sandbox", hint="write the name")
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise InvalidInput(f"{text} is not the address of one machine")


HOST_SCHEMA = {"type": "string", "minLength": 1, "examples": ["api.example.com", "*.example.com"]}
_ALLOWED_SCHEMA = {
    "type": "string",
    "pattern": ":[0-9]+(-[0-9]+)?(/tcp)?$",
    "examples": ["api.example.com:443", "*.example.com:443", "db.example.com:5432/tcp"],
}
_GRAPHQL_SCHEMA = {
    "type": "string",
    "pattern": "^[^/]+/.*$",
    "examples": ["api.example.com/graphql"],
}
_NOT_NAMED = "leave it out: what allow does not name cannot be reached"

_TLS = Section(
    "Where TLS is not ended, and whom to trust besides the usual authorities.",
    as_given,
    {
        "passthrough": Key(ListOf(Value(HostPattern.parse, HOST_SCHEMA))),
        "ca": Key(Value(_parse_path, {"type": "string"})),
    },
)
NETWORK = Section(
    "What the agent may reach. What is not named does not exist for it.",
    _build_network,
    {
        "mode": Key(Value(_parse_mode, {"enum": [mode.value for mode in Mode]})),
        "allow": Key(
            ListOf(
                Value(parse_destination, _ALLOWED_SCHEMA), hint="write allow: [api.example.com:443]"
            )
        ),
        "tls": Key(_TLS),
        "hosts": Key(
            Value(_parse_hosts, {"type": "object", "additionalProperties": {"type": "string"}}),
            description="addresses that are dialled for names",
        ),
        "private": Key(ListOf(Value(_parse_range, {"type": "string"}))),
        "graphql": Key(
            ListOf(Value(GraphqlEndpoint.parse, _GRAPHQL_SCHEMA)),
            description="where a POST may be a query that reads",
        ),
    },
    hint="write network: {allow: [api.example.com:443]}, or {mode: none} for nothing",
    unknown_hints={"deny": _NOT_NAMED, "block": _NOT_NAMED},
)
