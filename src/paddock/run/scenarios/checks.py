"""A run against what was expected of it. What cannot be told is a failure, never a pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from paddock.model.action import Kind, Outcome
from paddock.model.errors import PaddockError
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.steps import AGENT_STEP
from paddock.policy.expressions import ExpressionError
from paddock.run.scenarios.actions import Findings, RunAction, Search
from paddock.run.scenarios.expressions import WorldCondition, does_match, json_condition
from paddock.run.scenarios.terms import ActionTerms, Expectations, FileTerms, TextTerms

if TYPE_CHECKING:
    from paddock.run.scenarios.end_state import FilesLeft
    from paddock.run.scenarios.result import RunResult

_LISTED = 5
_SHOWN = 200  # characters of a text
# Which command shows more of what an expectation is about, where it is not about a step.
_LOOKS = {
    "files": "files",
    "world": "world show",
    "invariants": "world show",
    "verdicts": "verdicts",
    "faults": "verdicts",
}


class FailedCheck(msgspec.Struct, frozen=True):
    """One thing that is not as expected."""

    where: str  # as in expect.actions.must[0]
    expected: str
    found: str
    step: int | None = None

    def look(self, run: str) -> str:
        """Return the command that shows more."""
        if self.step is not None:
            return f"paddock show {run} --step {self.step}"
        part = self.where.removeprefix("expect.").partition(".")[0].partition("[")[0]
        return f"paddock {_LOOKS.get(part, 'show')} {run}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Bar(msgspec.Struct, frozen=True):
    """Expectations made ready: expressions compiled against the places of the world."""

    terms: Expectations
    world: tuple[WorldCondition, ...] = ()


def judge(result: RunResult, bar: Bar) -> list[FailedCheck]:
    """Return everything that is not as expected, in the order of the file."""
    failures: list[FailedCheck] = []
    for check in _CHECKS:
        try:
            failures += check(result, bar)
        except (PaddockError, OSError, ValueError) as error:
            where = f"expect.{check.__name__.strip('_')}"
            failures.append(FailedCheck(where, "something that can be looked at", str(error)[:500]))
    return failures


def _exit(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    exits, code = bar.terms.exits, result.exit_code
    if code is None:
        yield FailedCheck("expect.exit", _exits(exits), _cut_off(result), 1)
    elif exits is not None and code not in exits:
        last = next((line for line in reversed(result.stderr.splitlines()) if line.strip()), "")
        ending = f"exit {code}" + (f": {shown(last, 200)}" if last else "")
        yield FailedCheck("expect.exit", _exits(exits), ending, 1)


def _cut_off(result: RunResult) -> str:
    """Return why there is no exit status."""
    first = result.steps[0] if result.steps else None
    if first is not None and first.outcome is Outcome.REFUSED:
        return f"the agent was not started: {first.decided_by}: {first.error or first.why}"
    return f"it did not end by itself: {result.ended_by or 'the journal has no end'}"


def _exits(exits: tuple[int, ...] | None) -> str:
    if exits is None:
        return "an end of its own"
    if len(exits) > _LISTED:
        return "an exit status other than 0"
    return "exit " + " or ".join(map(str, exits))


def _output(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    yield from _text("expect.output", result.stdout, bar.terms.output, AGENT_STEP)
    yield from _text("expect.errors", result.stderr, bar.terms.errors, AGENT_STEP)


def _text(
    where: str, text: str, terms: TextTerms, step: int | None = None
) -> Iterator[FailedCheck]:
    content = f"it is {shown(text)!r}" if text else "it is empty"
    for part in terms.contains:
        if part not in text:
            yield FailedCheck(f"{where}.contains", f"{part!r} in it", content, step)
    for part in terms.lacks:
        if part in text:
            at = text.index(part)
            around = f"{shown(text[max(0, at - 40) : at + 80])!r}"
            yield FailedCheck(f"{where}.lacks", f"no {part!r} in it", around, step)
    for pattern in terms.matches:
        if not does_match(pattern, text):
            yield FailedCheck(f"{where}.matches", f"a match of {pattern!r}", content, step)
    if terms.equals is not None and text != terms.equals:
        difference = _text_difference(terms.equals, text)
        yield FailedCheck(f"{where}.equals", f"{shown(terms.equals)!r}", difference, step)


def _text_difference(expected: str, text: str) -> str:
    """Return the first line that differs."""
    expected_lines, lines = expected.splitlines(), text.splitlines()
    for number, (wanted, line) in enumerate(zip(expected_lines, lines, strict=False), 1):
        if wanted != line:
            return f"line {number} is {shown(line)!r}, not {shown(wanted)!r}"
    if len(expected_lines) != len(lines):
        return f"{many(len(lines), 'line')}, not {len(expected_lines)}"
    return "it ends otherwise"


def _files(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    for terms in bar.terms.files:
        yield from _file(f"expect.files.{terms.path}", result.files, terms)


def _file(where: str, files: FilesLeft, terms: FileTerms) -> Iterator[FailedCheck]:
    """Check one file. Raises InvalidInput for a file that cannot be read."""
    is_there = terms.path in files
    if is_there and not terms.is_there:
        yield FailedCheck(f"{where}.exists", "it is not there", "it is there")
    if not is_there and terms.is_there:
        names = _changed_names(files)
        yield FailedCheck(f"{where}.exists", "it is there", f"it is not there; there are {names}")
    if not is_there or not terms.is_there:
        return
    if not terms.text.is_empty:
        yield from _text(where, files[terms.path], terms.text)
    if terms.conditions:
        yield from _json(f"{where}.json", files[terms.path], terms.conditions)


def _changed_names(files: FilesLeft) -> str:
    names = files.changed()
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    return listed or "no files that were changed"


def _json(where: str, text: str, conditions: tuple[str, ...]) -> Iterator[FailedCheck]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield FailedCheck(where, "JSON", f"it is none ({error}): {shown(text)!r}")
        return
    for condition in conditions:
        try:
            if not json_condition(condition)(document):
                yield FailedCheck(where, condition, f"it does not hold: $ is {shown(text)}")
        except ExpressionError as error:
            yield FailedCheck(where, condition, f"it cannot be told ({error}): $ is {shown(text)}")


def shown(text: str, most: int = _SHOWN) -> str:
    """Return a text on one line, not longer than that, without what a terminal would obey."""
    return printable(" ".join(text[: most * 4].split()) if text else text, most)


def _world(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    for number, condition in enumerate(bar.world):
        where = f"expect.world[{number}]"
        try:
            if not condition.holds(result.world):
                yield FailedCheck(
                    where, condition.source, f"it does not hold: {_state(condition, result.world)}"
                )
        except ExpressionError as error:
            yield FailedCheck(where, condition.source, f"it cannot be told: {error}")


def _state(condition: WorldCondition, world: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what the condition looked at."""
    parts = []
    for host, kind in dict.fromkeys(condition.roots.values()):
        value = world.get(host, {})
        value = value if kind is None else value.get(kind, [])
        name = host if kind is None else f"{host}.{kind}"
        parts.append(f"{name} is {shown(json.dumps(value, default=str), 300)}")
    return "; ".join(parts) or "the world is otherwise"


