"""The list of runs as a table that helps to find one: which kind it was, how it ended, what was out
of the ordinary, and the command, as far as the line has room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paddock.cli.commands.runs import OUTCOMES, duration_us
from paddock.cli.journals import state_of
from paddock.cli.output import counts
from paddock.cli.render.table import table
from paddock.cli.render.times import clock, took
from paddock.journal.index.rows import RunRow
from paddock.model.plain import plain

HEADER = ("ID", "WHAT", "AGENT", "STARTED", "TOOK", "STEPS", "EXIT", "OUTCOMES", "COMMAND")
_ORDINARY = ("done", "simulated")
# Where the command would have too little room, in turn.
_SPARED = ("TOOK", "STEPS", "STARTED", "AGENT")
_MAX_NAME = 40
_MAX_COMMAND = 200
_SHORT = 6  # characters of another run's id, if they are enough


def run_table(runs: Sequence[RunRow], width: int | None) -> str:
    """Return a line for each run; `width` is that of a terminal, None where lines may have any
    length."""
    names = _short_origins(runs)
    rows = [dict(zip(HEADER, _cells(run, names), strict=True)) for run in runs]
    has_agents = len({run.agent for run in runs}) > 1
    header = [name for name in HEADER if name != "AGENT" or has_agents]
    return table(
        header,
        [[row[name] for name in header] for row in rows],
        width=width,
        flexible=("COMMAND", *(["AGENT"] if has_agents else [])),
        spared=_SPARED,
    )


def outcomes_text(run: RunRow) -> str:
    """Return what came of the actions and was not ordinary, and how many were asked about."""
    numbers = {name: number for name, number in run.outcomes.items() if name not in _ORDINARY}
    if asked := run.verdicts.get("ask"):
        numbers["asked"] = asked
    return counts(numbers, (*OUTCOMES, "asked")) or "-"


def exit_text(run: RunRow) -> str:
    """The agent's exit code, or why there is none."""
    state = state_of(run)
    if state != "ended":
        return state
    return "-" if run.exit_code is None or "command" not in run.terms else str(run.exit_code)


def _cells(run: RunRow, names: dict[str, str]) -> tuple[object, ...]:
    parent = "" if run.parent is None else f" of {plain(names[run.parent], _MAX_NAME)}"
    return (
        plain(run.run, _MAX_NAME),
        f"{plain(run.kind, _MAX_NAME)}{parent}",
        plain(run.agent, _MAX_NAME),
        clock(run.started_at)[5:16],
        took(duration_us(run)),
        run.steps,
        exit_text(run),
        outcomes_text(run),
        plain(run.terms.get("command", "-"), _MAX_COMMAND),
    )


def _short_origins(runs: Sequence[RunRow]) -> dict[str, str]:
    """Return the ids of origins as short as a person may write them, as far as these runs tell."""
    origins = {run.parent for run in runs if run.parent is not None}
    names = {run.run for run in runs} | origins
    beginnings = Counter(name[:_SHORT] for name in names)
    return {name: name[:_SHORT] if beginnings[name[:_SHORT]] == 1 else name for name in origins}
