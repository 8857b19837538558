"""Which addresses belong to the internet, and what the others are. Pure: nothing is looked up.

The ranges are those of IANA's registries for special purposes, and the fixed addresses at which
clouds tell a machine its secrets. They are written out because the standard library's own idea of a
private address differs between its versions.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds
        "169.254.170.2",  # containers of ECS
        "169.254.170.23",  # pods of EKS
        "169.254.42.42",  # Scaleway
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure: of a public range, and reachable from its machines only
        "192.0.0.192",  # Oracle, the older one
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",  # Google
        "fd00:42::42",  # Scaleway
        "fe80::a9fe:a9fe",  # OpenStack
    )
)
_SPECIAL_4 = {
    "0.0.0.0/8": "unspecified",  # connects to this very machine on Linux
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by customers of a provider",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "reserved",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmark",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_SPECIAL_6 = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "private",
    "ff00::/8": "multicast",
    "2001::/23": "reserved",  # Teredo, benchmarks, identifiers: protocols, and no hosts
    "2001:db8::/32": "documentation",
    "3fff::/20": "documentation",
}
_RANGES: dict[int, tuple[tuple[IpNetwork, str], ...]] = {
    version: tuple((ip_network(text), what) for text, what in special.items())
    for version, special in ((4, _SPECIAL_4), (6, _SPECIAL_6))
}
_UNICAST_6 = IPv6Network("2000::/3")  # all that was ever given out; the rest is reserved
_NAT64 = IPv6Network("64:ff9b::/96")
_LOW_32 = (1 << 32) - 1


def address_from(text: str) -> IpAddress:
    """The address that is really meant: one of IPv4 in the clothes of IPv6 is one of IPv4. Raises
    ValueError, also for one with a zone."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise ValueError("an address with a zone is not supported")
        return address.ipv4_mapped or address
    return address


def end_of(address: IpAddress) -> IpAddress:
    """Return the address at which packets to it end up: translated and tunnelled addresses carry
    one of IPv4."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & _LOW_32)
    return address.ipv4_mapped or address.sixtofour or address


def why_not_public(address: IpAddress) -> str | None:
    """Return the kind of an address that is not one of the internet's, or None."""
    end = end_of(address)
    if is_metadata(end):
        return "metadata of the cloud"
    for network, what in _RANGES[end.version]:
        if end in network:
            return what
    is_given_out = isinstance(end, IPv4Address) or end in _UNICAST_6
    return None if is_given_out else "reserved"


def is_metadata(address: IpAddress) -> bool:
    """Return whether a cloud tells a machine its secrets at this address."""
    return address in _METADATA
