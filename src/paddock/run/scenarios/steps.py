"""The steps of a run as its journal has them, and the search among them by the words of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from paddock.journal.reader import Reader, Step
from paddock.journal.traffic import mapping
from paddock.model.action import Action, Effect, Kind, Verdict
from paddock.model.values import dataclass
from paddock.policy.compile import CompiledRule, compile_rule
from paddock.policy.expressions import ExpressionError
from paddock.policy.fields import Unmatchable
from paddock.policy.rules import Rule
from paddock.policy.subject import Subject
from paddock.run.scenarios.terms import ActionTerms

AGENT_STEP = 1  # the agent's own command, which nobody proposed
_OUTWARD = (Kind.HTTP, Kind.CONNECT, Kind.DNS, Kind.MODEL)


@dataclass(frozen=True, slots=True)
class StepSeen:
    """One action of a run: what was proposed, decided and done. A program that another program
    started has no decision of its own; `is_observed` says so."""

    step: int
    kind: str
    name: str
    arguments: Mapping[str, Any]
    effect: str = "read"
    context: Mapping[str, Any] = field(default_factory=dict)
    parent: int | None = None
    verdict: str | None = None
    decided_by: str | None = None
    why: str | None = None
    outcome: str | None = None
    result: Any = None  # of a long one, what it begins with
    error: str | None = None
    cost: Mapping[str, Any] = field(default_factory=dict)
    is_observed: bool = False

    @property
    def what(self) -> str:
        """In a few words."""
        arguments = self.arguments
        if self.kind == Kind.HTTP:
            said = f"{arguments.get('method')} {arguments.get('host')}{arguments.get('path')}"
        elif self.kind == Kind.EXEC:
            words = arguments.get("argv")
            said = " ".join(map(str, words)) if isinstance(words, list) else self.name
        else:
            said = f"{self.kind} {self.name}"
        return said if len(said) <= 100 else said[:97] + "..."


@dataclass(frozen=True, slots=True)
class Findings:
    """The actions that were found, and those of which it cannot be told, each with why."""

    found: tuple[StepSeen, ...]
    unclear: tuple[tuple[StepSeen, str], ...] = ()


def read_steps(reader: Reader) -> Iterator[StepSeen]:
    """All steps in order, each followed by the programs that it caused."""
    for step in reader.steps():
        if step.proposed is None:
            continue
        seen = _seen(reader, step)
        yield seen
        yield from _programs(step, seen)


class Search:
    """Terms made ready to be asked about steps."""

    def __init__(self, terms: ActionTerms) -> None:
        """Raises InvalidInput for an expression that is none."""
        self._terms = terms
        kinds = terms.kinds or (Kind.HTTP,)
        # Not a grant: of several values of an action, one that matches is enough.
        rule = Rule("sought", kinds, Verdict.BLOCK, terms.match, terms.unless, terms.when)
        self._rules = {kind.value: compile_rule(rule, kind) for kind in kinds}
        if not terms.kinds:  # whatever goes to the host: all of them name it in the same way
            only = self._rules[Kind.HTTP.value]
            self._rules = {kind.value: only for kind in _OUTWARD}

    def among(self, steps: tuple[StepSeen, ...]) -> Findings:
        found: list[StepSeen] = []
        unclear: list[tuple[StepSeen, str]] = []
        for one in steps:
            rule = self._rules.get(one.kind)
            if rule is None or (one.step == AGENT_STEP and not one.is_observed):
                continue
            try:
                if self._is_wanted(one) and _applies(rule, one):
                    found.append(one)
            except (ExpressionError, Unmatchable, ValueError) as error:
                unclear.append((one, str(error)))
        return Findings(tuple(found), tuple(unclear))

    def _is_wanted(self, one: StepSeen) -> bool:
        terms = self._terms
        if terms.decided and one.verdict not in terms.decided:
            return False
        return not terms.outcomes or one.outcome in terms.outcomes


def _applies(rule: CompiledRule, one: StepSeen) -> bool:
    effect = Effect(one.effect)
    action = Action(
        Kind(one.kind), one.name, one.arguments, effect, step=one.step, context=one.context
    )
    return rule.applies(Subject(action, effect))


def _seen(reader: Reader, step: Step) -> StepSeen:
    assert step.proposed is not None
    proposed = reader.body(step.proposed)
    decided = step.decided.body if step.decided else {}
    settled = step.settled.body if step.settled else {}
    return StepSeen(
        step=step.number,
        kind=str(proposed.get("kind")),
        name=str(proposed.get("name")),
        arguments=mapping(proposed.get("arguments")),
        effect=str(decided.get("effect") or proposed.get("effect") or "read"),
        context=mapping(proposed.get("context")),
        parent=proposed.get("parent"),
        verdict=decided.get("verdict"),
        decided_by=decided.get("decided_by"),
        why=decided.get("why"),
        outcome=settled.get("outcome"),
        result=settled.get("result"),
        error=settled.get("error"),
        cost=mapping(settled.get("cost")),
    )


def _programs(step: Step, seen: StepSeen) -> Iterator[StepSeen]:
    """What the fence saw start, but for the program that the step itself is."""
    is_own = seen.kind == Kind.EXEC
    for record in step.observed:
        body = record.body
        if body.get("what") != "exec":
            continue
        if is_own:
            is_own = False
            if body.get("argv") == seen.arguments.get("argv") or seen.step == AGENT_STEP:
                continue
        keys = ("program", "argv", "cwd", "real_path", "same_as", "is_writable")
        arguments = {key: body[key] for key in keys if key in body}
        name = str(body.get("program"))
        yield StepSeen(
            step.number, "exec", name, arguments, "write", parent=seen.parent, is_observed=True
        )
