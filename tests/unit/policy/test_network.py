"""How the network is written: what is read, what is refused and with which words."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.action import Stage
from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern
from paddock.policy.decide import Policy
from paddock.policy.file import dump, load
from paddock.policy.network import (
    Destination,
    Mode,
    NetworkTerms,
    Transport,
    network_of,
    parse_destination,
    plain_network,
)
from paddock.policy.problems import PolicyError
from paddock.policy.terms import Terms

HEAD = "version: 1\nagent: a\nstage: broad\n"


@for_each(
    ("text", "host", "ports", "transport"),
    [
        ("api.example.com:443", "api.example.com", (443, 443), Transport.ANY),
        ("API.example.com.:443", "api.example.com", (443, 443), Transport.ANY),
        ("*.internal.example:8000-8010", "*.internal.example", (8000, 8010), Transport.ANY),
        ("db.example:5432/tcp", "db.example", (5432, 5432), Transport.TCP),
        ("10.0.0.5:80", "10.0.0.5", (80, 80), Transport.ANY),
        ("[fd00::1]:80", "fd00::1", (80, 80), Transport.ANY),
        ("[2001:DB8::1]:1-65535/tcp", "2001:db8::1", (1, 65535), Transport.TCP),
        ("[::ffff:10.0.0.5]:80", "10.0.0.5", (80, 80), Transport.ANY),
    ],
)
def test_an_entry_names_hosts_and_ports(
    text: str, host: str, ports: tuple[int, int], transport: Transport
) -> None:
    assert parse_destination(text) == Destination(HostPattern.parse(host), *ports, transport)


@for_each(
    ("text", "hint"),
    [
        ("api.example.com", "write api.example.com:443"),
        ("*.internal.example", "write *.internal.example:443"),
        ("[fd00::1]", "write [fd00::1]:443"),
        ("api.example.com:", "write api.example.com:443"),
        ("api.example.com:*", "write a number"),
        ("api.example.com:https", "write a number"),
        ("api.example.com:0", "write a number"),
        ("api.example.com:65536", "write a number"),
        ("api.example.com:-1", "write a number"),
        ("api.example.com:4٤3", "write a number"),
        ("api.example.com:90-80", "write 80-90"),
        ("api.example.com:443/udp", "only /tcp"),
        ("api.example.com/v1", "only /tcp"),
        ("https://api.example.com", "write api.example.com:443"),
        ("HTTP://api.example.com/v1", "write api.example.com:80"),
        ("https://user:word@api.example.com", "write host:port only"),
        ("ftp://api.example.com", "write host:port only"),
        ("10.0.0.0/8:443", "ranges of addresses cannot be allowed"),
        ("*:443", "name the hosts"),
        ("*.com:443", "a domain you know"),
        ("a.*.example:443", "write *.example.com"),
        ("::1:80", "write [::1]:80"),
        ("[::1]80", "write [::1]:80"),
        ("127.1:80", "four numbers"),
        ("198.18.0.1:3128", "write the name"),
        ("0.0.0.0:80", None),
        ("127.0.0.1:80", "give the host's service a name"),
        ("[::1]:80", "give the host's service a name"),
        ("localhost:80", "give the host's service a name"),
        ("api.localhost:80", "give the host's service a name"),
        ("[::]:80", None),
        ("224.0.0.1:80", None),
        ("user@api.example.com:443", "the name only"),
        (443, "host:port"),
        (None, "host:port"),
        ("a" * 5000, "host:port"),
    ],
)
def test_a_bad_entry_is_refused_with_what_to_write(text: Any, hint: str | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_destination(text)
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize("port", ["https", "*", "0", "65536", "80-"])
def test_a_bad_port_is_said_to_be_one(port: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"{port!r} is not a port")):
        parse_destination(f"api.example.com:{port}")


@for_each(
    ("words", "key"),
    [
        ({"allow": "api.example.com:443"}, "network.allow"),
        ({"allow": ["a.example:1", "b.example"]}, "network.allow[1]"),
        ({"deny": []}, "network.deny"),
        ({"mode": "open"}, "network.mode"),
        ({"mode": "none", "allow": ["a.example:443"]}, "network.allow"),
        ({"allow": ["a.example:443", "a.example:443/tcp"]}, "network.allow"),
        ({"tls": {"passthrough": ["*"]}}, "network.tls.passthrough[0]"),
        ({"tls": {"verify": False}}, "network.tls.verify"),
        ({"tls": {"ca": ""}}, "network.tls.ca"),
        ({"tls": []}, "network.tls"),
        ({"hosts": {"a.example": "b.example"}}, "network.hosts"),
        ({"hosts": {"*.example": "10.0.0.1"}}, "network.hosts"),
        ({"hosts": {"10.0.0.1": "10.0.0.2"}}, "network.hosts"),
        ({"hosts": {"a.example": "10.0.0.1:0"}}, "network.hosts"),
        ({"hosts": {"a.example": "10.0.0.1", "A.example": "10.0.0.2"}}, "network.hosts"),
        ({"private": ["0.0.0.0/0"]}, "network.private[0]"),
        ({"private": ["10.0.0.1/8"]}, "network.private[0]"),
        ({"private": ["10/8"]}, "network.private[0]"),
        ([], "network"),
    ],
)
def test_words_that_are_wrong_name_their_key(words: Any, key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        network_of(words)
    assert caught.value.message.startswith(f"{key}: ")


def test_words_of_a_caller_and_of_a_file_mean_the_same() -> None:
    words = {
        "allow": ["api.example.com:443", "*.internal.example:1-9/tcp", "[fd00::1]:80"],
        "tls": {"passthrough": ["pinned.example"], "ca": "ca.pem"},
        "hosts": {"API.example.com": "127.0.0.1:8443", "b.example": "[::1]:1", "c.example": "::1"},
        "private": ["10.0.0.0/8", "fd00::/8"],
    }
    written = """\
