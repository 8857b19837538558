"""The summary of a run as a block of lines: at its end, and for whoever looks at it later."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from paddock.cli.output import counts
from paddock.cli.render.cells import worded
from paddock.cli.render.run_lines import (
    OUTCOMES,
    REPLAY,
    LineStyle,
    alert_text,
    names_text,
    repeats_text,
)
from paddock.cli.render.units import thousands, took, usd_text
from paddock.model.action import Verdict
from paddock.model.events import Diverged
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.sizes import format_size
from paddock.run.report import ENDED, RunReport

_LABEL = 10
_MAX_ALERTS = 8
_MAX_VARIED = 20
_MAX_REPEATS = 12
_RED, _YELLOW = "31", "33"
_WEAKER = ("not ", "off", "watched")  # as the fence says it of a boundary


class _Fact(NamedTuple):
    """A label and what is to be said there; nothing is written for an empty text."""

    label: str
    text: str
    colour: str | None = None


def summary_lines(report: RunReport, style: LineStyle) -> Iterator[str]:
    """Yield what there is something to say about; the run's id always."""
    yield from _lines(
        [
            _Fact("run", _run(report)),
            _state(report),
            _Fact("decided", _decisions(report)),
            _Fact("outcomes", counts(report.outcomes, OUTCOMES)),
            *_rest(report),
            *_boundaries(report),
        ],
        style,
    )
    for at, command in enumerate(_next(report)):
        yield f"{'next' if at == 0 else '':<{_LABEL}}{command}"


def ending_lines(report: RunReport, style: LineStyle) -> Iterator[str]:
    """Yield how a run ended and what is left of it, for below its steps."""
    kind = "" if report.kind == "run" else f"{printable(report.kind, 20)}{_parent(report)}"
    return _lines(
        [
            _Fact("command", printable(shlex.join(report.command), 400)),
            _Fact("kind", kind),
            _state(report),
            _Fact("proved", _proofs(report)),
            *_rest(report),
        ],
        style,
    )


def _lines(facts: Iterable[_Fact], style: LineStyle) -> Iterator[str]:
    for label, text, colour in facts:
        pieces = worded(text, style.width - _LABEL - 1) if text else []
        for at, piece in enumerate(pieces):
            head = label if at == 0 else ""
            yield f"{head:<{_LABEL}}{style.paint(piece, colour)}"


def _rest(report: RunReport) -> Iterator[_Fact]:
    """Yield what is left of a run to look at: answers, files, drafts, world, money, alerts."""
    yield _Fact("asked", _answers(report))
    yield _Fact("faults", counts(report.faults))
    yield _Fact("files", _files(report))
    yield _Fact("differs", _differing_files(report), _YELLOW)
    yield _Fact("drafts", _drafts(report))
    yield from _world(report)
    yield _Fact("spent", _spending(report))
    yield _Fact("prompt", names_text(report.prompts))
    yield _Fact("marks", names_text([mark.text for mark in report.marks]))
    yield from _alerts(report)
    for field, times in sorted(report.varied.items())[:_MAX_VARIED]:
        yield _Fact("let vary", f"{printable(field, 200)}, {many(times, 'step')}")
    yield _Fact("repeated", _repeats(report))
    yield _Fact("record", _left_out(report), _YELLOW)
    if report.divergence is not None:
        yield _Fact("diverged", _divergence(report.divergence), _RED)


def _run(report: RunReport) -> str:
    parent = _parent(report)
    kind = f"{'a ' if parent else ''}{printable(report.kind, 20)}{parent}"
    who = f"agent {_name(report.agent)}, stage {_name(report.stage or '-')}"
    command = printable(shlex.join(report.command), 200) if report.command else ""
    shown = "" if report.kind == "run" else f", {kind}"
    return f"{_name(report.run)}{shown}: {who}{f': {command}' if command else ''}"


def _parent(report: RunReport) -> str:
    lineage = report.lineage
    if lineage is None:
        return ""
    at = "" if lineage.at is None else f" at step {lineage.at}"
    return f" of {_name(lineage.run)}{at}"


def _state(report: RunReport) -> _Fact:
    code = "" if report.exit_code is None else f", exit code {report.exit_code}"
    by = f" ({printable(report.ended_by, 200)})" if report.ended_by else ""
    text = f"after {took(report.duration_us)}{code}{by}, {many(report.steps, 'step')}"
    colour = None if report.is_whole else _YELLOW
    if report.state == ENDED:
        return _Fact("ended", text, colour)
    return _Fact("state", f"{report.state} {text}", colour)


def _decisions(report: RunReport) -> str:
    verdicts = counts(report.verdicts, Verdict)
    again = f"; {report.again} answered from the record" if report.again else ""
    beside = f"; {report.beside} beside" if report.beside else ""
    return f"{verdicts}{again}{beside}" if verdicts else ""


def _answers(report: RunReport) -> str:
    answers = report.answers
    if not answers.asked:
        return ""
    numbers = {
        "approved": answers.approved,
        "edited": answers.edited,
        "denied": answers.denied,
        "without an answer": answers.expired,
    }
    left = max(answers.asked - sum(numbers.values()), 0)
    if report.state == ENDED:
        numbers["without an answer"] += left
    else:
        numbers["still waiting"] = left
    return f"{answers.asked}: {counts(numbers, numbers)}"


