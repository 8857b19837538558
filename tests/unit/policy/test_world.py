"""What a file may say about its world, and what is then decided."""

from __future__ import annotations

import pytest

from cases import for_each
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.model.errors import InvalidInput
from paddock.policy.decide import Policy
from paddock.policy.file import dump, load
from paddock.policy.network import Transport
from paddock.policy.problems import PolicyError
from paddock.policy.world import SERVICES, world_of
from paddock.world.registry import service_names

HEAD = "version: 1\nagent: a\nstage: observe\n"


def policy(text: str) -> Policy:
    return load(HEAD + text)


def request(host: str, method: str = "POST", port: int = 443, path: str = "/") -> Action:
    words = {"method": method, "scheme": "https", "host": host, "port": port, "path": path}
    effect = Effect.READ if method == "GET" else Effect.WRITE
    return Action(Kind.HTTP, f"{method} {host}", words, effect, is_reversible=False)


def verdict(decided_by: Policy, action: Action) -> tuple[Verdict, str]:
    decision = decided_by.decide(action)
    return decision.verdict, decision.decided_by


def test_every_service_that_the_file_knows_exists() -> None:
    assert set(SERVICES) <= set(service_names())


@pytest.mark.parametrize("stage", ["observe", "draft", "approve", "narrow", "broad"])
def test_a_stand_in_answers_at_every_stage(stage: str) -> None:
    found = load(f"version: 1\nagent: a\nstage: {stage}\nworld: {{api.stripe.com: payments}}\n")
    assert verdict(found, request("api.stripe.com")) == (Verdict.SIMULATE, "world")
    assert not found.decide(request("api.stripe.com")).is_draft


def test_a_world_without_a_network_reaches_nothing_else() -> None:
    found = policy("world: {api.stripe.com: payments}\n")
    assert verdict(found, request("files.stripe.com")) == (Verdict.BLOCK, "network")
    assert verdict(found, request("api.stripe.com", port=8443)) == (Verdict.BLOCK, "network")


@pytest.mark.parametrize(
    "allow", ["api.stripe.com:443", "'*.stripe.com:443'", "api.stripe.com:1-999"]
)
def test_allowing_the_host_does_not_let_a_request_past_its_stand_in(allow: str) -> None:
    found = policy(f"world: {{api.stripe.com: payments}}\nnetwork: {{allow: [{allow}]}}\n")
    assert verdict(found, request("api.stripe.com")) == (Verdict.SIMULATE, "world")


def test_a_wildcard_of_the_world_holds_for_a_host_that_is_allowed_by_name() -> None:
    text = "world: {'*.example.com': tickets}\nnetwork: {allow: ['api.example.com:443']}\n"
    assert verdict(policy(text), request("api.example.com")) == (Verdict.SIMULATE, "world")


def test_a_rule_that_allows_does_not_let_a_request_past_its_stand_in() -> None:
    text = "rules: [{id: all, match: {kind: http}, decide: allow}]\nworld: {x.example: tickets}\n"
    assert verdict(policy(text), request("x.example")) == (Verdict.SIMULATE, "world")


@pytest.mark.parametrize("decide", ["block", "ask"])
def test_stricter_rules_hold_for_stand_ins(decide: str) -> None:
    rule = f"rules: [{{id: r, match: {{kind: http}}, decide: {decide}}}]\n"
    found = policy(rule + "world: {x.example: tickets}\n")
    assert verdict(found, request("x.example")) == (Verdict(decide), "r")


def test_an_approved_request_is_answered_by_the_stand_in() -> None:
    rule = "rules: [{id: r, match: {kind: http}, decide: ask}]\n"
    decision = policy(rule + "world: {x.example: tickets}\n").decide(request("x.example"))
    assert decision.once_approved is Verdict.SIMULATE


def test_a_name_of_the_world_exists() -> None:
    found = policy("world: {x.example: tickets}\n")
    name = Action(Kind.DNS, "x.example", {"host": "x.example", "name": "x.example", "type": "A"})
    assert found.decide(name).verdict is Verdict.ALLOW


def test_a_draft_reads_for_real_and_writes_nothing() -> None:
    found = policy("world: {t.example: {service: draft, upstream: live, writes: [GET /close/*]}}\n")
    assert verdict(found, request("t.example", "GET")) == (Verdict.ALLOW, "world")
    assert verdict(found, request("t.example", "POST")) == (Verdict.SIMULATE, "world")
    closing = found.decide(request("t.example", "GET", path="/close/7"))
    assert (closing.verdict, closing.effect) == (Verdict.SIMULATE, Effect.WRITE)
    assert closing.is_draft


