"""A run against what was expected of it. What cannot be told is a failure, never a pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from paddock.model.errors import PaddockError
from paddock.model.plural import many
from paddock.model.values import dataclass
from paddock.policy.expressions import ExpressionError
from paddock.run.scenarios.expressions import WorldCondition
from paddock.run.scenarios.judging_texts import file_failures, shown, text_failures
from paddock.run.scenarios.steps import Search, StepSeen
from paddock.run.scenarios.terms import ActionTerms, Expectations

if TYPE_CHECKING:
    from paddock.run.scenarios.result import RunResult

_LISTED = 5
# Which command shows more of what an expectation is about, where it is not about a step.
_LOOKS = {
    "files": "files",
    "world": "world show",
    "invariants": "world show",
    "verdicts": "verdicts",
    "faults": "verdicts",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is not as expected."""

    where: str  # as in expect.actions.must[0]
    expected: str
    found: str
    step: int | None = None

    def look(self, run: str) -> str:
        """The command that shows more."""
        if self.step is not None:
            return f"paddock show {run} --step {self.step}"
        part = self.where.removeprefix("expect.").partition(".")[0].partition("[")[0]
        return f"paddock {_LOOKS.get(part, 'show')} {run}"

    def as_json(self) -> dict[str, Any]:
        return {
            "where": self.where,
            "expected": self.expected,
            "found": self.found,
            "step": self.step,
        }


@dataclass(frozen=True, slots=True)
class Bar:
    """Expectations made ready: expressions compiled against the places of the world."""

    terms: Expectations
    world: tuple[WorldCondition, ...] = ()


def judge(result: RunResult, bar: Bar) -> list[Failure]:
    """All that is not as expected, in the order of the file."""
    found: list[Failure] = []
    for check in _CHECKS:
        try:
            found += check(result, bar)
        except (PaddockError, OSError, ValueError) as error:
            where = f"expect.{check.__name__.strip('_')}"
            found.append(Failure(where, "something that can be looked at", str(error)[:500]))
    return found


def _exit(result: RunResult, bar: Bar) -> Iterator[Failure]:
    exits, code = bar.terms.exits, result.exit_code
    if code is None:
        yield Failure("expect.exit", _exits(exits), _cut_off(result), 1)
    elif exits is not None and code not in exits:
        last = next((line for line in reversed(result.stderr.splitlines()) if line.strip()), "")
        said = f"exit {code}" + (f": {shown(last, 200)}" if last else "")
        yield Failure("expect.exit", _exits(exits), said, 1)


def _cut_off(result: RunResult) -> str:
    """Why there is no exit status."""
    first = result.steps[0] if result.steps else None
    if first is not None and first.outcome == "refused":
        return f"the agent was not started: {first.decided_by}: {first.error or first.why}"
    return f"it did not end by itself: {result.ended_by or 'the journal has no end'}"


def _exits(exits: tuple[int, ...] | None) -> str:
    if exits is None:
        return "an end of its own"
    if len(exits) > _LISTED:
        return "an exit status other than 0"
    return "exit " + " or ".join(map(str, exits))


def _output(result: RunResult, bar: Bar) -> Iterator[Failure]:
    yield from _of_texts("expect.output", text_failures(result.stdout, bar.terms.output))
    yield from _of_texts("expect.errors", text_failures(result.stderr, bar.terms.errors))


def _of_texts(where: str, wrong: Iterator[tuple[str, str, str]]) -> Iterator[Failure]:
    for word, expected, found in wrong:
        yield Failure(f"{where}.{word}", expected, found, 1)


def _files(result: RunResult, bar: Bar) -> Iterator[Failure]:
    for terms in bar.terms.files:
        where = f"expect.files.{terms.path}"
        for word, expected, found in file_failures(result.files, terms):
            yield Failure(f"{where}.{word}", expected, found)


def _world(result: RunResult, bar: Bar) -> Iterator[Failure]:
    for number, one in enumerate(bar.world):
        where = f"expect.world[{number}]"
        try:
            if not one.holds(result.world):
                yield Failure(where, one.source, f"it does not hold: {_state(one, result.world)}")
        except ExpressionError as error:
            yield Failure(where, one.source, f"it cannot be told: {error}")


def _state(one: WorldCondition, world: Mapping[str, Mapping[str, Any]]) -> str:
    """What the condition looked at."""
    parts = []
    for place, kind in dict.fromkeys(one.roots.values()):
        value = world.get(place, {})
        value = value if kind is None else value.get(kind, [])
        name = place if kind is None else f"{place}.{kind}"
        parts.append(f"{name} is {shown(json.dumps(value, default=str), 300)}")
    return "; ".join(parts) or "the world is otherwise"


def _actions(result: RunResult, bar: Bar) -> Iterator[Failure]:
    for number, terms in enumerate(bar.terms.must):
        yield from _must(f"expect.actions.must[{number}]", terms, result.steps)
    for number, terms in enumerate(bar.terms.must_not):
        yield from _must_not(f"expect.actions.must_not[{number}]", terms, result.steps)


def _must(where: str, terms: ActionTerms, steps: tuple[StepSeen, ...]) -> Iterator[Failure]:
    findings = Search(terms).among(steps)
    count = len(findings.found)
    if terms.count.holds(count):
        return
    said = f"{count}" + (f": {_listed(findings.found)}" if count else "")
    if findings.unclear:
        step, why = findings.unclear[0]
        said += f"; of step {step.step} ({step.what}) it cannot be told: {why}"
    elif not count:
        near = [one for one in steps if one.kind in terms.kinds and one.step > 1]
        said += f"; of that kind there were {_listed(tuple(near))}" if near else ""
    at = findings.found[-1] if count else findings.unclear[0][0] if findings.unclear else None
    yield Failure(where, f"{terms.count} of {_words(terms)}", said, at.step if at else None)


