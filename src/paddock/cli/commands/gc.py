"""`paddock gc`: removes what nothing refers to from PADDOCK_HOME: unused objects, what crashed
processes have left, old caches. Runs, snapshots, templates, volumes and running sandboxes keep what
they need.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.output import say, say_json, warn
from paddock.cli.parser import CommandParser, command
from paddock.model.sizes import format_size

if TYPE_CHECKING:
    from paddock.run.garbage import Garbage


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock gc", description=__doc__)
    parser.add_flag("--dry-run", "only say what would be removed")
    parser.add_json("one JSON object; sizes are bytes")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.run.garbage import find_garbage, remove_garbage
    from paddock.state.home import Home

    home = Home.find()
    garbage = find_garbage(home) if options.dry_run else remove_garbage(home)
    total = sum(part.size_bytes for part in garbage)
    if options.json:
        parts = [
            {"part": part.part, "bytes": part.size_bytes, "count": part.count,
             "remark": part.remark}
            for part in garbage
        ]  # fmt: skip
        say_json({"dry_run": options.dry_run, "bytes": total, "parts": parts})
        return 0
    for part in garbage:
        if part.size_bytes or part.count:
            say(f"{part.part}: {_text(part)}")
        if part.remark:
            warn(f"{part.part}: nothing was removed: {part.remark}")
    say(f"{'would free' if options.dry_run else 'freed'} {format_size(total)}")
    return 0


def _text(part: Garbage) -> str:
    size = format_size(part.size_bytes)
    return size if part.count is None else f"{part.count} unused, {size}"
