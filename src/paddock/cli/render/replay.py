"""A replay told to a person: the past of a run, read again from its journal, where no agent runs
and nothing is touched; and where an agent that ran again left its record.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import counts, is_coloured, pick, say, say_json
from paddock.cli.render.cells import cut
from paddock.cli.render.run_lines import LineStyle, alert_line, step_lines
from paddock.cli.render.table import line_width
from paddock.cli.render.units import offset
from paddock.model.errors import InvalidInput
from paddock.model.events import Alert, Marked, PromptReported, Record, WentLive
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.run.matching.rules import vary_of
from paddock.run.matching.text import side_by_side, visible

if TYPE_CHECKING:
    from paddock.model.action import Decision
    from paddock.policy.analysis.candidate import DecisionChange
    from paddock.policy.decide import Policy
    from paddock.run.history import RedecidedStep
    from paddock.run.replay.session import Divergence

_DIGEST = 12
_MAX_PROGRAMS = 5
_PIPED = 120
_MAX_PLACES = 3
_MEASURES = ("body_bytes", "body_sha256")  # of a body
_MAX_PLACE = 200


def print_past(directory: Path, *, policy: Policy | None = None, is_json: bool = False) -> int:
    """Print every step, verified. Return how many the policy would have decided otherwise."""
    from paddock.run.history import RedecidedStep, RunHistory

    history = RunHistory.read(directory)
    steps = history.redecide(policy) if policy is not None else map(RedecidedStep, history.steps())
    return _print_json(steps, policy) if is_json else _print_text(steps, policy)


def redecided_lines(redecided: RedecidedStep, style: LineStyle) -> Iterator[str]:
    """Yield a step, what changed with it, and what would be decided about it now."""
    step, state = redecided.recorded.step, redecided.recorded.state
    yield from step_lines(step, style, with_reason=False)
    if state.has_moved_files and state.tree:
        yield f"        files are {printable(state.tree, _DIGEST)[:_DIGEST]} from here on"
    if state.has_moved_world:
        where = ", ".join(f"{name} {at}" for name, at in state.positions.items())
        yield cut(f"        world at {printable(where, 200)}", style.width - 1)
    for record in step.records:
        yield from _event_lines(record, style)
    if redecided.after is not None:
        text = f"        would be {_decision(redecided.after)}"
        yield style.paint(cut(text, style.width - 1), "33")
    for change in redecided.programs[:_MAX_PROGRAMS]:
        yield cut(f"        program {_program(change)}", style.width - 1)


def _print_text(steps: Iterator[RedecidedStep], policy: Policy | None) -> int:
    is_unicode = "utf" in str(sys.stdout.encoding or "").lower()
    style = LineStyle(line_width() or _PIPED, is_coloured(), is_unicode)
    verdicts: Counter[str] = Counter()
    otherwise = number = 0
    start = last = None
    for redecided in steps:
        step = redecided.recorded.step
        start, last = step.at if start is None else start, step.at
        say("\n".join(redecided_lines(redecided, style)))
        number += 1
        verdicts[step.verdict or "-"] += 1
        otherwise += _is_otherwise(redecided)
    took = "" if start is None else f" in {offset(last, start)[1:]} s"
    say(f"{many(number, 'step')}{took}, verified: {counts(verdicts) or 'none'}")
    if policy is not None:
        say(f"{otherwise} of them would be decided otherwise")
    return otherwise


def _print_json(steps: Iterator[RedecidedStep], policy: Policy | None) -> int:
    """One object a line, so that a long run can be read as it comes."""
    otherwise = 0
    for redecided in steps:
        fields = redecided.recorded.as_json()
        if policy is not None:
            after = redecided.after
            fields["after"] = None if after is None else decision_json(after)
            fields["programs_after"] = [_program_json(change) for change in redecided.programs]
        say_json(fields)
        otherwise += _is_otherwise(redecided)
    return otherwise


def _is_otherwise(redecided: RedecidedStep) -> bool:
    return redecided.after is not None or bool(redecided.programs)


def _event_lines(record: Record, style: LineStyle) -> Iterator[str]:
    """Yield what else was recorded with a step, where a person wants to know."""
    match record.event:
        case Alert() as alert:
            yield alert_line(alert, record.step, style)
        case Marked(text=text):
            yield cut(f"        mark: {printable(text, 200)}", style.width - 1)
        case PromptReported(version=version):
            yield cut(f"        prompt {printable(version, 200)}", style.width - 1)
        case WentLive(files_kept=files_kept):
            yield "        from here on it was decided and carried out anew"
            if files_kept:
                yield f"        files in use that are not as recorded: {files_kept}"


def verdict_text(decision: Decision) -> str:
    """Return what a decision comes to in one word."""
    return "draft" if decision.is_draft else decision.verdict.value


def _decision(decision: Decision) -> str:
    by, why = printable(decision.decided_by, 60), printable(decision.why, 200)
    return f"{verdict_text(decision)} by {by}: {why}"


def _program(change: DecisionChange) -> str:
    argv = " ".join(map(str, change.action.arguments.get("argv") or (change.action.name,)))
    return f"{printable(argv, 120)} would be {_decision(change.after)}"


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return a decision for programs."""
    return {
        "verdict": decision.verdict.value,
        **pick(decision, "decided_by", "why", "is_draft"),
    }


def _program_json(change: DecisionChange) -> dict[str, Any]:
    return {"arguments": dict(change.action.arguments), "after": decision_json(change.after)}


# ---- where a run left its record -----------------------------------------------------------------


def tell_divergence(divergence: Divergence, before: str = "") -> None:
    """Tell what is other than in the record. It names a place by keys that the agent chose."""
    print(f"paddock: {before}{visible(divergence.text)}", file=sys.stderr)
    if divergence.differences:
        width = shutil.get_terminal_size((100, 24)).columns
        print(side_by_side(divergence.differences, width=width), file=sys.stderr)


def tell_what_next(divergence: Divergence, *, is_fork: bool = False, mode: str = "stop") -> None:
    """Tell how the same comes through another time."""
    hints = []
    if places := vary_options(divergence):
        hints.append(f"{' '.join(places)} lets this differ")
    if is_fork and divergence.step is not None:
        hints.append(f"--at {divergence.step} forks where they part")
    if not is_fork and mode == "stop":
        hints.append("--on-divergence live goes on for real from here, as a fork")
        hints.append("--on-divergence block refuses what is not in the record and goes on")
    for at, hint in enumerate(hints):
        print(f"{'next' if at == 0 else '':<10}{hint}", file=sys.stderr)


def vary_options(divergence: Divergence) -> list[str]:
    """Return what lets the places differ, as words for a shell; none where no rule could."""
    options = []
    places = (difference.at for difference in divergence.differences)
    # A body that rules cannot read is compared by what is known of it, and varies as a whole.
    for place in dict.fromkeys("body" if place in _MEASURES else place for place in places):
        rule = f"{place}=any"
        if not rule.isprintable() or len(rule) > _MAX_PLACE:
            return []
        try:
            vary_of(rule)
        except InvalidInput:  # who is asked, and for what, never varies
            return []
        options.append(f"--vary {shlex.quote(rule)}")
    return options if len(options) <= _MAX_PLACES else []
