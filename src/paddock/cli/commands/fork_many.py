"""Many forks at once: nobody can read along, but each is told when it is over, and what there is
is compared, also where somebody did not wait for the rest."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.plain import plain

if TYPE_CHECKING:
    from paddock.doors.trust import Trust
    from paddock.run.replay.fork import ForkOptions
    from paddock.run.session import FinishedRun

MAX_UNASKED = 200  # each is a sandbox, and a journal that stays
_CLEAR = "\r\033[2K"


def fork_many(
    directory: Path, kinds: Sequence[ForkOptions], options: argparse.Namespace, trust: Trust
) -> int:
    """All of them, and a table. 0 when each went its way."""
    from paddock.run.replay.fork import fork

    total = len(kinds) * options.count
    if total > MAX_UNASKED and not options.yes:
        hint = f"more than {MAX_UNASKED} are made with --yes"
        raise InvalidInput(f"fork: that would be {total} forks", hint=hint)
    is_told = not options.quiet and not options.json
    told = Progress(total, is_told=is_told, has_kinds=len(kinds) > 1)
    try:
        every = fork(
            directory,
            kinds,
            count=options.count,
            jobs=options.jobs,
            on_end=told.over,
            trust=trust,
        )
    except (KeyboardInterrupt, PaddockError):
        told.end()
        if told.every:
            _compared(directory, told.every, options)
        raise
    told.end()
    _compared(directory, every, options)
    return 0 if all(one.divergence is None and one.error is None for one in every) else 1


class Progress:
    """A line for each that is over; in a terminal one below them that says how many are left."""

    def __init__(self, total: int, *, is_told: bool, has_kinds: bool) -> None:
        self.every: list[FinishedRun] = []
        self._total = total
        self._is_told = is_told
        self._has_kinds = has_kinds
        self._is_terminal = sys.stderr.isatty()
        self._draw()

    def over(self, kind: ForkOptions, result: FinishedRun) -> None:
        """Tell that a fork has ended. Called by the engine, one after the other."""
        self.every.append(result)
        if not self._is_told:
            return
        fault = f", {_fault(kind.faults)}" if self._has_kinds else ""
        text = f"fork {len(self.every)} of {self._total}{fault}: {result.run}, {_end(result)}"
        self._write(f"paddock: {text}\n")
        self._draw()

    def end(self) -> None:
        if self._is_told and self._is_terminal:
            self._write("")

    def _draw(self) -> None:
        if self._is_told and self._is_terminal:
            self._write(f"{len(self.every)} of {self._total} forks are over")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{_CLEAR}{text}" if self._is_terminal else text)
        sys.stderr.flush()


def _end(result: FinishedRun) -> str:
    if result.error is not None:
        return f"not started: {plain(result.error, 200)}"
    if result.divergence is not None:
        step = result.divergence.step
        return f"left its record {'at its end' if step is None else f'at step {step}'}"
    if result.exit_code is None:
        return f"ended: {plain(result.ended_by, 100)}"
    return f"exit code {result.exit_code}"


def _fault(faults: Any) -> str:
    """`flaky`, or the id or the words of one that is spelled out."""
    one = faults[0] if isinstance(faults, list) and faults else faults
    named = one.get("id") or one.get("fault") if isinstance(one, Mapping) else one
    return plain(f"fault {named}", 60)


def _compared(directory: Path, every: Sequence[FinishedRun], options: argparse.Namespace) -> None:
    from paddock.cli.commands.compare import main as compare

    words = [str(one) for one in (directory, *(one.directory for one in every))]
    compare([*words, *(["--json"] if options.json else [])])
