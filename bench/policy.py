"""Measures how long a decision takes under a hundred rules, beside Cedar under the same rules."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from bench.figures import Figure, Limit, median, number, percentile_ms
from bench.rig import Rig
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.model.errors import HostCannot, IntegrityError
from paddock.model.version import install_command
from paddock.policy.decide import Policy
from paddock.policy.file import load

_TOOLS = 20
_TURN = 60  # decisions of one before the other has its turn
_TITLE = "decision, 100 rules"
T = TypeVar("T")


def decide(rig: Rig) -> list[Figure]:
    """The median of single decisions over a mix of tools, programs and files."""
    policy, actions = load(_paddock_file()), _actions()
    try:
        cedar = _Cedar.of(policy, actions)
    except ImportError:
        raise HostCannot("cedarpy is not installed", hint=install_command("dev")) from None
    mine, peer = _by_turns(
        rig.count(200, 50),
        _in_turn(policy.decide, actions),
        _in_turn(cedar.decide, cedar.requests),
    )
    note = f"{_spread(mine)}; cedarpy {_spread(peer)}"
    value, peer_value = 1e6 * median(mine), 1e6 * median(peer)
    return [
        Figure("policy-decide", _TITLE, value, "us", len(mine), limit=Limit(25), note=note),
        Figure("policy-cedar", f"{_TITLE}, beside Cedar", value, "us", len(mine),
               "cedarpy, parsed before", peer_value, Limit(0.2, is_ratio=True),
               f"{number(peer_value / value)} times as fast"),
    ]  # fmt: skip


def _by_turns(turns: int, *runs: Callable[[], float]) -> list[list[float]]:
    """Return samples of each run. One decision is one sample, so that a busy neighbour spoils
    samples and not the median; a turn has many, so that neither finds the caches full of the
    other."""
    samples: list[list[float]] = [[] for _ in runs]
    for _ in range(turns):
        for run, taken in zip(runs, samples, strict=True):
            taken += [run() for _ in range(_TURN)]
    return samples


def _in_turn(work: Callable[[T], object], things: Sequence[T]) -> Callable[[], float]:
    """Yield the seconds for the next of the things, again and again."""
    following = itertools.cycle(things)

    def run() -> float:
        thing = next(following)
        began = time.perf_counter()
        work(thing)
        return time.perf_counter() - began

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
    """Return two actions of each kind, one that is let through and one that is not."""
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


class _Cedar(msgspec.Struct, frozen=True):
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
