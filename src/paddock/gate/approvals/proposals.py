"""The meaning of an approver's "always": a narrow change of the rules that is written down for
review. Nothing here changes a policy; a person puts the rule into the paddock file, or does not.

The strictest rule wins, so that no new rule can lift an ask. What is proposed is the asking rule
with an exception for calls like this one, or, where the stage asked, a grant of them. What is alike
is said by `call_pattern`: of a tool exactly the call, of a request its host, method and path.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.gate.approvals import APPROVED, Approval
from paddock.gate.approvals.call_pattern import CallPattern, literal, pattern_of
from paddock.gate.drafts import action_from_json
from paddock.gate.store import GateStore
from paddock.model.action import Action, Decision, Kind, Verdict
from paddock.model.errors import Conflict, IntegrityError, InvalidInput, NotFound
from paddock.model.printable import printable
from paddock.policy.analysis.examples import failures
from paddock.policy.decide import Policy
from paddock.policy.file import load
from paddock.policy.file.writer import emit
from paddock.policy.problems import PolicyError
from paddock.policy.rules import Rule
from paddock.policy.terms import as_plain

_BY_FIELDS = (Kind.HTTP, Kind.MODEL)  # whose calls are alike by the fields of `match`
_TOO_LONG = "write a rule by hand that says what such calls have in common"


class Proposal(msgspec.Struct, frozen=True):
    """Rules to put into the paddock file: in place of those of the same id, else as new ones."""

    proposal_id: str
    agent: str
    approval_id: str
    made_at: float
    made_by: str
    rules: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()

    def as_yaml(self) -> str:
        """Return the rule as it would stand in the file, below a comment with who proposed it."""
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.made_at))
        by = printable(self.made_by, 80)
        comment = f"Proposed by {by} on {day} UTC, approval {self.approval_id}."
        top = "\n".join([comment, *map(printable, self.notes)])
        comments: dict[tuple[str | int, ...], str] = {("rules",): top}
        for number, rule in enumerate(self.rules):
            is_new = rule["decide"] == Verdict.ALLOW or rule["id"].endswith(self.approval_id)
            how = "new" if is_new else f"in place of the rule {printable(rule['id'], 100)}"
            comments["rules", number] = how
        return emit({"rules": [dict(rule) for rule in self.rules]}, comments)


class Proposals:
    """All proposals of a home."""

    def __init__(self, store: GateStore) -> None:
        self._store = store

    def add(self, approval: Approval, by: str, policy: Policy | None = None) -> Proposal:
        """Write a proposal for an approved call; `policy` where the question does not say what
        asked. Raises InvalidInput when no narrow rule can be written."""
        proposal = propose(approval, by, policy)
        content = json.dumps({"rules": proposal.rules, "notes": proposal.notes})
        with self._store.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO proposals (id, agent, approval, made_at, made_by, rule)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (
                    proposal.proposal_id,
                    proposal.agent,
                    proposal.approval_id,
                    proposal.made_at,
                    by,
                    content,
                ),
            )
        return proposal

    def all(self, agent: str | None = None) -> list[Proposal]:
        """Return all of them, oldest first."""
        query = "SELECT * FROM proposals WHERE ? IS NULL OR agent = ? ORDER BY made_at, id"
        with self._store.connection() as connection:
            return [_proposal(row) for row in connection.execute(query, (agent, agent))]

    def discard(self, proposal_id: str) -> None:
        with self._store.writing() as connection:
            gone = connection.execute("DELETE FROM proposals WHERE id = ?", (proposal_id,))
        if gone.rowcount != 1:
            hint = "paddock approvals proposals shows them"
            raise NotFound(f"no proposal {proposal_id!r}", hint=hint)


def asking_terms(policy: Policy, action: Action, decision: Decision) -> dict[str, Any]:
    """Return the part of a policy that decides on this action: stage, tool, and the rules that
    hit."""
    whole = as_plain(policy.terms)
    hit = {rule_hit.rule_id for rule_hit in decision.hits}
    tools = {name: tool for name, tool in whole.get("tools", {}).items() if name == action.name}
    rules = [rule for rule in whole.get("rules", []) if rule["id"] in hit]
    return {"stage": whole["stage"], "tools": tools, "rules": rules}


def propose(approval: Approval, by: str, policy: Policy | None = None) -> Proposal:
    """Return the proposal for a call that was approved as it was asked."""
    if approval.state != APPROVED:
        raise Conflict(f"approval {approval.approval_id} is {approval.state}, not approved")
    return sketch(approval, by, policy)


def sketch(approval: Approval, by: str, policy: Policy | None = None) -> Proposal:
    """Return what a yes to a question would propose. Raises InvalidInput when no rule can be
    written."""
    action = asked_action(approval)
    terms = _terms(approval, action, policy)
    _check_limits(terms, approval)
    pattern = pattern_of(action)
    rules = list(_amended(terms, approval, action, pattern))
    notes = list(pattern.notes)
    if _decide(terms, rules, approval, action).verdict is Verdict.ASK:
        grant = _grant(approval, action, pattern, by)
        if _decide(terms, [*rules, grant], approval, action).verdict is not Verdict.ASK:
            rules.append(grant)
        else:
            rules = rules or [grant]
            notes.append(f"The stage {terms['stage']} asks anyway; it takes effect above it.")
    return Proposal(
        approval.approval_id,
        approval.agent,
        approval.approval_id,
        time.time(),
        by,
        tuple(rules),
        tuple(notes),
    )


def asked_action(approval: Approval) -> Action:
    """Return the action that a question is about, as it is shown."""
    return action_from_json(approval.content)


def _terms(approval: Approval, action: Action, policy: Policy | None) -> Mapping[str, Any]:
    if "terms" in approval.content:
        terms: Mapping[str, Any] = approval.content["terms"]
        return terms
    if policy is None:
        raise InvalidInput("it is not known what the rule says", hint="give the file with --file")
    if policy.digest != approval.policy:
        raise InvalidInput(
            "the file is not the one under which it was asked",
            hint="a rule that has changed since must be amended by hand",
        )
    return asking_terms(policy, action, policy.decide(action))


def _check_limits(terms: Mapping[str, Any], approval: Approval) -> None:
    rule_ids = set(approval.content["asked_by"])
    rules = {rule["id"]: rule for rule in terms["rules"]}
    for rule_id in sorted(rule_ids):
        if not rule_id.startswith("stage:") and "limit" in rules.get(rule_id, {"limit": {}}):
            raise InvalidInput(
                f"the rule {rule_id} asked because its limit was reached",
                hint="an exception would take the call out of the count: raise max by hand instead",
            )


def _amended(
    terms: Mapping[str, Any], approval: Approval, action: Action, pattern: CallPattern
) -> Iterator[dict[str, Any]]:
    """Yield the rules that asked, each with an exception; of a request whose body matters, with a
    rule behind it that goes on asking about any other body."""
    rule_ids = approval.content["asked_by"]
    for rule in terms["rules"]:
        if rule["id"] not in rule_ids:
            continue
        old = _load(terms, [rule], approval).rules[0]
        exception = _exception(old, action, pattern)
        new = {key: content for key, content in {**rule, **exception}.items() if key != "examples"}
        amended = _load(terms, [new], approval).rules[0]
        yield _in_order({**new, **_examples(rule, old, amended, action)})
        if "unless" in exception and pattern.conditions:
            yield _beyond(rule, old, approval, action, pattern)


def _exception(old: Rule, action: Action, pattern: CallPattern) -> dict[str, Any]:
    """Return what makes a rule leave out the calls like the approved one: the fields that it does
    not match anyway, or a condition."""
    if action.kind not in _BY_FIELDS or old.kinds != (action.kind,) or old.unless:
        return {"when": _except(old, action, pattern)}
    fields = {
        name: value for name, value in pattern.fields.items() if old.match.get(name) != (value,)
    }
    if not fields and pattern.conditions:
        return {"when": _other_body(old, pattern)}
    return {"unless": fields or dict(pattern.fields)}


def _other_body(old: Rule, pattern: CallPattern) -> str:
    """Return the condition of a rule, and that the body is not like the approved one."""
    other = " || ".join(condition.negated for condition in pattern.by_parts().conditions)
    return other if old.when is None else f"({_closed(old.when)}) && ({other})"


def _except(old: Rule, action: Action, pattern: CallPattern) -> str:
    """Return the condition of a rule, and that the call is not like the approved one."""
    is_named = old.match.get("name") == (action.name,) and "name" in pattern.fields
    alike = pattern.condition if is_named else pattern.whole
    if old.kinds != (action.kind,):
        alike = f"action.kind == {literal(action.kind.value)} && {alike}"
    when = f"!({alike})"
    return when if old.when is None else f"({_closed(old.when)}) && {when}"


def _beyond(
    rule: Mapping[str, Any], old: Rule, approval: Approval, action: Action, pattern: CallPattern
) -> dict[str, Any]:
    return _in_order({
        "id": f"{rule['id'][:60]}-beyond-{approval.approval_id}",
        "match": {"kind": action.kind.value, **pattern.fields},
        "when": _other_body(old, pattern),
        "decide": rule["decide"],
        "why": rule.get("why") or "It is more than what was approved.",
    })  # fmt: skip


def _closed(expression: str) -> str:
    """Return an expression in brackets; a comment at its end must not swallow the closing one."""
    return f"{expression}\n" if "//" in expression else expression


def _examples(
    plain_rule: Mapping[str, Any], old: Rule, amended: Rule, action: Action
) -> dict[str, Any]:
    """Return the rule's own examples, without those that are an exception now. The call of a tool,
    which is the exception exactly, becomes one as well."""
    examples = plain_rule.get("examples") or {}
    broken = {(key, at) for key, at, _ in failures(replace(amended, examples=old.examples))}
    match = list(examples.get("match", []))
    kept = [example for at, example in enumerate(match) if ("match", at) not in broken]
    not_match = list(examples.get("not_match", []))
    if action.kind is Kind.TOOL:
        name = {} if old.match.get("name") == (action.name,) else {"name": action.name}
        not_match.append({**name, "args": dict(action.arguments)})
    examples = {}
    if kept:
        examples["match"] = kept
    if not_match:
        examples["not_match"] = not_match
    return {"examples": examples} if examples else {}


def _in_order(rule: dict[str, Any]) -> dict[str, Any]:
    keys = ("id", "match", "unless", "when", "limit", "decide", "fault", "why", "examples")
    return {key: rule[key] for key in keys if key in rule}


def _grant(approval: Approval, action: Action, pattern: CallPattern, by: str) -> dict[str, Any]:
    condition = (pattern.by_parts() if action.kind is Kind.HTTP else pattern).condition
    what = "calls like this one" if pattern.notes else "exactly this call"
    return {
        "id": f"always-{approval.approval_id}",
        "match": {"kind": action.kind.value, **pattern.fields},
        **({"when": condition} if condition else {}),
        "decide": "allow",
        "why": f"Approved for {what} by {printable(by, 80)}.",
    }


def _decide(
    terms: Mapping[str, Any], changed: list[dict[str, Any]], approval: Approval, action: Action
) -> Decision:
    """Return what the file would decide with the changed rules in it."""
    by_id = {rule["id"]: rule for rule in [*terms["rules"], *changed]}
    return _load(terms, list(by_id.values()), approval).decide(action)


def _load(terms: Mapping[str, Any], rules: list[Mapping[str, Any]], approval: Approval) -> Policy:
    tools = {**_stand_ins(rules), **terms["tools"]}
    file = {"version": 1, "agent": approval.agent, "stage": terms["stage"], "tools": tools,
            "rules": rules}  # fmt: skip
    try:
        return load(emit({key: value for key, value in file.items() if value}), "proposal")
    except PolicyError as error:
        messages = "; ".join(problem.message for problem in error.problems)
        raise InvalidInput(f"no valid rule can be written: {messages}", hint=_TOO_LONG) from None


def _stand_ins(rules: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return declarations of tools that the rules name and this call does not concern."""
    names = [rule["match"].get("name", []) for rule in rules if "tool" in rule["match"]["kind"]]
    tools = {}
    for patterns in names:
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            tools[pattern.replace("*", "x")] = {"effect": "admin"}
    return tools


def _proposal(row: Any) -> Proposal:
    try:
        content = json.loads(row["rule"])
        rules, notes = tuple(content["rules"]), tuple(content["notes"])
    except (ValueError, TypeError, KeyError):
        raise IntegrityError(f"proposal {row['id']!r} is damaged in the store") from None
    return Proposal(
        row["id"], row["agent"], row["approval"], row["made_at"], row["made_by"], rules, notes
    )