def _must_not(where: str, terms: ActionTerms, steps: tuple[StepSeen, ...]) -> Iterator[Failure]:
    findings = Search(terms).among(steps)
    expected = f"none of {_words(terms)}"
    if findings.found:
        first = findings.found[0]
        how = f", decided: {first.verdict} by {first.decided_by}" if first.verdict else ""
        said = f"{len(findings.found)}: {_listed(findings.found)}{how}"
        yield Failure(where, expected, said, first.step)
    elif findings.unclear:
        step, why = findings.unclear[0]
        said = f"of step {step.step} ({step.what}) it cannot be told: {why}"
        yield Failure(where, expected, said, step.step)


def _listed(steps: tuple[StepSeen, ...]) -> str:
    said = ", ".join(f"step {one.step} ({one.what})" for one in steps[:_LISTED])
    return said + (f" and {len(steps) - _LISTED} more" if len(steps) > _LISTED else "")


def _words(terms: ActionTerms) -> str:
    parts = [f"{name}: {_word(one)}" for name, one in terms.words.items()]
    return "{" + ", ".join(parts) + "}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _steps(result: RunResult, bar: Bar) -> Iterator[Failure]:
    span, count = bar.terms.steps, result.report.steps
    if span is not None and not span.holds(count):
        yield Failure("expect.steps", span.of("step"), f"{count}")


def _faults(result: RunResult, bar: Bar) -> Iterator[Failure]:
    span, struck = bar.terms.faults, result.faults
    count = sum(struck.values())
    if span is None or span.holds(count):
        return
    said = ", ".join(
        f"{name} {many(times, 'time')}" for name, times in list(struck.items())[:_LISTED]
    )
    found = f"{count}: {said}" if count else "no fault struck anything"
    yield Failure("expect.faults", f"{span.of('step')} struck by faults", found)


def _cost(result: RunResult, bar: Bar) -> Iterator[Failure]:
    terms, spent = bar.terms.cost, result.cost
    tokens = spent.input_tokens + spent.output_tokens
    if terms.tokens is not None and tokens > terms.tokens:
        yield Failure("expect.cost.max_tokens", f"at most {terms.tokens} tokens", f"{tokens}")
    if terms.usd_micros is None:
        return
    expected = f"at most ${terms.usd_micros / 1e6:g}"
    if spent.usd_micros > terms.usd_micros:
        found = f"${spent.usd_micros / 1e6:.6g} for {many(spent.calls, 'call')}"
        yield Failure("expect.cost.max_usd", expected, found)
        return
    for one in result.steps:
        if one.kind == "model" and "input_tokens" in one.cost and "usd_micros" not in one.cost:
            said = f"it cannot be told: the price of {one.name} is not known"
            yield Failure("expect.cost.max_usd", expected, said, one.step)
            return


def _verdicts(result: RunResult, bar: Bar) -> Iterator[Failure]:
    if not bar.terms.verdicts:
        return
    verdicts = result.verdicts.verdicts
    for name, span in bar.terms.verdicts.items():
        found = [
            one for one in verdicts
            if one.judgement.value.replace("-", "_") == name
            or (name == "bad" and one.judgement.is_bad)
        ]  # fmt: skip
        if span.holds(len(found)):
            continue
        said = f"{len(found)}"
        if found:
            said += f": step {found[0].step}, {' '.join(found[0].sentences)}"
        step = found[0].step if found else None
        yield Failure(f"expect.verdicts.{name}", f"{span.of('time')} {name}", said, step)


def _alerts(result: RunResult, bar: Bar) -> Iterator[Failure]:
    terms, alerts = bar.terms.alerts, result.alerts
    if terms is None:
        return
    if terms.names is None:
        count = sum(one.times for one in alerts)
        if not terms.count.holds(count):
            said = ", ".join(dict.fromkeys(one.name for one in alerts))
            found = f"{count}" + (f": {said}" if said else "")
            yield Failure("expect.alerts", f"{terms.count} alerts", found, _first(alerts))
        return
    for name in terms.names:
        if all(one.name != name for one in alerts):
            yield Failure("expect.alerts", f"the alert {name}", "it was not raised")
    others = [one for one in alerts if one.name not in terms.names]
    if others:
        said = ", ".join(f"{one.name} {shown(json.dumps(dict(one.about)), 100)}" for one in others)
        wanted = f"no alerts but {', '.join(terms.names)}" if terms.names else "no alerts"
        yield Failure("expect.alerts", wanted, shown(said, 400), _first(others))


def _first(alerts: Any) -> int | None:
    return next((one.steps[0] for one in alerts if one.steps), None)


def _invariants(result: RunResult, bar: Bar) -> Iterator[Failure]:
    if not bar.terms.do_invariants_hold:
        return
    world = result.report.world
    if world is None or world.error:
        said = f"it cannot be told: {world.error}" if world else "the run has no world"
        yield Failure("expect.invariants", "all invariants hold", said)
        return
    for place, sentences in world.broken.items():
        found = f"{place}: {shown(' '.join(sentences), 400)}"
        yield Failure("expect.invariants", "all invariants hold", found)


_CHECKS = (
    _exit, _output, _files, _world, _actions, _steps, _faults, _cost, _verdicts, _alerts,
    _invariants,
)  # fmt: skip
