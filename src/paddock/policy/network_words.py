"""How the network is written, in a file or by a caller: from plain words to terms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern, canonical_host, is_address
from paddock.policy.graphql import GraphqlEndpoint
from paddock.policy.network import (
    Destination,
    IpNetwork,
    Mode,
    NetworkTerms,
    Transport,
)
from paddock.policy.problems import suggest
from paddock.policy.words import (
    MAX_ENTRIES,
    Complaint,
    each,
    known_keys,
    raise_first,
    text_of,
    within,
)

_STAND_INS = IPv4Network("198.18.0.0/15")  # addresses that stand for names inside a sandbox
_BARE = re.compile(r"[A-Za-z0-9.-]{1,60}")
_ENDING = "only /tcp can be said; paths are for rules, and ranges of addresses cannot be allowed"
_NARROWEST = {4: 8, 6: 7}  # 10.0.0.0/8 and fc00::/7 are the widest private ranges there are


def network_of(words: Mapping[str, Any]) -> NetworkTerms:
    """The network that a caller describes with the words of the file. Raises InvalidInput."""
    given = known_keys(words, ("allow", "tls", "mode", "hosts", "private", "graphql"), ("network",))
    tls = known_keys(given.get("tls", {}), ("passthrough", "ca"), ("network", "tls"))
    terms = network_terms(
        mode=within(("network", "mode"), parse_mode, given.get("mode", "filtered")),
        allow=each(given, "allow", ("network",), parse_destination),
        passthrough=each(tls, "passthrough", ("network", "tls"), HostPattern.parse),
        hosts=within(("network", "hosts"), parse_hosts, given.get("hosts", {})),
        private=each(given, "private", ("network",), parse_range),
        graphql=each(given, "graphql", ("network",), GraphqlEndpoint.parse),
        ca=within(("network", "tls", "ca"), parse_path, tls["ca"]) if "ca" in tls else None,
    )
    raise_first(network_problems(terms))
    return terms


def network_terms(
    *,
    mode: Mode,
    allow: Iterable[Destination],
    passthrough: Iterable[HostPattern] = (),
    hosts: Mapping[str, str] | None = None,
    private: Iterable[IpNetwork] = (),
    ca: str | None = None,
    graphql: Iterable[GraphqlEndpoint] = (),
) -> NetworkTerms:
    """Terms in which the order of lists is gone, because it means nothing."""
    return NetworkTerms(
        mode=mode,
        allow=tuple(sorted(set(allow))),
        passthrough=tuple(sorted(set(passthrough))),
        hosts=dict(sorted((hosts or {}).items())),
        private=tuple(sorted(set(private), key=lambda one: (one.version, one))),
        ca=ca,
        graphql=tuple(sorted(set(graphql))),
    )


def network_problems(terms: NetworkTerms) -> Iterator[Complaint]:
    """What does not fit together."""
    if terms.mode is Mode.NONE and terms.allow:
        yield (("network", "allow"), "with mode: none nothing can be allowed",
               "remove it, or write mode: filtered")  # fmt: skip
    seen: dict[tuple[HostPattern, int, int], Destination] = {}
    for one in terms.allow:
        other = seen.setdefault((one.host, one.first_port, one.last_port), one)
        if other is not one:
            yield ("network", "allow"), f"has both {other} and {one}", "write one of them"


def parse_mode(value: Any) -> Mode:
    if isinstance(value, str) and value in list(Mode):
        return Mode(value)
    raise InvalidInput(f"{str(value)[:60]!r} is not a mode", hint=suggest(value, list(Mode)))


def parse_destination(value: Any) -> Destination:
    """`host:port`, `host:8000-8010`, `[2001:db8::1]:80`, each with `/tcp` or without."""
    text = text_of(value, "write host:port, as in api.example.com:443")
    if "://" in text:
        raise InvalidInput(f"{text[:60]!r} is a URL", hint=_without_url(text))
    where, slash, transport = text.partition("/")
    if slash and transport != "tcp":
        raise InvalidInput(f"{text[:60]!r} ends in /{transport[:20]}", hint=_ENDING)
    host, ports = _parted(where)
    pattern = HostPattern.parse(host)
    if is_address(pattern.host):
        _check_address(pattern.host)
    _check_outside(pattern.host)
    first, last = _ports(ports, pattern)
    return Destination(pattern, first, last, Transport.TCP if slash else Transport.ANY)


def parse_hosts(value: Any) -> dict[str, str]:
    """Names, and the addresses that are dialled for them."""
    if not isinstance(value, Mapping) or len(value) > MAX_ENTRIES:
        raise InvalidInput("not a mapping of names to addresses", hint="write name: 10.0.0.5")
    found = {}
    for name, address in value.items():
        host = canonical_host(name)
        if is_address(host):
            raise InvalidInput(f"{host} is an address", hint="write the name that is staged")
        if host in found:
            raise InvalidInput(f"{host} is there twice")
        found[host] = parse_staged(address)
    return found


def parse_staged(value: Any) -> str:
    """`10.0.0.5`, `10.0.0.5:8080`, `::1` or `[::1]:8080`."""
    hint = "write an address, as in 10.0.0.5, 10.0.0.5:8080 or [::1]:8080"
    text = text_of(value, hint)
    is_bare = text.count(":") > 1 and not text.startswith("[")
    host, port = (text, "") if is_bare else _parted(text)
    address = canonical_host(host)
    if not is_address(address):
        raise InvalidInput(f"{text[:60]!r} is not an address", hint=hint)
    _check_address(address)
    if not port:
        return address
    number = _port(port, port)
    return f"[{address}]:{number}" if ":" in address else f"{address}:{number}"


def parse_range(value: Any) -> IpNetwork:
    """A range of private addresses, as in 10.0.0.0/8."""
    text = text_of(value, "write a range, as in 10.1.0.0/16")
    try:
        found = ip_network(text)
    except ValueError as error:
        raise InvalidInput(f"{text[:60]!r}: {str(error)[:80]}", hint="as in 10.1.0.0/16") from None
    if found.prefixlen < _NARROWEST[found.version]:
        raise InvalidInput(f"{text[:60]!r} is most of the internet", hint="as in 10.1.0.0/16")
    return found


def parse_path(value: Any) -> str:
    text = text_of(value, "write the path of a file")
    if "\0" in text:
        raise InvalidInput("a path has no NUL in it")
    return text


def _without_url(text: str) -> str:
    """What to write in place of a URL, as far as that is known."""
    scheme, _, rest = text.partition("://")
    place, port = rest.partition("/")[0], {"https": 443, "http": 80}.get(scheme.lower())
    if port is None or not _BARE.fullmatch(place):
        return "write host:port only"
    return f"write {place}:{port}"


def _parted(where: str) -> tuple[str, str]:
    """Host and port; an IPv6 address stands in brackets."""
    if where.startswith("["):
        host, _, rest = where.partition("]")
        if rest and not rest.startswith(":"):
            raise InvalidInput(f"{where[:60]!r} is not host:port", hint="write [::1]:80 for IPv6")
        return f"{host}]", rest.removeprefix(":")
    host, _, port = where.rpartition(":") if ":" in where else (where, "", "")
    if ":" in host:
        raise InvalidInput(f"{where[:60]!r} is not host:port", hint="write [::1]:80 for IPv6")
    return host, port


def _ports(text: str, pattern: HostPattern) -> tuple[int, int]:
    if not text:
        raise InvalidInput(f"{pattern} has no port", hint=f"write {Destination(pattern, 443, 443)}")
    first, dash, last = text.partition("-")
    low = _port(first, text)
    high = _port(last, text) if dash else low
    if high < low:
        raise InvalidInput(f"{text[:20]!r} ends before it begins", hint=f"write {high}-{low}")
    return low, high


def _port(text: str, whole: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536:
        return int(text)
    raise InvalidInput(f"{whole[:60]!r} is not a port", hint="write a number, or 8000-8010")


def _check_outside(address: str) -> None:
    """What leads to loopback never leaves the sandbox, so to allow it would do nothing."""
    is_name = address.rpartition(".")[2] == "localhost"
    if is_name or (is_address(address) and ip_address(address).is_loopback):
        raise InvalidInput(
            f"{address} is the sandbox itself, seen from inside",
            hint="give the host's service a name: allow api.local:80, and write"
            " hosts: {api.local: 127.0.0.1:8080} under network",
        )


def _check_address(address: str) -> None:
    found = ip_address(address)
    if isinstance(found, IPv4Address) and found in _STAND_INS:
        raise InvalidInput(f"{address} stands for a name inside a sandbox", hint="write the name")
    if found.is_unspecified or found.is_multicast or address == "255.255.255.255":
        raise InvalidInput(f"{address} is not the address of one machine")