network:
  private: ["fd00::/8", 10.0.0.0/8]
  allow: ["[fd00::1]:80", "*.internal.example:1-9/tcp", api.example.com:443]
  tls: {ca: ca.pem, passthrough: [pinned.example]}
  hosts: {api.example.com: "127.0.0.1:8443", b.example: "[::1]:1", c.example: "::1"}
"""
    assert load(HEAD + written).network == network_of(words)


@pytest.mark.parametrize("words", ["", " null", " ~"])
def test_a_network_without_a_value_is_refused_instead_of_being_no_network(words: str) -> None:
    with pytest.raises(PolicyError, match="network"):
        load(f"{HEAD}rules: [{{id: a, match: {{kind: http}}, decide: allow}}]\nnetwork:{words}\n")


def test_a_file_that_only_says_what_may_be_reached_is_a_file() -> None:
    assert load(f"{HEAD}network: {{}}\n").network == NetworkTerms()


def test_problems_of_the_network_have_their_place_in_the_file() -> None:
    text = f"{HEAD}network:\n  mode: filtered\n  allow:\n    - a.example:443\n    - b.example\n"
    with pytest.raises(PolicyError) as caught:
        load(text)
    assert [(one.line, one.path) for one in caught.value.problems] == [(8, "network.allow[1]")]


_labels = st.sampled_from(["a", "b", "xn--bcher-kva", "0x7f", "_s"])
_hosts = st.one_of(
    st.lists(_labels, min_size=1, max_size=3).map(lambda found: ".".join([*found, "x", "example"])),
    st.ip_addresses(v=4, network="10.0.0.0/8").map(str),
    st.ip_addresses(v=6, network="fd00::/8").map(str),
)
_patterns = st.builds(
    lambda host, wild: HostPattern(host, wild and host.endswith("example")), _hosts, st.booleans()
)
_ports = st.integers(1, 65535)
_destinations = st.builds(
    lambda host, one, other, how: Destination(host, min(one, other), max(one, other), how),
    _patterns,
    _ports,
    _ports,
    st.sampled_from(list(Transport)),
)
_networks = st.builds(
    lambda allow, through, staged, ranges, ca: NetworkTerms(
        mode=Mode.FILTERED if allow else Mode.NONE,
        allow=tuple(sorted(allow)),
        passthrough=tuple(sorted(set(through))),
        hosts=dict.fromkeys(
            sorted(host for host in staged if host.endswith("example")), "10.0.0.1:80"
        ),
        private=tuple(sorted(set(ranges), key=lambda one: (one.version, one))),
        ca=ca,
    ),
    st.lists(
        _destinations,
        max_size=5,
        unique_by=lambda one: (one.host, one.first_port, one.last_port),
    ),
    st.lists(_patterns, max_size=2),
    st.lists(_hosts, max_size=2),
    st.lists(st.sampled_from([ip_network("10.0.0.0/8"), ip_network("fd00::/8")]), max_size=2),
    st.none() | st.sampled_from(["ca.pem", "/etc/a b: c.pem"]),
)


@given(_networks)
def test_a_network_reads_back_as_it_is_written(network: NetworkTerms) -> None:
    policy = Policy.of(Terms("a", Stage.BROAD, network=network))
    again = load(dump(policy))
    assert again == policy
    assert again.digest == policy.digest
    assert network_of(plain_network(network)) == network


@given(_networks.filter(lambda one: len(one.allow) > 1), st.randoms())
def test_the_order_of_a_list_does_not_change_the_digest(network: NetworkTerms, random: Any) -> None:
    words: Any = plain_network(network)
    random.shuffle(words["allow"])
    other = network_of(words)
    digests = {Policy.of(Terms("a", Stage.BROAD, network=one)).digest for one in (network, other)}
    assert len(digests) == 1


@for_each(
    "changed",
    [None, {}, {"mode": "none"}, {"allow": ["a.example:80"]}, {"allow": ["a.example:443/tcp"]},
     {"allow": ["a.example:443"], "private": ["10.0.0.0/8"]},
     {"allow": ["a.example:443"], "hosts": {"a.example": "10.0.0.1"}},
     {"allow": ["a.example:443"], "tls": {"passthrough": ["a.example"]}},
     {"allow": ["a.example:443"], "tls": {"ca": "x"}}],
)  # fmt: skip
def test_any_change_of_the_network_changes_the_digest(changed: Any) -> None:
    def digest(words: Any) -> str:
        network = None if words is None else network_of(words)
        return Policy.of(Terms("a", Stage.BROAD, network=network)).digest

    assert digest({"allow": ["a.example:443"]}) != digest(changed)


def test_the_schema_publishes_the_keys_of_network_and_secrets() -> None:
    from paddock.policy.terms import json_schema

    schema = json_schema()
    assert {"network", "secrets"} <= schema["properties"].keys()
    network = schema["properties"]["network"]
    assert network["properties"].keys() == {
        "mode", "allow", "tls", "hosts", "private", "graphql"}  # fmt: skip
    assert network["properties"]["tls"]["properties"].keys() == {"passthrough", "ca"}
    secret = schema["properties"]["secrets"]["additionalProperties"]
    assert secret["properties"].keys() == {"from", "to", "as"}
    assert secret["required"] == ["from", "to"]
    assert not network["additionalProperties"] and not secret["additionalProperties"]


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [("api.example.com:443", True), ("db.example:5432/tcp", True), ("api.example.com", False),
     ("api.example.com:*", False)],
)  # fmt: skip
def test_an_editor_with_the_schema_sees_the_same_mistakes(text: str, is_valid: bool) -> None:
    import jsonschema

    from paddock.policy.terms import json_schema

    file = {"version": 1, "agent": "a", "stage": "broad", "network": {"allow": [text]}}
    found = list(jsonschema.Draft202012Validator(json_schema()).iter_errors(file))
    assert (found == []) is is_valid
