"""The lines of a run as it happens: a step, an alert, the progress. Everything in them that an
agent or a server chose goes through `plain`, stands on one line and is no wider than the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paddock.cli.call_text import call_text
from paddock.cli.cells import cells, cut, fit
from paddock.cli.times import took
from paddock.journal.calls import detail_lines
from paddock.journal.traffic import KINDS, Traffic, mapping
from paddock.model.plain import plain
from paddock.model.values import dataclass

_SIGNS = {"exec": "$", "http": "→", "model": "✦", "tool": "ƒ", "dns": "?", "connect": "⇄",
          "file": "▤", "code": "»"}  # fmt: skip
_ASCII = {"exec": "$", "http": ">", "model": "*", "tool": "f", "dns": "?", "connect": "=",
          "file": "#", "code": ":"}  # fmt: skip
_COLOURS = {"allow": "32", "block": "31", "ask": "33", "simulate": "36", "fault": "35"}
_GREY, _ALERT = "90", "1;31"
_MIN_CALL = 20
_BESIDE_CALL = 48  # number, sign, verdict, rule and time
_DIM = "2"
_MAX_HIDDEN = 5
_RULE = 20
_MOST = 400
_NOT_ALLOWED = "is not in network.allow"
_HOW_TO_ALLOW = "add it to network.allow in the paddock file to let it out"


@dataclass(slots=True)
class StepSeen:
    """A step as far as it was told."""

    number: int
    at: int
    body: Mapping[str, Any]  # as it was proposed
    verdict: str = "-"
    by: str = "-"
    why: str = ""
    answer: str = ""  # of the person who was asked
    is_again: bool = False  # answered from a record
    outcome: str = ""
    error: str = ""
    result: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] | None = None
    duration_us: int | None = None

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", "-"))

    @property
    def is_usual(self) -> bool:
        """Whether nobody needs a reason for what came of it."""
        return self.verdict == "allow" and self.outcome in ("done", "")


@dataclass(frozen=True, slots=True)
class Manner:
    """How lines look where they are read."""

    width: int = 100
    is_coloured: bool = False
    is_unicode: bool = True

    def paint(self, text: str, colour: str | None) -> str:
        return f"\033[{colour}m{text}\033[0m" if self.is_coloured and colour else text


def step_lines(step: StepSeen, manner: Manner) -> Iterator[str]:
    """One line for a terminal, one with the reason where it was not simply done, and what a model
    answered or the money that a request moves."""
    width = max(manner.width - _BESIDE_CALL, _MIN_CALL)
    sign = (_SIGNS if manner.is_unicode else _ASCII).get(step.kind, " ")
    verdict = fit(_plain(step.verdict, 20), 8)
    again = "again " if step.is_again else ""
    yield (
        f"{step.number:>5} {manner.paint(sign, _GREY)} {fit(what(step), width)}  "
        f"{manner.paint(verdict, _COLOURS.get(step.verdict))} "
        f"{fit(again + _plain(step.by, 60), _RULE)}  {took(step.duration_us)}"
    )
    if why := _why(step):
        yield manner.paint(f"        {cut(why, manner.width - 9)}", _GREY)
    for line in detail_lines(step.body, step.result):
        yield f"        {cut(line, manner.width - 9)}"


def plain_step(step: StepSeen) -> str:
    """One line for a file or a pipe."""
    why = "; ".join([one for one in [_why(step)] if one] + detail_lines(step.body, step.result))
    again = " (again)" if step.is_again else ""
    return (
        f"step {step.number} {_plain(step.kind, 20)} {what(step)}: {_plain(step.verdict, 20)} by "
        f"{_plain(step.by, 60)}{again}, {took(step.duration_us)}{f': {why}' if why else ''}"
    )


def setting_lines(setting: Mapping[str, Any], manner: Manner) -> Iterator[str]:
    """What the agent sees of this host, and why; what is kept from it."""
    mounts = setting.get("mounts") or ()
    for at, mount in enumerate(mounts):
        why = f" ({_plain(str(mount['why']), 80)})" if mount.get("why") else ""
        place = _plain(str(mount.get("target")), 200)
        label = "sees" if at == 0 else ""
        yield manner.paint(f"{label:<8}{place}, {mount.get('mode')}{why}", _DIM)
    hidden = [str(one) for one in setting.get("hidden") or ()]
    if hidden:
        shown = ", ".join(_plain(one, 100) for one in hidden[:_MAX_HIDDEN])
        more = f" and {len(hidden) - _MAX_HIDDEN} more" if len(hidden) > _MAX_HIDDEN else ""
        yield manner.paint(f"{'hidden':<8}{shown}{more}", _DIM)


def alert_line(body: Mapping[str, Any], step: int | None, manner: Manner) -> str:
    about = ", ".join(f"{key} {body[key]}" for key in body if key not in ("what", "alert", "times"))
    where = "" if step is None else f" (step {step})"
    text = plain(f"{body.get('alert')}: {about}", _MOST)
    return manner.paint(cut(f"    ! ALERT {text}{where}", manner.width - 1), _ALERT)


def what(step: StepSeen) -> str:
    """`POST api.stripe.com/v1/refunds`, `claude-x 1.2k>340 tok`, `git status`."""
    name, arguments = str(step.body.get("name", "-")), step.body.get("arguments")
    if step.kind in KINDS and isinstance(arguments, Mapping):
        seen = Traffic(step.number, step.at, step.kind, name, arguments)
        if step.kind == "model":
            return _plain(f"{arguments.get('model') or name}{_tokens(step.cost)}")
        if seen.host and step.kind == "http":
            return _plain(f"{seen.method} {_place(seen)}{seen.target or '/'}")
    return call_text(step.kind, name, step.body)


def thousands(count: int) -> str:
    """340, 1.2k, 3.4M."""
    for size, letter in ((1_000_000, "M"), (1000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


def money(usd_micros: int) -> str:
    """$0.0042, $1.30."""
    if 0 < usd_micros < 100:
        return "<$0.0001"
    dollars = usd_micros / 1e6
    return f"${dollars:.2f}" if dollars >= 1 or not usd_micros else f"${dollars:.4f}"


def joined(parts: list[str], manner: Manner) -> str:
    """The progress: what does not fit is left out from the end."""
    dot = " · " if manner.is_unicode else " | "
    while len(parts) > 1 and cells(dot.join(parts)) >= manner.width:
        parts = parts[:-1]
    return manner.paint(cut(dot.join(parts), manner.width - 1), _GREY)


def _why(step: StepSeen) -> str:
    if step.is_usual:
        return ""
    is_news = step.verdict != "allow" and step.by != "world"  # stand-ins are no surprise
    told = [step.answer, step.why if is_news else "", _came(step)]
    parts = [_plain(one) for one in told if one]
    if is_news and step.why.rstrip(".").endswith(_NOT_ALLOWED):
        parts.append(_HOW_TO_ALLOW)
    # A sentence that goes on has its stop at its end.
    return "; ".join([*(one.removesuffix(".") for one in parts[:-1]), *parts[-1:]])


def _came(step: StepSeen) -> str:
    if step.outcome in ("", "done", "simulated"):
        return step.error
    is_same = not step.error or step.error == step.why
    return step.outcome if is_same else f"{step.outcome}: {step.error}"


def _place(seen: Traffic) -> str:
    is_usual = seen.port in (None, {"http": 80, "https": 443}.get(seen.scheme))
    return seen.host if is_usual else seen.place


def _tokens(cost: Mapping[str, Any] | None) -> str:
    counts = [mapping(cost).get(key) for key in ("input_tokens", "output_tokens")]
    first, second = (one if type(one) is int and one >= 0 else None for one in counts)
    if first is None or second is None:
        return ""
    return f" {thousands(first)}→{thousands(second)} tok"


def _plain(text: str, most: int = _MOST) -> str:
    return plain(text, most)
