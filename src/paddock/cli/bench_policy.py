"""Measures how long a decision takes under a hundred rules, beside Cedar under the same rules."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from paddock.cli.bench_figures import Figure, Limit, alternate, median, number, percentile_ms
from paddock.cli.bench_rig import Rig
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.model.errors import HostCannot, IntegrityError
from paddock.policy.decide import Policy
from paddock.policy.file import load

_TOOLS = 20
_ROUNDS = 20  # through all actions in one sample: a clock tick must not count
_TITLE = "decision, 100 rules"


def decide(rig: Rig) -> list[Figure]:
    """One decision, the median over a mix of tools, programs and files."""
    policy, actions = load(_paddock_file()), _actions()
    ours = _each(lambda: [policy.decide(action) for action in actions], len(actions))
    try:
        cedar = _Cedar.of(policy, actions)
    except ImportError:
        raise HostCannot("cedarpy is not installed", hint="pip install 'paddock[dev]'") from None
    theirs = _each(lambda: [cedar.decide(request) for request in cedar.requests], len(actions))
    mine, peer = alternate(rig.count(200, 30), ours, theirs)
    note = f"{_spread(mine)}; cedarpy {_spread(peer)}; each sample is a mean of {_ROUNDS} rounds"
    value, peer_value = 1e6 * median(mine), 1e6 * median(peer)
    return [
        Figure("policy-decide", _TITLE, value, "us", len(mine), limit=Limit(25), note=note),
        Figure("policy-cedar", f"{_TITLE}, beside Cedar", value, "us", len(mine),
               "cedarpy, parsed before", peer_value, Limit(0.2, is_ratio=True),
               f"{number(peer_value / value)} times as fast"),
    ]  # fmt: skip


def _each(work: Callable[[], object], count: int) -> Callable[[], float]:
    """Seconds for one of the `count` things that `work` does."""

    def run() -> float:
        began = time.perf_counter()
        for _ in range(_ROUNDS):
            work()
        return (time.perf_counter() - began) / _ROUNDS / count

    return run


def _spread(samples: Sequence[float]) -> str:
    fast, slow = (number(1000 * percentile_ms(samples, percent)) for percent in (5, 95))
    return f"p5 {fast}, p95 {slow} us"


def _paddock_file() -> str:
    tools = "".join(f"  tool_{n}: {{effect: write}}\n" for n in range(_TOOLS))
    rules = []
    for n in range(_TOOLS):
        about = f"match: {{kind: tool, name: tool_{n}}}"
        program, path = f"program: [p{n}, q{n}]", f"operation: [write, remove], path: /data/{n}/**"
        rules += [
            f"{{id: amount-{n}, {about}, when: args.amount > {5000 + n}, decide: block}}",
            f"{{id: money-{n}, {about}, when: 'args.currency == \"X{n}\"', decide: block}}",
            f"{{id: grant-{n}, {about}, decide: allow}}",
            f"{{id: program-{n}, match: {{kind: exec, {program}}}, decide: block}}",
            f"{{id: path-{n}, match: {{kind: file, {path}}}, decide: block}}",
        ]
    listed = "".join(f"  - {rule}\n" for rule in rules)
    return f"version: 1\nagent: bench\nstage: broad\ntools:\n{tools}rules:\n{listed}"


def _actions() -> list[Action]:
    """Of each kind one that is let through and one that is not."""
    money = {"amount": 100, "currency": "EUR", "order": "o-1", "note": "late"}
    return [
        Action(Kind.TOOL, "tool_7", money, Effect.WRITE),
        Action(Kind.TOOL, "tool_7", {**money, "amount": 9000}, Effect.WRITE),
        *(_program(path) for path in ("/usr/bin/python3", "/usr/bin/q7")),
        *(_write(path) for path in ("/home/user/a.txt", "/data/7/a.txt")),
    ]


def _program(path: str) -> Action:
    arguments = {"program": path, "argv": [path, "-v"], "cwd": "/home/user"}
    return Action(Kind.EXEC, path, arguments, is_contained=True)


def _write(path: str) -> Action:
    arguments = {"operation": "write", "path": path}
    return Action(Kind.FILE, "write", arguments, Effect.WRITE, is_contained=True)


@dataclass(frozen=True, slots=True)
class _Cedar:
    """The same rules and actions for Cedar: policies and entities parsed before, and the context
    given as text, which is its fastest way for decisions that come one at a time."""

    decide: Callable[[dict[str, Any]], Any]
    requests: list[dict[str, Any]]

    @classmethod
    def of(cls, policy: Policy, actions: list[Action]) -> _Cedar:
        import cedarpy

        policies = cedarpy.PolicySet.from_str(_cedar_policies())
        entities = cedarpy.Entities.from_json_str("[]")
        requests = [_cedar_request(action) for action in actions]

        def decide(request: dict[str, Any]) -> Any:
            return cedarpy.is_authorized(request, policies, entities)

        for action, request in zip(actions, requests, strict=True):
            is_allowed = policy.decide(action).verdict is Verdict.ALLOW
            if decide(request).allowed is not is_allowed:
                raise IntegrityError(f"Cedar decides otherwise about {action.name}")
        return cls(decide, requests)


def _cedar_policies() -> str:
    texts = ['permit(principal, action in [Action::"exec", Action::"file"], resource);']
    for n in range(_TOOLS):
        tool = f'principal, action == Action::"tool_{n}", resource'
        texts += [
            f"forbid({tool}) when {{ context.amount > {5000 + n} }};",
            f'forbid({tool}) when {{ context.currency == "X{n}" }};',
            f"permit({tool});",
            'forbid(principal, action == Action::"exec", resource) when '
            f'{{ ["p{n}", "q{n}"].contains(context.program) }};',
            'forbid(principal, action == Action::"file", resource) when '
            f'{{ ["write", "remove"].contains(context.operation) && '
            f'context.path like "/data/{n}/*" }};',
        ]
    return "\n".join(texts)


def _cedar_request(action: Action) -> dict[str, Any]:
    context = dict(action.arguments)
    if action.kind is Kind.EXEC:
        context["program"] = action.name.rpartition("/")[2]
    name = action.name if action.kind is Kind.TOOL else action.kind.value
    return {
        "principal": 'Agent::"bench"',
        "action": f'Action::"{name}"',
        "resource": 'Machine::"here"',
        "context": json.dumps(context),
    }
