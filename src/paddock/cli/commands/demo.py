"""`paddock demo`: an agent at work, what stops it, what does not, and another future for it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import is_coloured, say_json
from paddock.cli.parser import CommandParser, command

if TYPE_CHECKING:
    from paddock.cli.render.demo import DemoPage
    from paddock.demo.story import Story

_PAUSE_S = 0.8
_THINK_S = 0.6  # a person who answers at once is not seen


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock demo",
        description=__doc__,
        epilog="No network, no key, no root. Its runs stay, for paddock show and the others.",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="lay the project out here")
    parser.add_flag("--fast", "no pauses in a terminal")
    parser.add_json("one JSON object, and no story")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.render.demo import DemoPage
    from paddock.demo.project import check_packages, lay_out
    from paddock.demo.story import Story

    began = time.monotonic()
    check_packages()
    directory = _directory(options.keep)
    lay_out(directory, is_ours=options.keep is None)
    is_slow = sys.stdout.isatty() and not options.fast and not options.json
    pause_s, think_s = (_PAUSE_S, _THINK_S) if is_slow else (0.0, 0.0)
    page = DemoPage(is_quiet=options.json, is_coloured=is_coloured(), pause_s=pause_s)
    result = _play(Story(directory, page.moment, think_s), page, directory)
    result["took_s"] = round(time.monotonic() - began, 1)
    page.end(result)
    if options.json:
        say_json(result)
    return 0 if result["is_exact"] else ExitCode.FAILED


def _play(story: Story, page: DemoPage, directory: Path) -> dict[str, Any]:
    """Play all chapters. Return what they came to, for programs."""
    from paddock.journal.log import RunLog
    from paddock.world.verdicts import judge_run

    page.opening(directory)
    first = story.work()
    bad = story.bad_step(first)
    judged = judge_run(RunLog(first.ended.directory))
    page.outcome(first, bad, judged)
    page.before_fork(first, bad)
    second = story.fork(first, bad)
    comparison, file = story.compare(first, second)
    page.compared(first, second, comparison, file)
    page.before_replay()
    again = story.replay(first)
    page.replayed(first.steps, again.steps)
    counted = ("blocked", "asked", "person", "drafted", "fault", "recovered")
    return {
        "directory": str(directory),
        "page": str(file),
        "runs": {"first": first.run, "fork": second.run, "replay": again.run},
        "bad_step": bad,
        "told": {what: first.narrator.counts[what] for what in counted},
        "judgements": dict(judged.counts),
        "refunded_cents": {"first": first.refunded_cents, "fork": second.refunded_cents},
        "is_exact": first.steps == again.steps and not again.ended.differs,
    }


def _directory(keep: Path | None) -> Path:
    """Return the directory of the project. It stays: without it nothing could be forked later. It
    is not in Paddock's own home, because nothing of that is ever mounted."""
    if keep is not None:
        return keep.absolute()
    from paddock.state.home import Home

    root = Home.find().root.absolute()
    return root.with_name(f"{root.name}-demo")
