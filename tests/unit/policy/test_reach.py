"""What `network.allow` reaches, and that nothing reaches further."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import for_each
from paddock.model.action import Action, Effect, Kind, Stage, Verdict
from paddock.model.hosts import HostPattern
from paddock.policy.analysis.explanation import explain
from paddock.policy.analysis.lint import check
from paddock.policy.decide import Policy
from paddock.policy.file import default_policy, load
from paddock.policy.network import Destination, NetworkTerms, Transport, network_of
from paddock.policy.rules import Rule
from paddock.policy.secrets import secrets_of
from paddock.policy.terms import Terms
from unit.policy.cases import TOOLS, rule_lists

HEAD = "version: 1\nagent: a\nstage: {stage}\n"
ALLOW = ["api.example.com:443", "*.internal.example:443", "db.example:5432/tcp", "10.0.0.5:80"]
NETWORK = network_of({"allow": ALLOW})
EVERYTHING = "{id: all, match: {kind: [http, connect, dns, model]}, decide: allow}"


def policy(rules: str = "[]", stage: str = "broad", network: NetworkTerms = NETWORK) -> Policy:
    tools = "tools: {t: {effect: read}}\n"
    indented = rules.strip().replace("\n", "\n  ")
    return load(f"{HEAD.format(stage=stage)}{tools}rules: {indented}\n").with_network(network)


def request(host: Any, port: Any = 443, method: str = "GET", **more: Any) -> Action:
    effect = Effect.READ if method == "GET" else Effect.WRITE
    arguments = {"host": host, "port": port, "method": method, "path": "/v1/refunds", **more}
    return Action(Kind.HTTP, str(host), arguments, effect)


def connection(host: str, port: int) -> Action:
    return Action(Kind.CONNECT, host, {"host": host, "port": port}, Effect.WRITE)


def lookup(host: str) -> Action:
    return Action(Kind.DNS, host, {"host": host})


def completion(host: str, port: int = 443) -> Action:
    arguments = {"provider": "p", "model": "m", "host": host, "port": port}
    return Action(Kind.MODEL, "m", arguments)


INSIDE = [request("api.example.com"), request("API.example.com."), request("a.b.internal.example"),
          request("10.0.0.5", 80), request("::ffff:10.0.0.5", 80), connection("db.example", 5432),
          connection("api.example.com", 443), lookup("db.example"), lookup("x.internal.example"),
          completion("api.example.com")]  # fmt: skip
OUTSIDE = [request("api.example.com", 80), request("evil.example"), request("internal.example"),
           request("evilinternal.example"), request("api.example.com.evil.test"),
           request("10.0.0.5", 443), request("10.0.0.6", 80), connection("db.example", 5433),
           connection("db.example", 443), lookup("internal.example"), lookup("exfil.evil.test"),
           lookup("a.api.example.com"), completion("evil.example"),
           completion("api.example.com", 8443)]  # fmt: skip


@for_each("action", INSIDE)
def test_what_is_in_the_list_is_allowed(action: Action) -> None:
    decision = policy().decide(action)
    assert (decision.verdict, decision.decided_by) == (Verdict.ALLOW, "network")


@for_each("action", OUTSIDE)
@for_each("rules", ["[]", f"[{EVERYTHING}]"])
def test_an_allow_rule_never_extends_the_reach(action: Action, rules: str) -> None:
    decision = policy(rules).decide(action)
    assert (decision.verdict, decision.decided_by) == (Verdict.BLOCK, "network")


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (request("api.evil.com"), "api.evil.com:443 is not in network.allow."),
        (request("API.evil.com."), "api.evil.com:443 is not in network.allow."),
        (connection("::1", 80), "[::1]:80 is not in network.allow."),
        (lookup("api.evil.com"), "api.evil.com is not in network.allow."),
    ],
)
def test_a_refusal_names_what_is_missing(action: Action, why: str) -> None:
    assert policy().decide(action).why == why


@for_each(
    "action",
    [request("api.example.com", port) for port in (None, "443", 443.0, True, 0, 65536, -1)]
    + [request(host) for host in (None, "", 1, "127.1", "0x7f000001", "a..b", "bücher.example")]
    + [Action(Kind.MODEL, "api.example.com", {"provider": "p", "model": "m", "port": 443})],
)
def test_what_cannot_be_placed_is_blocked(action: Action) -> None:
    assert policy(f"[{EVERYTHING}]").decide(action).verdict is Verdict.BLOCK


@for_each("action", [*INSIDE, *OUTSIDE])
def test_with_mode_none_nothing_leaves(action: Action) -> None:
    decision = policy(f"[{EVERYTHING}]", network=network_of({"mode": "none"})).decide(action)
    assert (decision.verdict, decision.decided_by) == (Verdict.BLOCK, "network")


@for_each("action", INSIDE)
def test_without_a_network_section_only_rules_grant(action: Action) -> None:
    tools = "tools: {t: {effect: read}}\n"
    without = load(HEAD.format(stage="broad") + tools)
    granted = load(f"{HEAD.format(stage='broad')}rules: [{EVERYTHING}]\n")
    assert without.decide(action).verdict is Verdict.BLOCK
    assert granted.decide(action).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("stage", "verdict"),
    [("observe", Verdict.BLOCK), ("draft", Verdict.SIMULATE), ("approve", Verdict.ASK),
     ("narrow", Verdict.ASK), ("broad", Verdict.ALLOW)],
)  # fmt: skip
def test_the_stage_still_tightens_what_the_list_allows(stage: str, verdict: Verdict) -> None:
    found = policy(stage=stage)
    assert found.decide(request("api.example.com", method="POST")).verdict is verdict
    assert found.decide(request("api.example.com")).verdict is Verdict.ALLOW


REFUNDS = """
[{id: no-deletes, match: {kind: http, host: api.example.com, method: DELETE}, decide: block},
 {id: refunds, match: {kind: http, host: api.example.com, method: POST, path: /v1/refunds},
  when: int(body.amount) > 5000, decide: ask}]"""


@for_each(
    ("body", "verdict"),
    [
        ({"amount": 5001}, Verdict.ASK),
        ({"amount": 5000}, Verdict.ALLOW),
        ({"amount": "5001"}, Verdict.ASK),  # as a form has it
        ({"amount": "5000", "currency": "eur"}, Verdict.ALLOW),
        ({"amount": "5000.5"}, Verdict.BLOCK),
        ({"amount": ["1", "5001"]}, Verdict.BLOCK),
        ({"amount": None}, Verdict.BLOCK),
        ({}, Verdict.BLOCK),
        (None, Verdict.BLOCK),
        ("amount=1", Verdict.BLOCK),
        ([{"amount": 1}], Verdict.BLOCK),
    ],
)
def test_a_rule_reads_the_body_and_blocks_when_it_cannot(body: Any, verdict: Verdict) -> None:
    action = request("api.example.com", method="POST", body=body)
    assert policy(REFUNDS).decide(action).verdict is verdict


def test_a_rule_about_the_body_blocks_a_request_without_one() -> None:
    decision = policy(REFUNDS).decide(request("api.example.com", method="POST"))
    assert (decision.verdict, decision.decided_by) == (Verdict.BLOCK, "refunds")


def test_a_rule_about_a_model_reads_its_arguments_in_examples_too() -> None:
    found = policy("""