def test_a_file_with_a_world_reads_back_as_itself() -> None:
    found = policy("world:\n  a.example: payments\n  settings: {seed: 7, clock: now}\n"
                   "  db.example:5432: {service: postgres, seed: shop.sql}\n")  # fmt: skip
    assert load(dump(found)) == found
    assert load(dump(found)).digest == found.digest


def test_the_world_is_part_of_what_approvals_bind_to() -> None:
    one, two = policy("world: {a.example: chat}\n"), policy("world: {a.example: mail}\n")
    assert one.digest != two.digest


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        ({"a.example": "payments"}, {(443, Transport.ANY), (80, Transport.ANY)}),
        ({"a.example:8443": "payments"}, {(8443, Transport.ANY)}),
        ({"a.example": "postgres"}, {(5432, Transport.TCP)}),
        ({"a.example:25": "mail"}, {(25, Transport.TCP)}),
        ({"a.example:443": "mail"}, {(443, Transport.ANY)}),
        ({"a.example:9": {"service": "command", "tcp": True}}, {(9, Transport.TCP)}),
    ],
)
def test_where_a_stand_in_stands(words: dict[str, object], ports: set[tuple[int, str]]) -> None:
    found = world_of(words).destinations
    assert {(one.first_port, one.transport) for one in found} == ports


def test_a_storage_stands_for_the_names_of_its_buckets() -> None:
    hosts = {str(one.host) for one in world_of({"s3.amazonaws.com": "storage"}).destinations}
    assert hosts == {"s3.amazonaws.com", "*.s3.amazonaws.com"}


@for_each(
    ("words", "said"),
    [
        ({"a.example": "Payments!"}, "there is no service 'Payments!'"),
        ({"a.example": {"seed": "x"}}, "says no service"),
        ({"https://a.example": "chat"}, "is a URL"),
        ({"a.example/x": "chat"}, "ends in /x"),
        ({"127.0.0.1": "chat"}, "the sandbox itself"),
        ({"a.example": "chat", "a.example:443": "mail"}, "already"),
        ({"a.example": {"service": "chat", "writes": ["GET /x"]}}, "only draft has writes"),
        ({"a.example": {"service": "draft", "writes": ["/x"]}}, "is not a method and a path"),
        ({"a.example": "chat", "settings": {"clock": "noon"}}, "is not a time"),
        ({"a.example": "chat", "settings": {"clock": "2026-01-01"}}, "in which zone"),
        ({"a.example": "chat", "settings": {"seed": "x"}}, "is not a whole number"),
        ({"a.example": "chat", "settings": {"sed": 1}}, "unknown key"),
        (["a.example"], "not a mapping"),
    ],
)
def test_words_that_mean_nothing_are_refused(words: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        world_of(words)


def test_a_mistake_in_a_file_names_its_line() -> None:
    with pytest.raises(PolicyError) as told:
        policy("world:\n  a.example: chat\n  b.example: Payments\n  c.example: {}\n")
    said = str(told.value)
    assert "paddock.yaml:6:14: world.b.example: service: there is no service 'Payments'" in said
    assert "did you mean payments?" in said
    assert "paddock.yaml:7:14: world.c.example: says no service" in said


def test_no_network_and_a_world_exclude_each_other() -> None:
    with pytest.raises(PolicyError, match="mode: none"):
        policy("world: {a.example: chat}\nnetwork: {mode: none}\n")


@for_each(
    ("to", "more", "is_real"),
    [
        ("[a.x.example]", "", False),
        ("[a.x.example, b.example]", "", False),
        ("[a.x.example, real.example]", "", True),
        ("[a.x.example]", '"a.x.example:443"', False),
        ("[a.x.example]", '"a.x.example:8443"', True),  # there nobody stands in
        ("[a.x.example]", '"a.x.example:1-65535"', True),
        ("[a.x.example]", '"*.x.example:443"', False),
        ("[a.x.example]", '"*.x.example:80-443"', True),
        ("[drafted.example]", "", True),  # what it reads is real
    ],
)
def test_a_secret_is_real_where_a_request_can_carry_it_out(
    to: str, more: str, is_real: bool
) -> None:
    found = policy(f"""\
secrets: {{K: {{from: env:K, to: {to}}}}}
world: {{a.x.example: payments, b.example: chat, drafted.example: draft}}
network: {{allow: [{more + "," if more else ""} "real.example:443"]}}
""")
    assert list(found.real_secrets) == (["K"] if is_real else [])


def test_a_secret_may_go_to_a_host_of_the_world() -> None:
    text = "secrets: {K: {from: env:K, to: [a.example]}}\nworld: {a.example: payments}\n"
    assert policy(text).secrets["K"].is_for("a.example")
