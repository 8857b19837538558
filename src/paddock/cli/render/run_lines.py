"""The lines of a run as it happens: a step, an alert, the progress. Everything in them that an
agent or a server chose goes through `plain`, stands on one line and is no wider than the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from paddock.cli.render.calls import short_call_text
from paddock.cli.render.cells import VERDICT_COLOURS, cells, cut, fit, paint
from paddock.cli.render.units import took
from paddock.journal.calls import detail_lines
from paddock.model.action import Outcome, Verdict
from paddock.model.events import Alert, Answered, Configured, RefusedAgain
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.steps import Step

REPLAY = "replay"  # the kind of a run that repeats another one
OUTCOMES = ("done", "failed", "refused", "drafted", "simulated", "faulted")  # as they are listed
_SIGNS = {"exec": "$", "http": "→", "model": "✦", "tool": "ƒ", "dns": "?", "connect": "⇄",
          "file": "▤", "code": "»"}  # fmt: skip
_ASCII = {"exec": "$", "http": ">", "model": "*", "tool": "f", "dns": "?", "connect": "=",
          "file": "#", "code": ":"}  # fmt: skip
_COLOURS = {"allow": "32", **VERDICT_COLOURS}
_GREY, _ALERT = "90", "1;31"
_MIN_CALL = 20
_BESIDE_CALL = 48  # number, sign, verdict, rule and time
_DIM = "2"
_MAX_HIDDEN = 5
_RULE = 20
_MOST = 400
_NOT_ALLOWED = "is not in network.allow"
_HOW_TO_ALLOW = "add it to network.allow in the paddock file to let it out"
_NO_END = "no end was recorded"


class LineStyle(msgspec.Struct, frozen=True):
    """The style of lines where they are read: their width, colours and signs."""

    width: int = 100
    is_coloured: bool = False
    is_unicode: bool = True

    def paint(self, text: str, colour: str | None) -> str:
        return paint(text, colour, self.is_coloured)


def step_lines(
    step: Step, style: LineStyle, *, is_under_way: bool = False, with_reason: bool = True
) -> Iterator[str]:
    """Yield one line for a terminal, one with the reason where the step was not simply done, and
    what a model answered or the money that a request moves. A step that is under way has no time
    yet, and needs no end. `with_reason` is about the reason that a person gave with an answer."""
    width = max(style.width - _BESIDE_CALL, _MIN_CALL)
    sign = (_SIGNS if style.is_unicode else _ASCII).get(step.kind or "", " ")
    verdict = fit(step.verdict or "-", 8)
    again = "again " if step.is_replayed else ""
    yield (
        f"{step.number:>5} {style.paint(sign, _GREY)} {fit(short_call_text(step), width)}  "
        f"{style.paint(verdict, _COLOURS.get(step.verdict or ''))} "
        f"{fit(again + _decided_by(step), _RULE)}  {_took(step, is_under_way)}"
    )
    if why := _why(step, is_under_way=is_under_way, with_reason=with_reason):
        yield style.paint(f"        {cut(why, style.width - 9)}", _GREY)
    for line in detail_lines(step):
        yield f"        {cut(line, style.width - 9)}"


def plain_step(step: Step, *, is_under_way: bool = False) -> str:
    """Return one line for a file or a pipe."""
    why = _why(step, is_under_way=is_under_way)
    texts = "; ".join([*([why] if why else []), *detail_lines(step)])
    details = f": {texts}" if texts else ""
    again = " (again)" if step.is_replayed else ""
    return (
        f"step {step.number} {step.kind or '-'} {short_call_text(step)}: {step.verdict or '-'} by "
        f"{_decided_by(step)}{again}, {_took(step, is_under_way)}{details}"
    )


def configuration_lines(configured: Configured, style: LineStyle) -> Iterator[str]:
    """Yield what the agent sees of this host, and why, and what is kept from it."""
    for at, mount in enumerate(configured.mounts):
        why = f" ({printable(mount.why, 80)})" if mount.why else ""
        label = "sees" if at == 0 else ""
        yield style.paint(f"{label:<8}{printable(mount.target, 200)}, {mount.mode}{why}", _DIM)
    if configured.hidden:
        hidden = names_text(configured.hidden, most=_MAX_HIDDEN, characters=100)
        yield style.paint(f"{'hidden':<8}{hidden}", _DIM)


def alert_line(alert: Alert, step: int | None, style: LineStyle) -> str:
    """Return the line of an alert that was just raised."""
    where = "" if step is None else f" (step {step})"
    line = f"    ! ALERT {alert_text(alert.alert, alert.about)}{where}"
    return style.paint(cut(line, style.width - 1), _ALERT)


def alert_text(name: str, about: Mapping[str, Any], most: int = _MOST) -> str:
    """Return `egress.denied: host evil.example, port 443`."""
    return printable(f"{name}: {about_text(about)}", most)


def about_text(about: Mapping[str, Any]) -> str:
    """Return `host evil.example, port 443`. It is not plain yet."""
    return ", ".join(f"{key} {value}" for key, value in about.items())


def repeats_text(step: int, again: RefusedAgain) -> str:
    """Return how often a step was refused again without a step of its own."""
    span = took(again.last_at - again.first_at)
    return f"step {step} was refused {many(again.count, 'more time')} in {span}"


def names_text(names: Sequence[str], *, most: int = 12, characters: int = 80) -> str:
    """Return `a.txt, b.txt and 7 more`."""
    shown = ", ".join(printable(name, characters) for name in names[:most])
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


def joined(parts: list[str], style: LineStyle) -> str:
    """Return the parts of the progress in one line; what does not fit is left out from the end."""
    dot = " · " if style.is_unicode else " | "
    while len(parts) > 1 and cells(dot.join(parts)) >= style.width:
        parts = parts[:-1]
    return style.paint(cut(dot.join(parts), style.width - 1), _GREY)


def _took(step: Step, is_under_way: bool) -> str:
    return took(None if is_under_way else step.duration_us)


def _why(step: Step, *, is_under_way: bool, with_reason: bool = True) -> str:
    """Return the reason for what came of the step; nothing where nobody needs one."""
    is_done = step.outcome is Outcome.DONE or (step.outcome is None and is_under_way)
    if step.verdict is Verdict.ALLOW and is_done:
        return ""
    # That a stand-in answers is no surprise.
    is_news = step.verdict is not Verdict.ALLOW and step.decided_by != "world"
    why = (step.why or "") if is_news else ""
    answer = "" if step.answered is None else _answer(step.answered, with_reason=with_reason)
    texts = [answer, why, _outcome(step, is_under_way=is_under_way)]
    parts = [printable(text, _MOST) for text in texts if text]
    if why.rstrip(".").endswith(_NOT_ALLOWED):
        parts.append(_HOW_TO_ALLOW)
    # A sentence that goes on has its stop at its end.
    return "; ".join([*(part.removesuffix(".") for part in parts[:-1]), *parts[-1:]])


def _answer(answered: Answered, *, with_reason: bool) -> str:
    by = f" by {answered.by}" if answered.by else ""
    reason = f" ({answered.reason})" if answered.reason and with_reason else ""
    return f"{answered.state}{by}{reason}"


def _outcome(step: Step, *, is_under_way: bool) -> str:
    if step.outcome is None:
        return "" if is_under_way else _NO_END
    error = step.error or ""
    if step.outcome in (Outcome.DONE, Outcome.SIMULATED):
        return error
    is_told_already = not error or error == step.why
    return step.outcome if is_told_already else f"{step.outcome}: {error}"


def _decided_by(step: Step) -> str:
    return printable(step.decided_by or "-", 60)
