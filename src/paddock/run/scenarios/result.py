"""The result of a run for those who check it, read from its journal when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.journal.log import RunLog
from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.model.steps import AGENT_STEP, NO_OBJECT
from paddock.policy.problems import suggest
from paddock.policy.rules import Match
from paddock.run.scenarios.actions import RunAction, Search, read_actions
from paddock.run.scenarios.terms import ActionTerms

if TYPE_CHECKING:
    from paddock.run.report import AlertSeen, RunReport, Spent
    from paddock.run.scenarios.end_state import FilesLeft
    from paddock.world.verdicts import VerdictReport as Verdicts


class RunResult:
    """One run that has ended."""

    def __init__(
        self,
        directory: Path,
        *,
        recorded: Path | None = None,
        world: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Read a run. Of a replay, `recorded` is the journal whose answers it got and `world` the
        state that was left then: the replay itself touched no world."""
        self.directory = directory
        self._recorded = recorded
        self._world = world

    def __repr__(self) -> str:
        return f"RunResult({self.run!r}, exit_code={self.exit_code!r}, steps={self.report.steps})"

    @cached_property
    def report(self) -> RunReport:
        """Counts, alerts, cost, files, marks: what `paddock run` shows at the end."""
        from paddock.run.report import report_of

        return report_of(self.directory)

    @property
    def run(self) -> str:
        """Its id, as `paddock show` takes it."""
        return self.report.run

    @property
    def exit_code(self) -> int | None:
        """The exit code of the agent; None when it did not end by itself."""
        return self.report.exit_code

    @property
    def ended_by(self) -> str | None:
        return self.report.ended_by

    @property
    def stdout(self) -> str:
        """The agent's standard output, as far as the journal stores it."""
        return self._said("stdout")

    @property
    def stderr(self) -> str:
        return self._said("stderr")

    @cached_property
    def steps(self) -> tuple[RunAction, ...]:
        """All actions, and the programs that were seen to start, in order."""
        return tuple(read_actions(RunLog(self.directory)))

    @property
    def cost(self) -> Spent:
        """Calls of models, tokens, and money in millionths of a dollar where prices are known."""
        return self.report.spent

    @property
    def faults(self) -> Mapping[str, int]:
        """Return how many steps each fault on purpose struck; one that struck none is not there."""
        return self.report.faults

    @property
    def alerts(self) -> tuple[AlertSeen, ...]:
        return self.report.alerts

    @cached_property
    def verdicts(self) -> Verdicts:
        """For each fault on purpose, what the agent did after it."""
        from paddock.world.verdicts import judge_run

        return judge_run(RunLog(self._recorded or self.directory))

    @cached_property
    def world(self) -> Mapping[str, Mapping[str, Any]]:
        """The documents of each stand-in by kind: `result.world["api.stripe.com"]["refunds"]`."""
        from paddock.run.scenarios.end_state import world_left

        return world_left(self.directory) if self._world is None else self._world

    @cached_property
    def files(self) -> FilesLeft:
        """The project's files as the agent left them: `result.files["out/report.md"]`."""
        from paddock.run.scenarios.end_state import files_left

        return files_left(self.directory)

    def actions(self, kind: str | None = None, **fields: Any) -> list[RunAction]:
        """Return actions that were proposed, found by the words of rules: `actions(kind="http",
        host="*.example.com", method="POST")`. Also `when`, `decided` and `outcome`."""
        terms = _terms(kind, fields)
        findings = Search(terms).among(self.steps)
        if findings.unclear and terms.when is not None:
            action, why = findings.unclear[0]
            raise InvalidInput(f"when: cannot be told of step {action.step}: {why}")
        return list(findings.found)

    @cached_property
    def _result(self) -> Mapping[str, Any]:
        log = RunLog(self.directory)
        if AGENT_STEP not in log.step_numbers():
            return NO_OBJECT
        return log.whole_step(log.step(AGENT_STEP)).result

    def _said(self, stream: str) -> str:
        text = self._result.get(stream)
        return text if isinstance(text, str) else ""


def _terms(kind: str | None, declared: Mapping[str, Any]) -> ActionTerms:
    from paddock.policy.fields import FIELDS

    values = dict(declared)
    when, decided, outcome = (values.pop(word, None) for word in ("when", "decided", "outcome"))
    kinds = tuple(kind_ for kind_ in Kind if kind in (None, kind_.value))
    if not kinds:
        raise InvalidInput(f"{kind!r} is not a kind of action", hint=suggest(kind, list(Kind)))
    fitting = tuple(kind_ for kind_ in kinds if values.keys() <= FIELDS[kind_].keys())
    if not fitting:
        names = sorted({name for kind_ in kinds for name in FIELDS[kind_]})
        hint = f"there are {', '.join(names)}"
        raise InvalidInput(f"no action has {', '.join(sorted(values))}", hint=hint)
    fields = tuple((name, _patterns(name, kind_)) for name, kind_ in sorted(values.items()))
    return ActionTerms(
        words=declared,
        kinds=fitting,
        match=Match(fields),
        when=when,
        decided=_texts(decided),
        outcomes=_texts(outcome),
    )


def _patterns(name: str, value: Any) -> tuple[Any, ...]:
    if name == "argv":
        return (_texts(value),)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)
