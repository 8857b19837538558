"""The actions of a run as its journal has them, and the search among them by the words of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paddock.journal.codec import body_of
from paddock.journal.log import RunLog
from paddock.model.action import Action, Effect, Kind, Outcome, Verdict
from paddock.model.events import ProgramStarted, Proposed, Record
from paddock.model.steps import Program, Step
from paddock.policy.compile import CompiledRule, compile_rule
from paddock.policy.expressions import ExpressionError
from paddock.policy.fields import Unmatchable
from paddock.policy.rules import Rule
from paddock.policy.subject import Subject
from paddock.run.scenarios.terms import ActionTerms

_OUTWARD = (Kind.HTTP, Kind.CONNECT, Kind.DNS, Kind.MODEL)
_OF_PROGRAM = ("program", "argv", "cwd", "real_path", "same_as", "is_writable")
_MAX_SHOWN = 100


class RunAction:
    """One action of a run, for whoever checks it: a step, or a program that a program started,
    which has no decision of its own."""

    __slots__ = ("_decided", "action", "program", "recorded")

    def __init__(self, recorded: Step, program: Program | None = None) -> None:
        self.recorded = recorded
        self.program = program
        self.action = _action_of(recorded) if program is None else _start_of(recorded, program)
        self._decided = recorded if program is None else Step(recorded.number, ())

    def __str__(self) -> str:
        """Return what it is in a few words: `step 3 (POST api.example/v1/refunds)`."""
        arguments = self.arguments
        if self.kind is Kind.HTTP:
            text = f"{arguments.get('method')} {arguments.get('host')}{arguments.get('path')}"
        elif self.kind is Kind.EXEC:
            argv = arguments.get("argv")
            text = " ".join(map(str, argv)) if isinstance(argv, list) else self.name
        else:
            text = f"{self.kind} {self.name}"
        if len(text) > _MAX_SHOWN:
            text = text[: _MAX_SHOWN - 3] + "..."
        return f"step {self.step} ({text})"

    def __repr__(self) -> str:
        return f"<RunAction: {self}>"

    @property
    def is_observed(self) -> bool:
        """Return whether it is a program that was only seen to start."""
        return self.program is not None

    @property
    def step(self) -> int:
        """The number of its step."""
        return self.recorded.number

    @property
    def kind(self) -> Kind:
        return self.action.kind

    @property
    def name(self) -> str:
        return self.action.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.action.arguments

    @property
    def effect(self) -> Effect:
        return self.action.effect

    @property
    def context(self) -> Mapping[str, Any]:
        return self.action.context

    @property
    def parent(self) -> int | None:
        """The step that caused it."""
        return self.recorded.parent

    @property
    def verdict(self) -> Verdict | None:
        return self._decided.verdict

    @property
    def decided_by(self) -> str | None:
        return self._decided.decided_by

    @property
    def why(self) -> str | None:
        return self._decided.why

    @property
    def outcome(self) -> Outcome | None:
        return self._decided.outcome

    @property
    def result(self) -> Any:
        """The result; of a long one, its beginning."""
        settled = self._decided.settled
        return None if settled is None else settled.result

    @property
    def error(self) -> str | None:
        return self._decided.error

    @property
    def cost(self) -> Mapping[str, Any]:
        return self._decided.cost


class Findings(msgspec.Struct, frozen=True):
    """The actions that were found, and those of which it cannot be told, each with why."""

    found: tuple[RunAction, ...]
    unclear: tuple[tuple[RunAction, str], ...] = ()


def read_actions(log: RunLog) -> Iterator[RunAction]:
    """Yield all steps in order, each followed by the programs that it caused."""
    for step in log.steps():
        if step.proposed is None:
            continue
        whole = Step(step.number, [_with_arguments(log, record) for record in step.records])
        if whole.proposed is None:
            continue
        yield RunAction(whole)
        for program in _other_programs(whole):
            yield RunAction(whole, program)


class Search:
    """Terms made ready to be asked about actions."""

    def __init__(self, terms: ActionTerms) -> None:
        """Raises InvalidInput for an expression that is none."""
        self._terms = terms
        kinds = terms.kinds or (Kind.HTTP,)
        # Not a grant: of several values of an action, one that matches is enough.
        rule = Rule("sought", kinds, Verdict.BLOCK, terms.match, terms.unless, terms.when)
        self._rules = {kind: compile_rule(rule, kind) for kind in kinds}
        if not terms.kinds:  # whatever goes to the host: all of them name it in the same way
            self._rules = dict.fromkeys(_OUTWARD, self._rules[Kind.HTTP])

    def among(self, actions: tuple[RunAction, ...]) -> Findings:
        """Return those of the actions that the terms are about."""
        matches: list[RunAction] = []
        unclear: list[tuple[RunAction, str]] = []
        for action in actions:
            rule = self._rules.get(action.kind)
            if rule is None or (action.recorded.is_agent and not action.is_observed):
                continue
            try:
                if self._is_wanted(action) and _applies(rule, action):
                    matches.append(action)
            except (ExpressionError, Unmatchable, ValueError) as error:
                unclear.append((action, str(error)))
        return Findings(tuple(matches), tuple(unclear))

    def _is_wanted(self, action: RunAction) -> bool:
        terms = self._terms
        if terms.decided and action.verdict not in terms.decided:
            return False
        return not terms.outcomes or action.outcome in terms.outcomes


def _applies(rule: CompiledRule, action: RunAction) -> bool:
    return rule.applies(Subject(action.action, action.effect))


def _action_of(step: Step) -> Action:
    """Return the action of a step with the effect that was computed for it."""
    assert step.proposed is not None and step.effect is not None
    kind, name, context = step.proposed.kind, step.name, step.context
    return Action(kind, name, step.arguments, step.effect, step=step.number, context=context)


def _start_of(step: Step, program: Program) -> Action:
    """Return the start of a program as an action."""
    started = body_of(program.started)
    arguments = {key: started[key] for key in _OF_PROGRAM if key in started}
    return Action(Kind.EXEC, program.started.program, arguments, Effect.WRITE, step=step.number)


def _with_arguments(log: RunLog, record: Record) -> Record:
    """Return the record, with large values if it is a proposal or the start of a program: rules
    look at the arguments of both."""
    is_looked_at = isinstance(record.event, Proposed | ProgramStarted)
    return log.whole(record) if is_looked_at else record


def _other_programs(step: Step) -> list[Program]:
    """Return what the fence saw start, but for the program that the step itself is."""
    programs = step.programs
    if step.kind is not Kind.EXEC or not programs:
        return programs
    is_own = step.is_agent or programs[0].started.argv == step.arguments.get("argv")
    return programs[1:] if is_own else programs
