"""Which addresses are the internet's. Both ends of every special range, and what embeds them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.doors.network.transport.addresses import (
    address_from,
    end_of,
    is_metadata,
    why_not_public,
)


@for_each(
    ("first", "last", "what"),
    [
        ("0.0.0.0", "0.255.255.255", "unspecified"),
        ("10.0.0.0", "10.255.255.255", "private"),
        ("100.64.0.0", "100.127.255.255", "shared by customers of a provider"),
        ("127.0.0.0", "127.255.255.255", "loopback"),
        ("169.254.0.0", "169.254.255.255", "link-local"),
        ("172.16.0.0", "172.31.255.255", "private"),
        ("192.0.0.0", "192.0.0.255", "reserved"),
        ("192.0.2.0", "192.0.2.255", "documentation"),
        ("192.88.99.0", "192.88.99.255", "reserved"),
        ("192.168.0.0", "192.168.255.255", "private"),
        ("198.18.0.0", "198.19.255.255", "benchmark"),
        ("198.51.100.0", "198.51.100.255", "documentation"),
        ("203.0.113.0", "203.0.113.255", "documentation"),
        ("224.0.0.0", "239.255.255.255", "multicast"),
        ("240.0.0.0", "255.255.255.255", "reserved"),
        ("::", "::", "unspecified"),
        ("::1", "::1", "loopback"),
        ("::2", "::ffff", "reserved"),
        ("::127.0.0.1", "::10.0.0.1", "reserved"),
        ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "reserved"),
        ("100::", "100::ffff:ffff:ffff:ffff", "reserved"),
        ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved"),
        ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"),
        ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"),
        ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved"),
        ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private"),
        ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link-local"),
        ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "private"),
        ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"),
    ],
)
def test_a_special_range_is_not_the_internet(first: str, last: str, what: str) -> None:
    assert why_not_public(ip_address(first)) == what
    assert why_not_public(ip_address(last)) == what


@for_each(
    "address",
    [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2000::1",
        "2001:200::",
        "2606:4700::1111",
        "3ffe::1",
        "64:ff9b::1.1.1.1",
        "2002:101:101::1",
    ],
)
def test_an_address_beside_a_special_range_is_the_internet(address: str) -> None:
    assert why_not_public(ip_address(address)) is None


@for_each(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
    ],
)
def test_the_clouds_metadata_is_known_in_every_form(address: str) -> None:
    found = ip_address(address)
    assert is_metadata(end_of(found))
    assert why_not_public(found) == "metadata of the cloud"


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_like_itself(inner: IPv4Address) -> None:
    number = int(inner)
    mapped = IPv6Address(0xFFFF << 32 | number)
    translated = IPv6Address(0x64FF9B << 96 | number)
    tunnelled = IPv6Address(0x2002 << 112 | number << 80 | 1)
    verdicts = {why_not_public(one) for one in (mapped, translated, tunnelled)}
    assert verdicts == {why_not_public(inner)}
    assert address_from(str(mapped)) == inner


@given(st.ip_addresses(v=4))
def test_a_tunnel_by_teredo_is_never_the_internet(inner: IPv4Address) -> None:
    hidden = int(inner) ^ 0xFFFFFFFF
    assert why_not_public(IPv6Address(0x20010000 << 96 | 0x01010101 << 64 | hidden)) == "reserved"


@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_never_the_internet(
    address: IPv4Address | IPv6Address,
) -> None:
    is_special = address.is_private or address.is_multicast or address.is_reserved
    if is_special and end_of(address) == address:
        assert why_not_public(address) is not None


@pytest.mark.parametrize("text", ["", "127.1", "0x7f.0.0.1", "0177.0.0.1", "fe80::1%lo", "a.test"])
def test_another_notation_is_not_an_address(text: str) -> None:
    with pytest.raises(ValueError):
        address_from(text)
