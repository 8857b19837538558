"""Why an action is decided as it is: every rule, and where it parted from the action."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.action import Action, Decision, Effect, Verdict
from paddock.policy.compile import Check, CompiledRule, compile_rule
from paddock.policy.decide import BadAmount, Policy, amount_of, hit_of, is_contained
from paddock.policy.expressions import ExpressionError
from paddock.policy.fields import Unmatchable
from paddock.policy.rules import Rule
from paddock.policy.stages import ceiling
from paddock.policy.subject import Subject


class RulePart(enum.StrEnum):
    """The point up to which a rule matched."""

    MATCHED = "matched"
    KIND = "kind"
    FIELD = "field"
    UNLESS = "unless"
    WHEN = "when"
    LIMIT = "limit"
    FAILED = "failed"


_MARKS = {RulePart.MATCHED: "+", RulePart.FAILED: "!"}  # every other part: "-"


class Considered(msgspec.Struct, frozen=True):
    """One rule, and what came of it."""

    rule_id: str
    wants: Verdict
    part: RulePart  # at which it parted, or that it matched
    detail: str


class Explanation(msgspec.Struct, frozen=True):
    """The decision on an action, and all that was weighed."""

    action: Action
    effect: Effect
    rules: tuple[Considered, ...]
    stage: str  # what the stage makes of it
    decision: Decision

    def lines(self, call: str) -> list[str]:
        """Return lines for people: the result first, then what matched, then what did not. `call`
        is the action in words."""
        result = self.decision
        lines = [
            f"{result.verdict.value}: {result.why}",
            f"  action     {call} ({self.effect.value})",
            f"  decided by {result.decided_by}",
            f"  stage      {self.stage}",
        ]
        if result.verdict is Verdict.ASK:
            how = "a draft" if result.is_draft else result.once_approved.value
            lines.append(f"  a yes      gives {how}")
        ordered = sorted(self.rules, key=lambda rule: rule.part is not RulePart.MATCHED)
        width = max((len(rule.rule_id) for rule in ordered), default=0)
        for rule in ordered:
            mark = _MARKS.get(rule.part, "-")
            lines.append(f"  {mark} {rule.rule_id:<{width}}  {rule.wants.value:<8}  {rule.detail}")
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON."""
        decision = self.decision
        return {
            "action": {
                "kind": self.action.kind.value,
                "name": self.action.name,
                "arguments": dict(self.action.arguments),
                "effect": self.effect.value,
                "is_reversible": self.action.is_reversible,
                "is_contained": self.action.is_contained,
            },
            "decision": {
                "verdict": decision.verdict.value,
                "decided_by": decision.decided_by,
                "why": decision.why,
                "is_draft": decision.is_draft,
                "once_approved": decision.once_approved.value,
            },
            "stage": self.stage,
            "rules": [
                {"id": rule.rule_id, "wants": rule.wants.value, "part": rule.part.value,
                 "detail": rule.detail}
                for rule in self.rules
            ],
        }  # fmt: skip


def explain(policy: Policy, action: Action, spent: Mapping[str, int] | None = None) -> Explanation:
    """Return what the policy decides about the action, and why."""
    spent = spent or {}
    decision = policy.decide(action, spent)
    subject = Subject(action, decision.effect)
    considered = tuple(_considered(rule, subject, spent) for rule in policy.rules)
    return Explanation(action, decision.effect, considered, _stage(policy, subject, decision),
                       decision)  # fmt: skip


def _considered(rule: Rule, subject: Subject, spent: Mapping[str, int]) -> Considered:
    kind = subject.action.kind
    if kind not in rule.kinds:
        kinds = " or ".join(about.value for about in rule.kinds)
        return Considered(
            rule.id, rule.decide, RulePart.KIND, f"is about {kinds}, not {kind.value}"
        )
    try:
        part, detail = _parted(compile_rule(rule, kind), subject, spent)
    except (ExpressionError, Unmatchable, BadAmount) as error:
        part, detail = RulePart.FAILED, f"cannot be evaluated, which blocks: {error}"
    return Considered(rule.id, rule.decide, part, detail)


def _parted(rule: CompiledRule, subject: Subject, spent: Mapping[str, int]) -> tuple[RulePart, str]:
    for name, check in rule.checks:
        if not check(subject):
            return RulePart.FIELD, f"{name} does not match {_patterns(rule, name)}"
    if rule.unless and _all_hold(rule.unless, subject):
        return RulePart.UNLESS, "unless leaves it out"
    if rule.when is not None and not rule.when.holds(subject.scope):
        return RulePart.WHEN, f"when is false: {rule.when.source}"
    limit = rule.rule.limit
    if limit is None:
        return RulePart.MATCHED, rule.rule.why or "matches"
    amount, before = amount_of(rule, subject), spent.get(rule.rule.id, 0)
    sum_text = f"{before} spent + {amount} of {limit.most}"
    if hit_of(rule, subject, spent) is None:
        return RulePart.LIMIT, f"within its limit: {sum_text}"
    return RulePart.MATCHED, f"over its limit: {sum_text}"


def _all_hold(checks: tuple[tuple[str, Check], ...], subject: Subject) -> bool:
    return all(check(subject) for _, check in checks)


def _patterns(rule: CompiledRule, name: str) -> str:
    patterns = rule.rule.match.get(name) or ()
    shown = [
        " ".join(pattern) if isinstance(pattern, tuple) else str(pattern)
        for pattern in patterns[:4]
    ]
    return ", ".join(shown) + (", ..." if len(patterns) > 4 else "")


def _stage(policy: Policy, subject: Subject, decision: Decision) -> str:
    name = policy.stage.value
    if is_contained(subject.action):
        return f"{name}: not subject to it, the action stays inside"
    verdict, why = ceiling(
        policy.stage,
        subject.effect,
        is_reversible=policy.is_reversible(subject.action),
        is_granted=any(hit.verdict is Verdict.ALLOW for hit in decision.hits),
    )
    if verdict is Verdict.ALLOW or not why:
        return f"{name}: leaves it to the rules"
    return f"{name}: {why}"
