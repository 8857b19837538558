"""What a paddock file says, as values: tools, rules, limits, approvals. Nothing is decided here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.action import Effect, Kind, Stage, Verdict
from paddock.model.sizes import DEFAULT_RECORD_BUDGET
from paddock.model.spec import Spec
from paddock.policy.faults import FaultTerms, plain_fault
from paddock.policy.network import NetworkTerms, SecretTerms, plain_network, plain_secret
from paddock.policy.plain import one_or_many, plain_match
from paddock.policy.world import WorldTerms, plain_world

# Effects from the strictest to the loosest: the order in which they are looked at.
STRICTEST_FIRST = (Effect.ADMIN, Effect.WRITE, Effect.READ)

Pattern = tuple[Any, ...]  # texts; for argv tuples of words, one for each alternative


class Match(msgspec.Struct, frozen=True):
    """The fields that must all match; of the patterns of one field, one must."""

    fields: tuple[tuple[str, Pattern], ...] = ()

    def get(self, name: str) -> Pattern | None:
        return dict(self.fields).get(name)


class Limit(msgspec.Struct, frozen=True):
    """How much may be spent before the rule fires. Without a window it is counted over the run."""

    most: int
    window_s: float | None
    sum: str | None = None  # an expression; without it every action counts `count`
    count: int = 1


class Example(msgspec.Struct, frozen=True):
    """A part of an action; what is missing is filled in from the rule."""

    content: Mapping[str, Any]
    should_match: bool


class Rule(msgspec.Struct, frozen=True):
    """One rule of the file."""

    id: str
    kinds: tuple[Kind, ...]
    decide: Verdict
    match: Match = Match()
    unless: Match | None = None
    when: str | None = None
    limit: Limit | None = None
    why: str = ""
    fault: Mapping[str, Any] | None = None
    examples: tuple[Example, ...] = ()


class Tool(msgspec.Struct, frozen=True):
    """A tool that the agent may know of, and what it does to the world."""

    name: str
    # One effect, or for some effects the expression that says when it is that one.
    effect: Effect | tuple[tuple[Effect, str | bool], ...]
    is_reversible: bool = False


class Approvals(msgspec.Struct, frozen=True):
    """Who is asked, and how long an answer is waited for."""

    timeout_s: float = 900.0
    by: tuple[str, ...] = ("terminal",)


class SandboxTerms(msgspec.Struct, frozen=True):
    """The machine that the agent lives in. `words` is what the file says, `spec` what it means."""

    words: Mapping[str, Any] = {}
    isolation: str = "container"
    spec: Spec = msgspec.field(default_factory=Spec)


class Terms(msgspec.Struct, frozen=True):
    """A whole paddock file, and where it lies. Two that say the same differ in nothing else,
    however they are written."""

    agent: str
    stage: Stage
    tools: Mapping[str, Tool] = {}
    rules: tuple[Rule, ...] = ()
    approvals: Approvals = Approvals()
    sandbox: SandboxTerms = msgspec.field(default_factory=SandboxTerms)
    version: int = 1
    network: NetworkTerms | None = None  # without it only rules can let anything out
    secrets: Mapping[str, SecretTerms] = {}
    world: WorldTerms | None = None
    faults: tuple[FaultTerms, ...] = ()  # in their order: of several that strike, the first does
    vary: tuple[str, ...] = ()  # what may differ in a replay: PLACE=SHAPE. It permits nothing
    # What a replay takes for no part of what the agent does; None: the usual. It permits nothing.
    beside: tuple[str, ...] | None = None
    record_budget: int = DEFAULT_RECORD_BUDGET  # bytes that a run may store of what its agent does
    # The directory that paths in the file start from. It says nothing about what may be done.
    base: str | None = None
    # The absolute path of the paddock file itself, if it was read from one.
    file: str | None = None


def as_plain(terms: Terms) -> dict[str, Any]:
    """The terms as JSON, in the shape of the file. What has its usual value is left out."""
    plain: dict[str, Any] = {
        "version": terms.version,
        "agent": terms.agent,
        "stage": terms.stage.value,
    }
    if terms.sandbox.words:
        plain["sandbox"] = dict(terms.sandbox.words)
    if terms.network is not None:
        plain["network"] = plain_network(terms.network)
    if terms.secrets:
        plain["secrets"] = {name: plain_secret(one) for name, one in terms.secrets.items()}
    if terms.world is not None:
        plain["world"] = plain_world(terms.world)
    if terms.faults:
        plain["faults"] = [plain_fault(fault) for fault in terms.faults]
    if terms.tools:
        plain["tools"] = {name: _plain_tool(tool) for name, tool in terms.tools.items()}
    if terms.rules:
        plain["rules"] = [_plain_rule(rule) for rule in terms.rules]
    if terms.vary or terms.beside is not None:
        plain["replay"] = _plain_replay(terms)
    if terms.record_budget != DEFAULT_RECORD_BUDGET:
        plain["record"] = {"budget": terms.record_budget}
    if terms.approvals != Approvals():
        plain["approvals"] = {
            "timeout": _seconds(terms.approvals.timeout_s),
            "by": list(terms.approvals.by),
        }
    return plain


def digest(terms: Terms) -> str:
    """SHA-256 of the terms in canonical form. The order of rules and keys does not matter to what
    is decided, so it does not matter here; comments are not part of the terms at all."""
    plain = as_plain(terms)
    plain["rules"] = sorted(plain.get("rules", []), key=lambda rule: str(rule["id"]))
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain_replay(terms: Terms) -> dict[str, Any]:
    plain: dict[str, Any] = {"vary": list(terms.vary)} if terms.vary else {}
    return plain if terms.beside is None else {**plain, "beside": list(terms.beside)}


def _plain_tool(tool: Tool) -> dict[str, Any]:
    if isinstance(tool.effect, Effect):
        effect: Any = tool.effect.value
    else:
        effect = {name.value: condition for name, condition in tool.effect}
    return {"effect": effect, **({"reversible": True} if tool.is_reversible else {})}


def _plain_rule(rule: Rule) -> dict[str, Any]:
    kinds = [kind.value for kind in rule.kinds]
    plain: dict[str, Any] = {
        "id": rule.id,
        "match": {"kind": one_or_many(kinds), **plain_match(rule.match)},
    }
    if rule.unless is not None:
        plain["unless"] = plain_match(rule.unless)
    if rule.when is not None:
        plain["when"] = rule.when
    if rule.limit is not None:
        plain["limit"] = _plain_limit(rule.limit)
    plain["decide"] = rule.decide.value
    if rule.fault is not None:
        plain["fault"] = dict(rule.fault)
    if rule.why:
        plain["why"] = rule.why
    if rule.examples:
        plain["examples"] = _plain_examples(rule.examples)
    return plain


def _plain_limit(limit: Limit) -> dict[str, Any]:
    amount = {"count": limit.count} if limit.sum is None else {"sum": limit.sum}
    per = "run" if limit.window_s is None else _seconds(limit.window_s)
    return {**amount, "max": limit.most, "per": per}


def _plain_examples(examples: tuple[Example, ...]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for example in examples:
        key = "match" if example.should_match else "not_match"
        plain.setdefault(key, []).append(example.content)
    return plain


def _seconds(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds!r}s"
