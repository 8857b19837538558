"""What a run came to, as a block of lines: at its end, and for whoever looks at it later."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from paddock.cli.cells import worded
from paddock.cli.output import counts
from paddock.cli.run_lines import Manner, money, thousands
from paddock.cli.runs import OUTCOMES
from paddock.cli.times import took
from paddock.model.action import Verdict
from paddock.model.plain import plain
from paddock.model.plural import many
from paddock.model.sizes import format_size
from paddock.run.report import ENDED, AlertSeen, Report

_LABEL = 10
_MAX_ALERTS = 8
_MAX_VARIED = 20
_MAX_NAMES = 12
_RED, _YELLOW = "31", "33"
REPLAY = "replay"
_WEAKER = ("not ", "off", "watched")  # as the fence says it of a boundary
_VERDICTS = [v.value for v in Verdict]


def summary_lines(report: Report, manner: Manner, *, next_commands: bool = True) -> Iterator[str]:
    """Only what there is something to say about; the run's id always."""
    yield from _labelled("run", _run(report), manner)
    yield from _labelled(*_state(report), manner, None if report.is_whole else _YELLOW)
    yield from _labelled("decided", _decided(report), manner)
    yield from _labelled("outcomes", counts(_named(report.outcomes), OUTCOMES), manner)
    yield from left_lines(report, manner)
    yield from _enforced(report, manner)
    if next_commands:
        for at, command in enumerate(_next(report)):
            yield f"{'next' if at == 0 else '':<{_LABEL}}{command}"


def left_lines(report: Report, manner: Manner) -> Iterator[str]:
    """What is left of a run to look at: answers, files, drafts, world, money, alerts."""
    yield from _labelled("asked", _answers(report), manner)
    yield from _labelled("faults", counts(_named(report.faults), ()), manner)
    yield from _labelled("files", _files(report), manner)
    yield from _labelled("differs", _kept(report), manner, _YELLOW)
    yield from _labelled("drafts", _drafts(report), manner)
    yield from _labelled("world", _world(report), manner)
    for line in _broken(report):
        yield from _labelled("broken", line, manner, _RED)
    yield from _labelled("spent", _spent(report), manner)
    yield from _labelled("prompt", _some(report.prompts), manner)
    yield from _labelled("marks", _some(tuple(one.text for one in report.marks)), manner)
    for alert in report.alerts[:_MAX_ALERTS]:
        yield from _labelled("alert", _alert(alert), manner, _RED)
    if len(report.alerts) > _MAX_ALERTS:
        more = f"{len(report.alerts) - _MAX_ALERTS} more: paddock net {_name(report.run)}"
        yield from _labelled("alert", more, manner, _RED)
    for field, times in sorted(report.varied.items())[:_MAX_VARIED]:
        steps = many(times, "step")
        yield from _labelled("let vary", f"{plain(field, 200)}, {steps}", manner)
    yield from _labelled("repeated", _repeats(report), manner)
    yield from _labelled("record", _left_out(report), manner, _YELLOW)
    if report.divergence is not None:
        yield from _labelled("diverged", _diverged(report.divergence), manner, _RED)


def ending_lines(report: Report, manner: Manner) -> Iterator[str]:
    """How a run ended and what is left of it, for below its steps."""
    yield from _labelled("command", plain(shlex.join(report.command), 400), manner)
    if report.kind != "run":
        yield from _labelled("kind", f"{plain(report.kind, 20)}{_parent(report)}", manner)
    yield from _labelled(*_state(report), manner, None if report.is_whole else _YELLOW)
    yield from _labelled("proved", _proved(report), manner)
    yield from left_lines(report, manner)


def _labelled(label: str, text: str, manner: Manner, colour: str | None = None) -> Iterator[str]:
    if not text:
        return
    for at, piece in enumerate(worded(text, manner.width - _LABEL - 1)):
        head = label if at == 0 else ""
        yield f"{head:<{_LABEL}}{manner.paint(piece, colour)}"


def _run(report: Report) -> str:
    parent = _parent(report)
    kind = f"{'a ' if parent else ''}{plain(report.kind, 20)}{parent}"
    who = f"agent {_name(report.agent)}, stage {_name(report.stage or '-')}"
    command = plain(shlex.join(report.command), 200) if report.command else ""
    shown = "" if report.kind == "run" else f", {kind}"
    return f"{_name(report.run)}{shown}: {who}{f': {command}' if command else ''}"


def _parent(report: Report) -> str:
    lineage = report.lineage or {}
    at = f" at step {plain(lineage['at'], 20)}" if "at" in lineage else ""
    return f" of {plain(lineage['run'], 60)}{at}" if "run" in lineage else ""


def _state(report: Report) -> tuple[str, str]:
    code = "" if report.exit_code is None else f", exit code {report.exit_code}"
    by = f" ({plain(report.ended_by, 200)})" if report.ended_by else ""
    text = f"after {took(report.duration_us)}{code}{by}, {many(report.steps, 'step')}"
    return ("ended", text) if report.state == ENDED else ("state", f"{report.state} {text}")


def _decided(report: Report) -> str:
    said = counts(_named(report.verdicts), _VERDICTS)
    again = f"; {report.again} answered from the record" if report.again else ""
    beside = f"; {report.beside} beside" if report.beside else ""
    return f"{said}{again}{beside}" if said else ""


def _answers(report: Report) -> str:
    one = report.answers
    found = {"approved": one.approved, "edited": one.edited, "denied": one.denied,
             "without an answer": one.expired}  # fmt: skip
    left = max(one.asked - sum(found.values()), 0)
    late = 0 if report.state != ENDED else left
    found |= {"without an answer": one.expired + late, "still waiting": left - late}
    return f"{one.asked}: {counts(found, found)}" if one.asked else ""


