"""The past of a run, read again from its journal and printed: no agent runs and nothing is touched.
With another policy, what it would have decided stands beside what was decided.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.cells import cut
from paddock.cli.output import counts, is_coloured, say
from paddock.cli.run_lines import Manner, StepSeen, alert_line, step_lines
from paddock.cli.show_data import joined, own_duration_us
from paddock.cli.times import offset
from paddock.journal.traffic import mapping
from paddock.model.plain import plain
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.journal.keys import PublicKey
    from paddock.model.action import Decision
    from paddock.policy.compare import Change
    from paddock.policy.decide import Policy
    from paddock.run.rereading import Frame, Redecided

_DIGEST = 12
_MAX_PROGRAMS = 5
_PIPED = 120


def print_past(
    directory: Path,
    *,
    policy: Policy | None = None,
    is_json: bool = False,
    key: PublicKey | None = None,
) -> int:
    """Prints every step, verified. Gives how many the policy would have decided otherwise."""
    from paddock.run.rereading import Redecided, redecide, reread

    steps = (
        (Redecided(frame, None) for frame in reread(directory, key=key))
        if policy is None
        else redecide(directory, policy, key=key)
    )
    return _print_json(steps, policy) if is_json else _print_text(steps, policy)


def frame_lines(one: Redecided, start_us: int, manner: Manner) -> Iterator[str]:
    """A step, what changed with it, and what would be decided about it now."""
    frame = one.frame
    yield from step_lines(seen(frame), manner)
    if frame.has_moved_files and frame.tree:
        yield f"        files are {plain(frame.tree, _DIGEST)[:_DIGEST]} from here on"
    if frame.has_moved_world:
        where = ", ".join(f"{name} {at}" for name, at in frame.positions.items())
        yield cut(f"        world at {plain(where, 200)}", manner.width - 1)
    for note in frame.notes:
        yield from _note_line(note, frame.step, manner)
    if one.after is not None:
        text = f"        would be {_decision(one.after)}"
        yield manner.paint(cut(text, manner.width - 1), "33")
    for change in one.programs[:_MAX_PROGRAMS]:
        yield cut(f"        program {_program(change)}", manner.width - 1)


def seen(frame: Frame) -> StepSeen:
    """The step as the live display knows it."""
    decided, settled = mapping(frame.decided), mapping(frame.settled)
    answered = mapping(frame.answered)
    by = f" by {answered['by']}" if answered.get("by") else ""
    return StepSeen(
        number=frame.step,
        at=frame.at,
        body=frame.proposed,
        verdict=str(decided.get("verdict", "-")),
        by=str(decided.get("decided_by", "-")),
        why=str(decided.get("why") or ""),
        answer=f"{answered.get('state')}{by}" if answered else "",
        is_again="again" in decided,
        outcome=str(settled.get("outcome") or "no end was recorded"),
        error=str(settled.get("error") or ""),
        result=mapping(settled.get("result")),
        cost=mapping(settled.get("cost")),
        duration_us=time_taken_us(frame),
    )


def time_taken_us(frame: Frame) -> int | None:
    """Return how long the step took; of a program that was let through, how long it ran."""
    return own_duration_us(frame.proposed, joined(iter(frame.observed)), frame.duration_us)


def _print_text(steps: Iterator[Redecided], policy: Policy | None) -> int:
    manner = Manner(_width(), is_coloured(), _is_unicode())
    verdicts: Counter[str] = Counter()
    otherwise = number = 0
    start = None
    for one in steps:
        start = one.frame.at if start is None else start
        say("\n".join(frame_lines(one, start, manner)))
        number += 1
        verdicts[plain(one.frame.verdict or "-", 20)] += 1
        otherwise += one.after is not None or bool(one.programs)
    took = "" if start is None else f" in {offset(one.frame.at, start)[1:]} s"
    say(f"{many(number, 'step')}{took}, verified: {counts(verdicts, ()) or 'none'}")
    if policy is not None:
        say(f"{otherwise} of them would be decided otherwise")
    return otherwise


def _print_json(steps: Iterator[Redecided], policy: Policy | None) -> int:
    """One object a line, so that a long run can be read as it comes."""
    otherwise = 0
    for one in steps:
        shown = one.frame.as_json()
        if policy is not None:
            shown["after"] = None if one.after is None else _decision_json(one.after)
            shown["programs_after"] = [_program_json(change) for change in one.programs]
        sys.stdout.write(json.dumps(shown) + "\n")
        otherwise += one.after is not None or bool(one.programs)
    return otherwise


def _note_line(note: Mapping[str, Any], step: int, manner: Manner) -> Iterator[str]:
    match note.get("what"):
        case "alert":
            yield alert_line(note, step, manner)
        case "mark":
            yield cut(f"        mark: {plain(note.get('text'), 200)}", manner.width - 1)
        case "prompt":
            yield cut(f"        prompt {plain(note.get('version'), 200)}", manner.width - 1)
        case "live":
            yield "        from here on it was decided and carried out anew"
            if kept := note.get("files_kept"):
                yield f"        files in use that are not as recorded: {plain(kept, 20)}"


def _decision(decision: Decision) -> str:
    verdict = "draft" if decision.is_draft else decision.verdict.value
    return f"{verdict} by {plain(decision.decided_by, 60)}: {plain(decision.why, 200)}"


def _program(change: Change) -> str:
    argv = " ".join(map(str, change.action.arguments.get("argv") or (change.action.name,)))
    return f"{plain(argv, 120)} would be {_decision(change.after)}"


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "verdict": decision.verdict.value,
        "decided_by": decision.decided_by,
        "why": decision.why,
        "is_draft": decision.is_draft,
    }


def _program_json(change: Change) -> dict[str, Any]:
    return {"arguments": dict(change.action.arguments), "after": _decision_json(change.after)}


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED


def _is_unicode() -> bool:
    return "utf" in str(sys.stdout.encoding or "").lower()