def _files(report: RunReport) -> str:
    from paddock.state.tool_config import is_in_repository

    files = report.files
    if files is None or not files.changed:
        return "" if files is None else "none changed"
    parts = {"added": files.added, "modified": files.modified, "deleted": files.deleted}
    inner = sum(is_in_repository(name) for names in parts.values() for name in names)
    texts = []
    for what, names in parts.items():
        outer = tuple(name for name in names if not is_in_repository(name))
        texts += [f"{what}: {names_text(outer)}"] if outer else []
    named = "; ".join(texts)
    lost = f", {files.unstored} of them not stored" if files.unstored else ""
    cut = "; there were more than are recorded" if files.is_cut else ""
    in_brackets = f" ({named})" if named else ""
    in_git = f", and {inner} in .git" if inner else ""
    return f"{files.changed - inner} changed{in_brackets}{in_git}{lost}{cut}"


def _differing_files(report: RunReport) -> str:
    """Return the files of a fork that differed from the record when it went live and stayed so."""
    if not report.files_kept:
        return ""
    files = many(report.files_kept, "file is", "files are")
    rest = report.files_kept - len(report.kept)
    more = f" and {rest} more" if rest > 0 else ""
    return f"{files} in use and not as recorded: {names_text(report.kept)}{more}"


def _drafts(report: RunReport) -> str:
    """Return the drafts of a run. Those of a fork's past wait with the run that made them."""
    past = f"{len(report.past_drafts)} of its past" if report.past_drafts else ""
    return "; ".join(filter(None, (names_text(report.drafts), past)))


def _world(report: RunReport) -> Iterator[_Fact]:
    world = report.world
    if world is None:
        return
    if world.error:
        yield _Fact("world", f"its last state is not known: {printable(world.error, 200)}")
    else:
        changes = counts(world.changes)
        yield _Fact("world", f"changes: {changes}" if changes else "nothing changed")
    for name, invariants in world.broken.items():
        for invariant in invariants[:_MAX_ALERTS]:
            yield _Fact("broken", f"{printable(name, 60)}: {printable(invariant, 300)}", _RED)


def _spending(report: RunReport) -> str:
    spent = report.spent
    if not spent.calls or report.kind == REPLAY:  # which asks no model
        return ""
    tokens = f"{thousands(spent.input_tokens)} tokens in, {thousands(spent.output_tokens)} out"
    price = usd_text(spent.usd_micros) if spent.usd_micros else "price not known"
    return f"{many(spent.calls, 'model call')}: {tokens}, {price}"


def _alerts(report: RunReport) -> Iterator[_Fact]:
    for alert in report.alerts[:_MAX_ALERTS]:
        times = f" ({alert.times} times)" if alert.times > 1 else ""
        steps = f", step {', '.join(map(str, alert.steps[:5]))}" if alert.steps else ""
        text = f"{alert_text(alert.name, alert.about, 300)}{times}{steps}"
        yield _Fact("alert", text, _RED)
    more = len(report.alerts) - _MAX_ALERTS
    if more > 0:
        yield _Fact("alert", f"{more} more: paddock net {_name(report.run)}", _RED)


def _repeats(report: RunReport) -> str:
    """Return the refusals that came so often that the rest was only counted."""
    parts = [repeats_text(*item) for item in list(report.repeats.items())[:_MAX_REPEATS]]
    more = len(report.repeats) - _MAX_REPEATS
    if more > 0:
        parts.append(f"and {many(more, 'more step')}")
    return "; ".join(parts)


def _left_out(report: RunReport) -> str:
    left = report.left_out
    if left is None:
        return ""
    values = ""
    if left.values is not None and left.bytes is not None:
        values = f" of {many(left.values, 'value')} ({format_size(left.bytes)})"
    return (
        f"the budget of {format_size(left.budget_bytes)} is used up: only digest and size"
        f"{values} were kept (record.budget in the paddock file)"
    )


def _boundaries(report: RunReport) -> Iterator[_Fact]:
    """Yield how many boundaries held, and in full those that are weaker than they could be."""
    enforced, proved = report.enforcement, report.proved
    names = {**enforced, **proved}
    if not names:
        return
    count = many(len(names), "boundary", "boundaries")
    tried = f", {len(proved)} of them proved in this run" if proved else ""
    yield _Fact("enforced", f"{count}{tried}")
    for name, by in enforced.items():
        if by.startswith(_WEAKER):
            yield _Fact("weaker", printable(f"{name}: {by}", 400), _YELLOW)


def _proofs(report: RunReport) -> str:
    """Return the boundaries that were tried in this run, and how."""
    enforced, proved = report.enforcement, report.proved
    by = {name: f" ({enforced[name]})" for name in proved if name in enforced}
    return printable(
        "; ".join(f"{name}{by.get(name, '')}: {proved[name]}" for name in proved), 2000
    )


def _divergence(diverged: Diverged) -> str:
    where = "after its last step" if diverged.step is None else f"at step {diverged.step}"
    return printable(f"{where}: {diverged.kind}", 200)


def _next(report: RunReport) -> list[str]:
    run = _name(report.run)
    commands = [f"paddock show {run}", f"paddock step {run}"]
    if report.files and report.files.changed:
        commands.append(f"paddock changes {run}")
    if report.drafts:
        commands.append(f"paddock drafts {run}")
    if report.alerts:
        commands.append(f"paddock net {run}")
    if report.faults:
        commands.append(f"paddock verdicts {run}")
    if report.lineage is not None:
        commands.append(f"paddock compare {_name(report.lineage.run)} {run}")
    if report.steps and report.kind != REPLAY:  # of a replay its origin is forked
        commands.append(f"paddock fork {run} --at {report.steps}")
    return commands


def _name(text: str) -> str:
    return printable(text, 60)
