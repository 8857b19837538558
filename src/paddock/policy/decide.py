"""Decides on actions. Pure: the same terms, action and amounts spent give the same decision.

The strictest of all holds: of every rule that matches, of what is usual for such an action, and of
what the stage leaves. Whatever goes wrong while deciding means block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.action import (
    Action,
    Decision,
    Effect,
    Kind,
    Outcome,
    RuleHit,
    Stage,
    Verdict,
)
from paddock.policy.compile import (
    Bucket,
    CompiledRule,
    Index,
    build_index,
    compile_rule,
    index_names,
)
from paddock.policy.effects import EffectOf, compile_effect
from paddock.policy.expressions import ExpressionError, is_panic
from paddock.policy.faults import FaultTerms
from paddock.policy.fields import host_of, port_of
from paddock.policy.network import NetworkTerms
from paddock.policy.reach import NETWORK_KINDS, refusal
from paddock.policy.rules import Rule
from paddock.policy.secrets import SecretTerms, check_secrets
from paddock.policy.stages import ceiling
from paddock.policy.subject import Subject
from paddock.policy.terms import ApprovalTerms, SandboxTerms, Terms, digest
from paddock.policy.tools import ToolTerms
from paddock.policy.world import StandInTerms, WorldTerms, is_rehearsed, reach

MAX_AMOUNT = 10**15  # sums of a million of them still fit 64 bits
CONTAINED_KINDS = frozenset({Kind.EXEC, Kind.FILE, Kind.CODE})
_NOT_DONE = (Outcome.REFUSED, Outcome.DRAFTED, Outcome.SIMULATED, Outcome.FAULTED)
_NOTHING_SPENT: Mapping[str, int] = {}
_NO_RULES = Bucket((), frozenset())
_STOOD_IN = NETWORK_KINDS - {Kind.DNS}


class Charge(msgspec.Struct, frozen=True):
    """The amount that an action would spend of a limit. Without a window it counts over the whole
    run."""

    rule_id: str
    amount: int
    window_s: float | None


class BadAmount(Exception):
    """An amount that cannot be counted."""


class Policy(msgspec.Struct, frozen=True, dict=True):
    """The terms of one agent, ready to decide. Equal when the files say the same, wherever they
    lie."""

    terms: Terms
    _indexes: Mapping[Kind, Index]
    _effects: Mapping[str, EffectOf]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        mine = replace(self.terms, base=None, file=None)
        return mine == replace(other.terms, base=None, file=None)

    @classmethod
    def of(cls, terms: Terms) -> Policy:
        """Compile the terms. Raises InvalidInput when an expression does not compile."""
        indexes = {}
        for kind in Kind:
            rules = [compile_rule(rule, kind) for rule in terms.rules if kind in rule.kinds]
            if rules:
                indexes[kind] = build_index(rules, kind)
        effects = {name: compile_effect(tool) for name, tool in terms.tools.items()}
        return cls(terms, indexes, effects)

    @property
    def agent(self) -> str:
        return self.terms.agent

    @property
    def stage(self) -> Stage:
        return self.terms.stage

    @property
    def tools(self) -> Mapping[str, ToolTerms]:
        return self.terms.tools

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.terms.rules

    @property
    def approvals(self) -> ApprovalTerms:
        return self.terms.approvals

    @property
    def sandbox(self) -> SandboxTerms:
        return self.terms.sandbox

    @property
    def faults(self) -> tuple[FaultTerms, ...]:
        return self.terms.faults

    @property
    def world(self) -> WorldTerms | None:
        return self.terms.world

    @cached_property
    def network(self) -> NetworkTerms | None:
        """Return the network with the stand-ins in it."""
        return reach(self.terms.network, self.terms.world)

    @property
    def secrets(self) -> Mapping[str, SecretTerms]:
        return self.terms.secrets

    @cached_property
    def real_secrets(self) -> Mapping[str, SecretTerms]:
        """Return the secrets that some request can carry out."""
        network, world = self.network or NetworkTerms(), self.terms.world
        return {
            name: secret
            for name, secret in self.terms.secrets.items()
            if not is_rehearsed(secret, network, world)
        }

    def with_network(
        self, network: NetworkTerms, secrets: Mapping[str, SecretTerms] | None = None
    ) -> Policy:
        """Return the same rules under another network. Secrets that are given must fit it; those
        that were there stay, because closing the network must never fail. Raises InvalidInput."""
        if secrets is not None:
            check_secrets(reach(network, self.terms.world), secrets)
        kept = self.terms.secrets if secrets is None else dict(secrets)
        return Policy(
            replace(self.terms, network=network, secrets=kept), self._indexes, self._effects
        )

    def with_faults(self, faults: tuple[FaultTerms, ...]) -> Policy:
        """Return the same rules with other faults."""
        return Policy(replace(self.terms, faults=faults), self._indexes, self._effects)

    def with_world(self, world: WorldTerms) -> Policy:
        """Return the same rules in another world."""
        return Policy(replace(self.terms, world=world), self._indexes, self._effects)

    def with_record_budget(self, budget: int) -> Policy:
        """Return the same rules with another budget for what a run stores."""
        return Policy(replace(self.terms, record_budget=budget), self._indexes, self._effects)

    @cached_property
    def _limited(self) -> frozenset[Kind]:
        """Return the kinds of action that some limit counts."""
        return frozenset(k for rule in self.rules if rule.limit is not None for k in rule.kinds)

    @cached_property
    def digest(self) -> str:
        """Return the digest that approvals and journals bind to: any rule changes it, comments and
        order do not."""
        return digest(self.terms)

    def decide(self, action: Action, spent: Mapping[str, int] = _NOTHING_SPENT) -> Decision:
        """Decide on the action. `spent` has for each rule with a limit what is proposed, in flight
        and done in its window, without this action. A bad action is blocked, not raised about."""
        try:
            return self._decide(action, spent)
        except Exception as error:
            return _failed(action, error)
        except BaseException as error:
            if not is_panic(error):
                raise
            return _failed(action, error)

    def amounts(self, action: Action) -> tuple[Charge, ...]:
        """Return what the action would spend of each limit that it comes under. An amount that
        cannot be told is left out: such an action is blocked by `decide`, and spends nothing."""
        if action.kind not in self._limited:
            return ()
        try:
            return tuple(self._charges(self._subject(action)))
        except Exception:
            return ()
        except BaseException as error:
            if not is_panic(error):
                raise
            return ()

    def spends(self, action: Action, outcome: Outcome) -> bool:
        """Return whether what was reserved for an action is spent. What a stand-in did counts in
        its world."""
        if outcome is Outcome.SIMULATED:
            return self.stand_in(action) is not None
        return outcome not in _NOT_DONE

    def lets_pass(self, action: Action, decision: Decision) -> bool:
        """Return whether an action that was decided so is carried out and counts for no limit."""
        # Not by who decided: a rule may have any name.
        is_stood_in = self.stand_in(action) is not None
        passing = (Verdict.ALLOW, Verdict.SIMULATE) if is_stood_in else (Verdict.ALLOW,)
        return decision.verdict in passing and not self.amounts(action)

    def effect(self, action: Action) -> Effect:
        """Return the action's effect, computed from its arguments where the file says so."""
        computed = self._effects.get(action.name) if action.kind is Kind.TOOL else None
        return action.effect if computed is None else computed.of(action)

    def candidates(self, action: Action) -> Bucket:
        """Return the rules that can concern the action. Raises Unmatchable."""
        index = self._indexes.get(action.kind)
        return _NO_RULES if index is None else index.candidates(index_names(action))

    def _decide(self, action: Action, spent: Mapping[str, int]) -> Decision:
        if action.kind is Kind.TOOL and action.name not in self.terms.tools:
            why = f"The tool {action.name[:80]!r} is not declared in the paddock file."
            return Decision(Verdict.BLOCK, "undeclared", why, action.effect)
        if self.network is not None and action.kind in NETWORK_KINDS:
            unreached = refusal(self.network, action)
            if unreached is not None:
                return Decision(Verdict.BLOCK, "network", unreached, action.effect)
        bucket = self.candidates(action)
        stand_in = self.stand_in(action)
        effect = self.effect(action) if stand_in is None else stand_in.effect(action)
        subject = Subject(action, effect, bucket.keys)
        hits = _hits(bucket, subject, spent)
        # Sorted, so that the order of the file decides nothing, not even who is named.
        if len(hits) > 1:
            hits.sort(key=_strictest_first)
        if stand_in is not None:
            return _of_world(stand_in, subject, tuple(hits), bucket)
        return self._conclude(subject, tuple(hits), bucket)

    def stand_in(self, action: Action) -> StandInTerms | None:
        """Return the stand-in that answers the action in place of the real system, if there is
        one."""
        world, network = self.terms.world, self.network
        if world is None or network is None or action.kind not in _STOOD_IN:
            return None
        where = network.stand_in(host_of(action), port_of(action))
        return None if where is None else world.at(where)

    def _conclude(self, subject: Subject, hits: tuple[RuleHit, ...], bucket: Bucket) -> Decision:
        is_granted = _has(hits, Verdict.ALLOW)
        verdict, by, why = self._usual(subject.action, is_granted=is_granted)
        stage, stage_why = self._ceiling(subject, is_granted=is_granted)
        if stage.strictness > verdict.strictness:
            verdict, by, why = stage, f"stage:{self.terms.stage.value}", stage_why
        if hits and hits[0].verdict.strictness >= verdict.strictness:
            verdict, by, why = hits[0].verdict, hits[0].rule_id, hits[0].why
        if verdict is Verdict.ALLOW or verdict is Verdict.BLOCK:
            return Decision(verdict, by, why, subject.effect, hits)
        then = _once_approved(hits, stage) if verdict is Verdict.ASK else Verdict.ALLOW
        carried_out = then if verdict is Verdict.ASK else verdict
        is_draft = carried_out is Verdict.SIMULATE and not _has(hits, Verdict.SIMULATE)
        fault = _fault(hits, bucket) if carried_out is Verdict.FAULT else None
        return Decision(verdict, by, why, subject.effect, hits, is_draft, fault, then)

    def _usual(self, action: Action, *, is_granted: bool) -> tuple[Verdict, str, str]:
        """Return the verdict that holds where no rule says otherwise, who decides so, and why."""
        if action.kind is Kind.TOOL or is_granted or is_contained(action):
            return Verdict.ALLOW, "default", "Nothing forbids it."
        if self.network is not None and action.kind in NETWORK_KINDS:
            # What it does not reach has been refused before.
            return Verdict.ALLOW, "network", "It is in network.allow, and nothing forbids it."
        what = action.name[:80] or action.kind.value
        return Verdict.BLOCK, "default", f"No rule allows {action.kind.value} {what!r}."

    def _ceiling(self, subject: Subject, *, is_granted: bool) -> tuple[Verdict, str]:
        action = subject.action
        if subject.effect is Effect.READ or is_contained(action):
            return Verdict.ALLOW, ""
        return ceiling(
            self.terms.stage,
            subject.effect,
            is_reversible=self.is_reversible(action),
            is_granted=is_granted,
        )

    def is_reversible(self, action: Action) -> bool:
        """Return whether what the action does can be undone; of a tool, the file must say so
        too."""
        tool = self.terms.tools.get(action.name) if action.kind is Kind.TOOL else None
        return action.is_reversible and (tool is None or tool.is_reversible)

    def _subject(self, action: Action) -> Subject:
        return Subject(action, self.effect(action), self.candidates(action).keys)

    def _charges(self, subject: Subject) -> Iterator[Charge]:
        if subject.action.kind is Kind.TOOL and subject.action.name not in self.terms.tools:
            return
        for rule in self.candidates(subject.action).rules:
            limit = rule.rule.limit
            if limit is not None and rule.applies(subject):
                yield Charge(rule.rule.id, amount_of(rule, subject), limit.window_s)


