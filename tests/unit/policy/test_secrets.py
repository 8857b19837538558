"""How secrets are written. The value of one must never stand in a file or in a message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.action import Stage
from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern
from paddock.policy.decide import Policy
from paddock.policy.file import default_policy, dump, load
from paddock.policy.network import network_of
from paddock.policy.problems import PolicyError
from paddock.policy.secrets import SecretScheme, SecretTerms, secrets_of
from paddock.policy.terms import Terms

HEAD = """\
version: 1
agent: a
stage: broad
network:
  allow: [api.example.com:443, "*.internal.example:443", pinned.example:443]
  tls: {passthrough: [pinned.example]}
"""
VALUE = "sk_live_51Hxyz"


def secret(**words: Any) -> dict[str, Any]:
    return {"KEY": {"from": "env:KEY", "to": ["api.example.com"], **words}}


def problems(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        load(HEAD + text)
    return caught.value.message


@pytest.mark.parametrize(
    ("source", "scheme", "place"),
    [
        ("env:STRIPE_KEY", SecretScheme.ENV, "STRIPE_KEY"),
        ("file:~/keys/stripe", SecretScheme.FILE, "~/keys/stripe"),
        ("command:pass show stripe", SecretScheme.COMMAND, "pass show stripe"),
        ("keyring:stripe/test", SecretScheme.KEYRING, "stripe/test"),
        ("keyring:https://a.example/me", SecretScheme.KEYRING, "https://a.example/me"),
    ],
)
def test_a_source_is_one_of_four(source: str, scheme: SecretScheme, place: str) -> None:
    found = secrets_of(secret(**{"from": source}))["KEY"]
    assert (found.scheme, found.place) == (scheme, place)


@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1).filter(lambda w: w[0]))
def test_the_words_of_a_command_come_out_as_they_went_in(words: list[str]) -> None:
    if sum(map(len, words)) > 400 or len(words) > 100:
        return
    found = secrets_of(secret(**{"from": {"command": words}}))["KEY"]
    assert list(found.command) == words
    again = secrets_of(secret(**{"from": found.source}))["KEY"]
    assert again == found


@for_each(
    "source",
    [VALUE, f"literal:{VALUE}", f"env:{VALUE}-x", f":{VALUE}", f"ENV:{VALUE}", {"value": VALUE},
     [VALUE], {"command": VALUE}, {"command": []}, {"command": ["a"], "env": VALUE},
     f"command:'{VALUE}", "command:", "file:", "keyring:", f"keyring:{VALUE}", f"keyring:/{VALUE}",
     f"keyring:{VALUE}/", "env:", f"file:{VALUE}\0", VALUE * 1000],
)  # fmt: skip
def test_a_value_in_the_place_of_a_source_is_refused_and_not_shown(source: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        secrets_of(secret(**{"from": source}))
    assert caught.value.message.startswith("secrets.KEY.from: ")
    assert caught.value.hint
    assert VALUE not in str(caught.value)


@for_each(
    "text",
    [f"secrets: {{KEY: {VALUE}}}", f"secrets: {{KEY: [{VALUE}]}}", f"secrets: {VALUE}",
     f"secrets: {{KEY: {{from: {VALUE}, to: [api.example.com]}}}}",
     f"secrets: {{KEY: {{from: env:A, to: {VALUE}}}}}",
     f"secrets: {{KEY: {{value: {VALUE}, from: env:A, to: [api.example.com]}}}}",
     f"secrets: {{KEY: {{from: {{value: {VALUE}}}, to: [api.example.com]}}}}",
     f"secrets: {{KEY: {{from: env:A, to: [api.example.com], as: 'header:A=Bearer {VALUE}'}}}}",
     f"secrets: {{KEY: {{from: env:A, to: {{a: {VALUE}}}}}}}"],
)  # fmt: skip
def test_a_value_that_stands_in_a_file_is_not_repeated(text: str) -> None:
    assert VALUE not in problems(text)


@pytest.mark.parametrize(
    "placed",
    ["header:Authorization=Bearer", "header:X-Api-Key", "basic:user", "basic:me@a.example",
     "query:api_key", "query:a[b]", "body"],
)  # fmt: skip
def test_a_secret_has_a_place_in_a_request(placed: str) -> None:
    assert secrets_of(secret(**{"as": placed}))["KEY"].placed == placed


@for_each(
    "placed",
    ["", "header", "header:", "header:A B", "header:A=", "header:A=B C", "header:A\r\nX=B",
     "header:Host", "header:content-length", "header:Transfer-Encoding=chunked", "basic:",
     "basic:a:b", "basic:a\n", "query:", "query:a&b", "query:a=b", "body:x", "cookie:a", None, 1],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(placed: Any) -> None:
    with pytest.raises(InvalidInput, match=r"secrets\.KEY\.as: "):
        secrets_of(secret(**{"as": placed}))


def test_what_is_missing_is_what_the_hint_is_about() -> None:
    with pytest.raises(InvalidInput) as caught:
        secrets_of({"KEY": {"from": "env:A"}})
    assert caught.value.hint == "write to: [api.example.com]"


@for_each(
    ("words", "key"),
    [
        ({"KEY": {"to": ["a.example"]}}, "secrets.KEY.from: this key is missing"),
        ({"KEY": {"from": "env:A"}}, "secrets.KEY.to: this key is missing"),
        ({"KEY": {"from": "env:A", "to": []}}, "secrets.KEY.to: "),
        ({"KEY": {"from": "env:A", "to": "a.example"}}, "secrets.KEY.to: is not a list"),
        ({"KEY": {"from": "env:A", "to": ["*"]}}, "secrets.KEY.to: "),
        ({"KEY": {"from": "env:A", "to": ["a.example:443"]}}, "secrets.KEY.to: "),
        ({"KEY": {"from": "env:A", "to": ["a.example"], "for": 1}}, "secrets.KEY.for: unknown key"),
        ({"A-KEY": {"from": "env:A", "to": ["a.example"]}}, "secrets.A-KEY: "),
        ({"1A": {"from": "env:A", "to": ["a.example"]}}, "secrets.1A: "),
        ({"A=B": {"from": "env:A", "to": ["a.example"]}}, "secrets.A=B: "),
        ([], "secrets: "),
    ],
)
def test_words_that_are_wrong_name_their_key(words: Any, key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        secrets_of(words)
    assert caught.value.message.startswith(key)


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("evil.example", "evil.example is not in network.allow"),
        ("internal.example", "internal.example is not in network.allow"),
        ("'*.example.com'", "*.example.com is not in network.allow"),
        ("pinned.example", "is passed through"),
    ],
)
def test_a_secret_goes_only_where_it_can_be_put_in(to: str, words: str) -> None:
    message = problems(f"secrets: {{KEY: {{from: env:A, to: [api.example.com, {to}]}}}}\n")
    assert words in message
    assert "secrets.KEY.to" in message


def test_secrets_without_a_network_are_refused() -> None:
    text = "version: 1\nagent: a\nstage: broad\nsecrets: {K: {from: env:A, to: [a.example]}}\n"
    with pytest.raises(PolicyError, match=r"not in network\.allow"):
        load(f"{text}rules: [{{id: a, match: {{kind: http}}, decide: allow}}]\n")
    with pytest.raises(InvalidInput, match=r"not in network\.allow"):
        default_policy(secrets=secrets_of(secret()))


def test_a_secret_and_a_plain_variable_of_one_name_are_refused() -> None:
    text = "secrets: {KEY: {from: env:A, to: [api.example.com]}}\nsandbox: {envs: {KEY: x}}\n"
    assert "sandbox.envs has a variable of this name" in problems(text)


def test_a_name_that_is_no_variable_is_told_at_its_place() -> None:
    message = problems("secrets: {A-KEY: {from: env:A, to: [api.example.com]}}\n")
    assert "paddock.yaml:7:" in message
    assert "secrets.A-KEY: not the name of a variable" in message


def test_a_secret_is_for_its_hosts_and_no_lookalike() -> None:
    found = secrets_of(secret(to=["api.example.com", "*.internal.example"]))["KEY"]
    meant = ["api.example.com", "a.internal.example"]
    others = ["example.com", "xapi.example.com", "internal.example", "evilinternal.example"]
    assert all(map(found.is_for, meant))
    assert not any(map(found.is_for, others))


_NETWORK = network_of({"allow": ["api.example.com:443", "*.internal.example:443"]})
_secrets = st.dictionaries(
    st.from_regex(r"[A-Z_][A-Z0-9_]{0,9}", fullmatch=True),
    st.tuples(
        st.sampled_from(["env:A", "file:/a b/'c", "command:pass show 'a b'", "keyring:s/u"]),
        st.sampled_from([("api.example.com",), ("api.example.com", "*.internal.example")]),
        st.sampled_from([None, "header:Authorization=Bearer", "basic:yes", "query:no", "body"]),
    ),
    max_size=4,
)


@given(_secrets)
def test_secrets_read_back_as_they_are_written(found: dict[str, tuple[str, Any, Any]]) -> None:
    secrets = {
        name: SecretTerms(name, source, tuple(map(HostPattern.parse, to)), placed)
        for name, (source, to, placed) in found.items()
    }
    secrets = {
        name: SecretTerms(name, one.source, tuple(sorted(one.to)), one.placed)
        for name, one in secrets.items()
    }
    policy = Policy.of(Terms("a", Stage.BROAD, network=_NETWORK, secrets=secrets))
    again = load(dump(policy))
    assert again == policy
    assert again.digest == policy.digest


@pytest.mark.parametrize(
    "changed", [{"from": "env:B"}, {"to": ["b.internal.example"]}, {"as": "body"}]
)
def test_any_change_of_a_secret_changes_the_digest(changed: dict[str, Any]) -> None:
    plain, other = default_policy(network=_NETWORK), secrets_of(secret(**changed))
    one = plain.with_network(_NETWORK, secrets_of(secret()))
    assert len({plain.digest, one.digest, plain.with_network(_NETWORK, other).digest}) == 3