def _actions(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    for number, terms in enumerate(bar.terms.must):
        yield from _must(f"expect.actions.must[{number}]", terms, result.steps)
    for number, terms in enumerate(bar.terms.must_not):
        yield from _must_not(f"expect.actions.must_not[{number}]", terms, result.steps)


def _must(where: str, terms: ActionTerms, actions: tuple[RunAction, ...]) -> Iterator[FailedCheck]:
    findings = Search(terms).among(actions)
    count = len(findings.found)
    if terms.count.holds(count):
        return
    text = f"{count}" + (f": {_listed(findings.found)}" if count else "")
    if findings.unclear:
        text += f"; {_unclear(findings)}"
    elif not count:
        near = [
            action
            for action in actions
            if action.kind in terms.kinds and not action.recorded.is_agent
        ]
        text += f"; of that kind there were {_listed(tuple(near))}" if near else ""
    at: int | None = None
    if count:
        at = findings.found[-1].step
    elif findings.unclear:
        at = findings.unclear[0][0].step
    yield FailedCheck(where, f"{terms.count} of {_words(terms)}", text, at)


def _must_not(
    where: str, terms: ActionTerms, actions: tuple[RunAction, ...]
) -> Iterator[FailedCheck]:
    findings = Search(terms).among(actions)
    expected = f"none of {_words(terms)}"
    if findings.found:
        first = findings.found[0]
        how = f", decided: {first.verdict} by {first.decided_by}" if first.verdict else ""
        text = f"{len(findings.found)}: {_listed(findings.found)}{how}"
        yield FailedCheck(where, expected, text, first.step)
    elif findings.unclear:
        yield FailedCheck(where, expected, _unclear(findings), findings.unclear[0][0].step)


def _unclear(findings: Findings) -> str:
    action, why = findings.unclear[0]
    return f"of {action} it cannot be told: {why}"


def _listed(actions: tuple[RunAction, ...]) -> str:
    text = ", ".join(map(str, actions[:_LISTED]))
    return text + (f" and {len(actions) - _LISTED} more" if len(actions) > _LISTED else "")


def _words(terms: ActionTerms) -> str:
    parts = [f"{name}: {_word(value)}" for name, value in terms.words.items()]
    return "{" + ", ".join(parts) + "}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _steps(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    span, count = bar.terms.steps, result.report.steps
    if span is not None and not span.holds(count):
        yield FailedCheck("expect.steps", span.of("step"), f"{count}")


def _faults(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    span, struck = bar.terms.faults, result.faults
    count = sum(struck.values())
    if span is None or span.holds(count):
        return
    listed = ", ".join(
        f"{name} {many(times, 'time')}" for name, times in list(struck.items())[:_LISTED]
    )
    text = f"{count}: {listed}" if count else "no fault struck anything"
    yield FailedCheck("expect.faults", f"{span.of('step')} struck by faults", text)


def _cost(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    terms, spent = bar.terms.cost, result.cost
    tokens = spent.input_tokens + spent.output_tokens
    if terms.tokens is not None and tokens > terms.tokens:
        yield FailedCheck("expect.cost.max_tokens", f"at most {terms.tokens} tokens", f"{tokens}")
    if terms.usd_micros is None:
        return
    expected = f"at most ${terms.usd_micros / 1e6:g}"
    if spent.usd_micros > terms.usd_micros:
        spending = f"${spent.usd_micros / 1e6:.6g} for {many(spent.calls, 'call')}"
        yield FailedCheck("expect.cost.max_usd", expected, spending)
        return
    for action in result.steps:
        if (
            action.kind is Kind.MODEL
            and "input_tokens" in action.cost
            and "usd_micros" not in action.cost
        ):
            why = f"it cannot be told: the price of {action.name} is not known"
            yield FailedCheck("expect.cost.max_usd", expected, why, action.step)
            return


def _verdicts(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    if not bar.terms.verdicts:
        return
    verdicts = result.verdicts.verdicts
    for name, span in bar.terms.verdicts.items():
        matching = [
            verdict for verdict in verdicts
            if verdict.judgement.value.replace("-", "_") == name
            or (name == "bad" and verdict.judgement.is_bad)
        ]  # fmt: skip
        if span.holds(len(matching)):
            continue
        text = f"{len(matching)}"
        if matching:
            text += f": step {matching[0].step}, {' '.join(matching[0].sentences)}"
        step = matching[0].step if matching else None
        yield FailedCheck(f"expect.verdicts.{name}", f"{span.of('time')} {name}", text, step)


def _alerts(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    terms, alerts = bar.terms.alerts, result.alerts
    if terms is None:
        return
    if terms.names is None:
        count = sum(alert.times for alert in alerts)
        if not terms.count.holds(count):
            names = ", ".join(dict.fromkeys(alert.name for alert in alerts))
            text = f"{count}" + (f": {names}" if names else "")
            yield FailedCheck("expect.alerts", f"{terms.count} alerts", text, _first(alerts))
        return
    for name in terms.names:
        if all(alert.name != name for alert in alerts):
            yield FailedCheck("expect.alerts", f"the alert {name}", "it was not raised")
    others = [alert for alert in alerts if alert.name not in terms.names]
    if others:
        names = ", ".join(
            f"{alert.name} {shown(json.dumps(dict(alert.about)), 100)}" for alert in others
        )
        expected = f"no alerts but {', '.join(terms.names)}" if terms.names else "no alerts"
        yield FailedCheck("expect.alerts", expected, shown(names, 400), _first(others))


def _first(alerts: Any) -> int | None:
    return next((alert.steps[0] for alert in alerts if alert.steps), None)


def _invariants(result: RunResult, bar: Bar) -> Iterator[FailedCheck]:
    if not bar.terms.do_invariants_hold:
        return
    world = result.report.world
    if world is None or world.error:
        why = f"it cannot be told: {world.error}" if world else "the run has no world"
        yield FailedCheck("expect.invariants", "all invariants hold", why)
        return
    for host, sentences in world.broken.items():
        text = f"{host}: {shown(' '.join(sentences), 400)}"
        yield FailedCheck("expect.invariants", "all invariants hold", text)


_CHECKS = (
    _exit, _output, _files, _world, _actions, _steps, _faults, _cost, _verdicts, _alerts,
    _invariants,
)  # fmt: skip