def is_contained(action: Action) -> bool:
    """Return whether the action stays inside the fence; only files and programs can."""
    return action.is_contained and action.kind in CONTAINED_KINDS


def _hits(bucket: Bucket, subject: Subject, spent: Mapping[str, int]) -> list[RuleHit]:
    hits = []
    for rule in bucket.rules:
        # Most rules part here, and a call is what takes most of the time.
        if rule.checks and not rule.checks[0][1](subject):
            continue
        hit = hit_of(rule, subject, spent)
        if hit is not None:
            hits.append(hit)
    return hits


def hit_of(rule: CompiledRule, subject: Subject, spent: Mapping[str, int]) -> RuleHit | None:
    """Return what the rule says about the action, if anything. A rule that fails to evaluate
    blocks."""
    try:
        if not rule.applies(subject):
            return None
        limit = rule.rule.limit
        if limit is not None:
            amount = amount_of(rule, subject)
            if _spent(spent, rule.rule.id) + amount <= limit.most:
                return None
    except (ExpressionError, BadAmount) as error:
        why = f"The rule {rule.rule.id} cannot be evaluated: {error}."
        return RuleHit(rule.rule.id, Verdict.BLOCK, why)
    return rule.hit


def amount_of(rule: CompiledRule, subject: Subject) -> int:
    """Return what the action would spend of the rule's limit. Raises BadAmount or
    ExpressionError."""
    assert rule.rule.limit is not None
    if rule.amount is None:
        return rule.rule.limit.count
    amount = rule.amount.evaluate(subject.scope)
    if type(amount) is not int or not 0 <= amount <= MAX_AMOUNT:
        raise BadAmount(
            f"an amount must be a whole number from 0 to {MAX_AMOUNT}, not {str(amount)[:40]!r}"
        )
    return amount