[{id: long, match: {kind: model, provider: p}, when: args.max_tokens > 100, decide: ask,
  examples: {match: [{args: {max_tokens: 101}}], not_match: [{args: {max_tokens: 100}}]}}]""")
    action = completion("api.example.com")
    long = replace(action, arguments={**action.arguments, "max_tokens": 101})
    assert found.decide(long).verdict is Verdict.ASK
    assert found.decide(action).verdict is Verdict.BLOCK


_names = st.lists(st.sampled_from(["a", "b"]), max_size=3).map(
    lambda labels: ".".join([*labels, "x", "example"])
)
_entries = st.builds(
    lambda host, wild, port, more, how: Destination(
        HostPattern(host, wild), port, port + more, how
    ),
    _names,
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from(list(Transport)),
)


@given(st.lists(_entries, max_size=6), _names, st.integers(1, 8), st.randoms())
def test_the_index_finds_what_a_plain_search_finds_in_any_order(
    entries: list[Destination], host: str, port: int, random: Any
) -> None:
    found = NetworkTerms(allow=tuple(entries)).covers(host, port)
    meant = [one for one in entries if one.host.matches(host) and one.has_port(port)]
    assert (found is not None) is bool(meant)
    assert found is None or found in meant
    shuffled = random.sample(entries, len(entries))
    assert NetworkTerms(allow=tuple(shuffled)).covers(host, port) == found
    named = any(one.host.matches(host) for one in entries)
    assert NetworkTerms(allow=tuple(entries)).covers_name(host) is named


def test_the_entry_that_says_most_is_the_one_that_holds() -> None:
    network = network_of({"allow": ["*.x.example:1-9", "a.x.example:5/tcp", "a.x.example:1-7",
                                    "*.a.x.example:5/tcp"]})  # fmt: skip
    assert str(network.covers("a.x.example", 5)) == "a.x.example:5/tcp"
    assert str(network.covers("a.x.example", 6)) == "a.x.example:1-7"
    assert str(network.covers("a.x.example", 8)) == "*.x.example:1-9"
    assert str(network.covers("b.a.x.example", 5)) == "*.a.x.example:5/tcp"
    assert network.covers("a.x.example", 10) is None


_actions = st.sampled_from([*INSIDE, *OUTSIDE])


@given(rule_lists(), _actions, st.sampled_from(list(Stage)), st.randoms())
def test_strictest_wins_in_any_order_and_inside_the_list_only(
    rules: tuple[Rule, ...], action: Action, stage: Stage, random: Any
) -> None:
    shuffled = tuple(random.sample(rules, len(rules)))
    one, other = (Policy.of(Terms("a", stage, TOOLS, found, network=NETWORK))
                  for found in (rules, shuffled))  # fmt: skip
    assert one.decide(action) == other.decide(action)
    if action in OUTSIDE:
        assert one.decide(action).verdict is Verdict.BLOCK


@given(rule_lists(), _actions, st.sampled_from(list(Stage)))
def test_one_more_host_never_makes_a_decision_stricter(
    rules: tuple[Rule, ...], action: Action, stage: Stage
) -> None:
    wide = network_of({"allow": [*ALLOW, "evil.example:1-65535"]})
    before, after = (
        Policy.of(Terms("a", stage, TOOLS, rules, network=one)).decide(action)
        for one in (NETWORK, wide)
    )
    assert after.verdict.strictness <= before.verdict.strictness


def test_a_network_can_be_changed_without_reading_the_rules_again() -> None:
    before = policy(REFUNDS)
    after = before.with_network(network_of({"allow": ["evil.example:443"]}))
    assert after.rules is before.rules
    assert after.decide(request("evil.example")).verdict is Verdict.ALLOW
    assert after.decide(request("api.example.com")).verdict is Verdict.BLOCK
    assert before.decide(request("api.example.com")).verdict is Verdict.ALLOW
    assert after.digest != before.digest


def test_closing_the_network_does_not_fail_on_a_secret_that_loses_its_host() -> None:
    secrets = secrets_of({"K": {"from": "env:K", "to": ["api.example.com"]}})
    closed = policy().with_network(NETWORK, secrets).with_network(network_of({"mode": "none"}))
    assert closed.secrets == secrets
    assert closed.decide(request("api.example.com")).verdict is Verdict.BLOCK


def test_the_words_of_a_caller_are_the_grant_where_there_is_no_file() -> None:
    found = default_policy("a", NETWORK)
    assert found.stage is Stage.BROAD
    write = request("api.example.com", method="POST")
    admin = replace(write, effect=Effect.ADMIN)
    assert found.decide(write).verdict is Verdict.ALLOW
    assert found.decide(admin).verdict is Verdict.ALLOW
    assert found.decide(request("evil.example")).verdict is Verdict.BLOCK
    assert default_policy("a").decide(write).verdict is Verdict.BLOCK
    assert default_policy("a").stage is Stage.OBSERVE


def test_a_refusal_of_the_network_is_explained() -> None:
    lines = explain(policy(f"[{EVERYTHING}]"), request("api.evil.com")).lines("a call")
    assert lines[0] == "block: api.evil.com:443 is not in network.allow."
    assert "  decided by network" in lines


def warnings(text: str) -> list[tuple[str, int]]:
    allow = '["api.example.com:443", "*.internal.example:443"]'
    whole = f"{HEAD.format(stage='broad')}network:\n  allow: {allow}\n{text}"
    codes = ("unreached-host", "secret-to-wildcard", "needs-allow")
    return [(one.code, one.line - 5) for one in check(whole) if one.code in codes]


@for_each(
    ("match", "is_out"),
    [
        ("{kind: http, host: api.example.com}", False),
        ("{kind: http, host: API.example.com}", False),
        ("{kind: http, host: '**.example.com'}", False),
        ("{kind: http, host: '*.b.internal.example'}", False),
        ("{kind: http, host: '**'}", False),
        ("{kind: http}", False),
        ("{kind: dns, name: a.internal.example}", False),
        ("{kind: http, host: evil.example}", True),
        ("{kind: [http, connect], host: internal.example}", True),
        ("{kind: http, host: '*.evil.example'}", True),
        ("{kind: http, host: '*.evilinternal.example'}", True),
        ("{kind: dns, name: evil.example}", True),
    ],
)
def test_a_rule_about_a_host_out_of_reach_is_doubted(match: str, is_out: bool) -> None:
    text = f"rules:\n  - {{id: a, match: {match}, decide: ask}}\n"
    assert warnings(text) == ([("unreached-host", 2)] if is_out else [])


def test_settings_of_a_host_out_of_reach_are_doubted() -> None:
    text = "  tls: {passthrough: [evil.example]}\n  hosts: {evil.example: 10.0.0.1}\n"
    assert warnings(text) == [("unreached-host", 1), ("unreached-host", 2)]


def test_a_secret_to_a_wildcard_is_doubted() -> None:
    text = "secrets:\n  K: {from: env:K, to: ['*.internal.example']}\n"
    assert warnings(text) == [("secret-to-wildcard", 2)]
