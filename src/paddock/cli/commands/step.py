"""`paddock step`: a run frame by frame, in a terminal: each step, what was decided about it, what
came of it, and what it changed.
"""

from __future__ import annotations

import argparse
import os
import sys
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.arguments import step
from paddock.cli.parser import CommandParser, command
from paddock.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from paddock.cli.render.step_view import StepView

_SIGNALLED = 128


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock step", description=__doc__)
    parser.add_run()
    parser.add_argument(
        "--at", type=step, metavar="K", help="begin with this step (default: the first)"
    )
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = f"paddock show {options.run} --step K prints one step"
        raise InvalidInput("step: there is no terminal to show it in", hint=hint)
    from paddock.cli.journals import find_journal

    view = open_view(find_journal(options.run), options.at)
    return _loop(view)


def open_view(directory: Path, at: int | None = None) -> StepView:
    """Return a verified run at a step. Raises NotFound when there is none, IntegrityError when it
    is not sound."""
    from paddock.cli.render.step_view import StepView
    from paddock.run.history import RunHistory

    history = RunHistory.read(directory, with_unsigned=True)
    numbers = history.step_numbers
    if not numbers:
        raise NotFound("this run has no step", hint="paddock show says what it was")
    if at is not None and at not in numbers:
        raise NotFound(f"this run has no step {at}; it has {numbers[0]} to {numbers[-1]}")
    is_coloured = "NO_COLOR" not in os.environ
    first = 0 if at is None else bisect_left(numbers, at)
    return StepView(history, at=first, is_coloured=is_coloured)


def _loop(view: StepView) -> int:
    from paddock.cli.render.step_terminal import TerminalEnded, taken_over

    try:
        with taken_over() as terminal:
            drawn: tuple[int, int] | None = None
            while not view.is_done:
                size = terminal.size()
                keys = terminal.keys() if drawn == size else []
                if keys is None:
                    break
                for key in keys:
                    view.press(key, size[1] - 2)
                if keys or drawn != size:
                    terminal.draw(view.screen(*size))
                    drawn = size
    except TerminalEnded as ended:
        return _SIGNALLED + ended.number
    return 0