def _files(report: Report) -> str:
    from paddock.state.obeyed import is_in_repository

    files = report.files
    if files is None or not files.changed:
        return "" if files is None else "none changed"
    parts = {"added": files.added, "modified": files.modified, "deleted": files.deleted}
    inner = sum(is_in_repository(name) for names in parts.values() for name in names)
    told = []
    for what, names in parts.items():
        outer = tuple(name for name in names if not is_in_repository(name))
        told += [f"{what}: {_some(outer)}"] if outer else []
    named = "; ".join(told)
    lost = f", {files.unstored} of them not stored" if files.unstored else ""
    cut = "; there were more than are recorded" if files.is_cut else ""
    in_brackets = f" ({named})" if named else ""
    in_git = f", and {inner} in .git" if inner else ""
    return f"{files.changed - inner} changed{in_brackets}{in_git}{lost}{cut}"


def _kept(report: Report) -> str:
    """Return the files of a fork that differed from the record when it went live and stayed so."""
    if not report.files_kept:
        return ""
    files = many(report.files_kept, "file is", "files are")
    rest = report.files_kept - len(report.kept)
    more = f" and {rest} more" if rest > 0 else ""
    return f"{files} in use and not as recorded: {_some(report.kept)}{more}"


def _drafts(report: Report) -> str:
    """Those of its past wait with the run that made them."""
    past = f"{len(report.past_drafts)} of its past" if report.past_drafts else ""
    return "; ".join(filter(None, (_some(report.drafts), past)))


def _world(report: Report) -> str:
    world = report.world
    if world is None:
        return ""
    if world.error:
        return f"its last state is not known: {plain(world.error, 200)}"
    changed = {name: count for name, count in world.changes.items() if count}
    return f"changes: {counts(_named(changed), ())}" if changed else "nothing changed"


def _broken(report: Report) -> Iterator[str]:
    if report.world is not None:
        for name, said in report.world.broken.items():
            yield from (f"{plain(name, 60)}: {plain(one, 300)}" for one in said[:_MAX_ALERTS])


def _spent(report: Report) -> str:
    one = report.spent
    if not one.calls or report.kind == REPLAY:  # which asks no model
        return ""
    tokens = f"{thousands(one.input_tokens)} tokens in, {thousands(one.output_tokens)} out"
    price = f", {money(one.usd_micros)}" if one.usd_micros else ", price not known"
    calls = "1 model call" if one.calls == 1 else f"{one.calls} model calls"
    return f"{calls}: {tokens}{price}"


def _alert(alert: AlertSeen) -> str:
    about = ", ".join(f"{key} {value}" for key, value in alert.about.items())
    times = f" ({alert.times} times)" if alert.times > 1 else ""
    steps = f", step {', '.join(map(str, alert.steps[:5]))}" if alert.steps else ""
    return f"{plain(f'{alert.name}: {about}', 300)}{times}{steps}"


def _repeats(report: Report) -> str:
    """Refusals that came so often that the rest was counted."""
    said = []
    for step, one in list(report.repeats.items())[:_MAX_NAMES]:
        span = took(one.last_at - one.first_at)
        said.append(f"step {step} was refused {many(one.count, 'more time')} in {span}")
    more = len(report.repeats) - len(said)
    return "; ".join([*said, *([f"and {many(more, 'more step')}"] if more > 0 else [])])


def _left_out(report: Report) -> str:
    one = report.left_out
    if one is None:
        return ""
    found = ""
    if one.values is not None and one.bytes is not None:
        found = f" of {many(one.values, 'value')} ({format_size(one.bytes)})"
    return (
        f"the budget of {format_size(one.budget_bytes)} is used up: only digest and size"
        f"{found} were kept (record.budget in the paddock file)"
    )


def _enforced(report: Report, manner: Manner) -> Iterator[str]:
    """How many boundaries held, and in full those that are weaker than they could be."""
    enforced, proved = report.enforcement, report.proved
    names = {**enforced, **proved}
    if not names:
        return
    count = many(len(names), "boundary", "boundaries")
    tried = f", {len(proved)} of them proved in this run" if proved else ""
    yield from _labelled("enforced", f"{count}{tried}", manner)
    for name, by in enforced.items():
        if by.startswith(_WEAKER):
            yield from _labelled("weaker", plain(f"{name}: {by}", 400), manner, _YELLOW)


def _proved(report: Report) -> str:
    """What was tried in this run, and how."""
    enforced, proved = report.enforcement, report.proved
    by = {name: f" ({enforced[name]})" for name in proved if name in enforced}
    return plain("; ".join(f"{name}{by.get(name, '')}: {proved[name]}" for name in proved), 2000)


def _diverged(found: Mapping[str, object]) -> str:
    step = found.get("step")
    where = "after its last step" if step is None else f"at step {step}"
    return plain(f"{where}: {found.get('kind')}", 200)


def _next(report: Report) -> list[str]:
    run = _name(report.run)
    words = [f"paddock show {run}", f"paddock step {run}"]
    words += [f"paddock changes {run}"] if report.files and report.files.changed else []
    words += [f"paddock drafts {run}"] if report.drafts else []
    words += [f"paddock net {run}"] if report.alerts else []
    words += [f"paddock verdicts {run}"] if report.faults else []
    parent = (report.lineage or {}).get("run")
    words += [f"paddock compare {_name(str(parent))} {run}"] if parent else []
    is_forked = report.steps and report.kind != REPLAY  # of a replay its origin is
    return words + ([f"paddock fork {run} --at {report.steps}"] if is_forked else [])


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(plain(one, 80) for one in names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _named(found: Mapping[str, int]) -> dict[str, int]:
    return {plain(name, 40): number for name, number in found.items()}


def _name(text: str) -> str:
    return plain(text, 60)