def _spent(spent: Mapping[str, int], rule_id: str) -> int:
    amount = spent.get(rule_id, 0)
    if type(amount) is not int or amount < 0:
        raise BadAmount("what was spent before is not known")
    return amount


def _strictest_first(hit: RuleHit) -> tuple[int, str]:
    return -hit.verdict.strictness, hit.rule_id


def _has(hits: tuple[RuleHit, ...], verdict: Verdict) -> bool:
    return verdict in [hit.verdict for hit in hits]


def _once_approved(hits: tuple[RuleHit, ...], stage: Verdict) -> Verdict:
    """Return the verdict after a yes, which lifts the asking and nothing else."""
    others = [hit.verdict for hit in hits if hit.verdict is not Verdict.ASK]
    if stage is not Verdict.ASK:
        others.append(stage)
    return max(others, key=lambda verdict: verdict.strictness, default=Verdict.ALLOW)


def _of_world(
    stand_in: StandInTerms, subject: Subject, hits: tuple[RuleHit, ...], bucket: Bucket
) -> Decision:
    """Decide on an action that a stand-in answers. Nothing gets out, so the stage has nothing to
    say; rules have."""
    if stand_in.is_real(subject.action):
        usual, why = Verdict.ALLOW, "It reads, and reads are real there."
    else:
        usual, why = Verdict.SIMULATE, f"{stand_in.service} stands in for {stand_in.place}."
    verdict, by = usual, "world"
    if hits and hits[0].verdict.strictness > usual.strictness:
        verdict, by, why = hits[0].verdict, hits[0].rule_id, hits[0].why
    then = _once_approved(hits, usual) if verdict is Verdict.ASK else usual
    carried_out = then if verdict is Verdict.ASK else verdict
    fault = _fault(hits, bucket) if carried_out is Verdict.FAULT else None
    is_draft = stand_in.reads_are_real and carried_out is Verdict.SIMULATE
    return Decision(verdict, by, why, subject.effect, hits, is_draft, fault, then)


def _fault(hits: tuple[RuleHit, ...], bucket: Bucket) -> Mapping[str, Any]:
    """Return the fault to inject; of several, that of the rule whose id comes first."""
    first = next(hit.rule_id for hit in hits if hit.verdict is Verdict.FAULT)
    return next(compiled.rule.fault for compiled in bucket.rules if compiled.rule.id == first) or {}


def _failed(action: Action, error: BaseException) -> Decision:
    reason = str(error).split("\n")[0][:200] or type(error).__name__
    # It could not be told what the action does, so it is taken for the worst.
    return Decision(Verdict.BLOCK, "error", f"It could not be decided: {reason}.", Effect.ADMIN)
