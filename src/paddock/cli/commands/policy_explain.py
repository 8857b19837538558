"""`paddock policy explain`: what is decided about an action, and why."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from paddock.cli.commands.policy_action import described_action
from paddock.cli.output import say, say_json
from paddock.cli.policy_file import read_policy
from paddock.model.action import Action, Decision, Verdict
from paddock.model.errors import InvalidInput
from paddock.model.printable import printable
from paddock.policy.analysis.explanation import Explanation, explain
from paddock.policy.decide import Policy
from paddock.policy.reach import NETWORK_KINDS

_MAX_CALL = 400
_NO_NETWORK = "the file has no network section: a sandbox reaches nothing, whatever rules say"


def explain_action(options: argparse.Namespace) -> int:
    """Write the result, then every rule and where it parted from the action."""

    policy = read_policy(options.file, options.stage)
    spent = dict(_parse_spent(text) for text in options.spent)
    unknown = [name for name in spent if name not in {rule.id for rule in policy.rules}]
    if unknown:
        raise InvalidInput(f"--spent: the file has no rule {unknown[0]!r}")
    explanations = _explanations(options, policy, spent)
    remark = _remark(policy, explanations[0].action)
    if options.json:
        say_json(_as_json(explanations, remark))
        return 0
    lines = [
        line
        for explanation in explanations
        for line in [*explanation.lines(_call(explanation.action)), ""]
    ][:-1]
    say("\n".join(map(printable, [*lines, *([f"note: {remark}"] if remark else [])])))
    return 0


def _explanations(
    options: argparse.Namespace, policy: Policy, spent: Mapping[str, int]
) -> list[Explanation]:
    """Return one explanation, or two for a request that carries a call of a model, in the order in
    which they are decided. The door takes such a request for the call alone where no rule minds the
    request."""
    actions = described_action(options, policy)
    if isinstance(actions, Action):
        return [explain(policy, actions, spent)]
    if actions.refusal is not None:
        by, why = actions.refusal
        effect = actions.request.effect
        decision = Decision(Verdict.BLOCK, by, why, effect)
        stage = "not asked: the network door refuses it by itself"
        return [Explanation(actions.request, effect, (), stage, decision)]
    request = explain(policy, actions.request, spent)
    if actions.model is None:
        return [request]
    model = explain(policy, actions.model, spent)
    if policy.lets_pass(actions.request, request.decision):
        return [model]
    return [request] if request.decision.verdict is Verdict.BLOCK else [request, model]


def _call(action: Action) -> str:
    from paddock.cli.render.calls import call_summary

    return call_summary(action.kind, action.name, action.arguments, _MAX_CALL)


def _as_json(explanations: list[Explanation], remark: str | None) -> dict[str, Any]:
    first, *rest = [explanation.as_json() for explanation in explanations]
    return {
        **first,
        **({"then": rest[0]} if rest else {}),
        **({"note": remark} if remark else {}),
    }


def _remark(policy: Policy, action: Action) -> str | None:
    is_outside = action.kind in NETWORK_KINDS
    return _NO_NETWORK if is_outside and policy.network is None else None


def _parse_spent(text: str) -> tuple[str, int]:
    name, _, amount = text.rpartition("=")
    if not name or not amount.isascii() or not amount.isdigit() or len(amount) > 15:
        raise InvalidInput(f"--spent: {text!r} is not RULE=AMOUNT with a whole amount")
    return name, int(amount)
