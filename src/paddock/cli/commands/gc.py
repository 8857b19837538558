"""`paddock gc`: removes what nothing refers to from PADDOCK_HOME: unused objects, what crashed
processes have left, old caches. Runs, snapshots, templates, volumes and running sandboxes keep what
they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.cli.parser import CommandParser

if TYPE_CHECKING:
    from paddock.run.garbage import Garbage


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock gc", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument("--json", action="store_true", help="one JSON object; sizes are bytes")
    return parser


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    from paddock.cli.output import say, say_json, sentences, warn
    from paddock.model.sizes import format_size
    from paddock.run.garbage import find_garbage, remove_garbage
    from paddock.state.home import Home

    home = Home.find()
    with sentences():
        found = find_garbage(home) if options.dry_run else remove_garbage(home)
    total = sum(one.size_bytes for one in found)
    if options.json:
        parts = [{"part": one.part, "bytes": one.size_bytes, "count": one.count,
                  "remark": one.remark} for one in found]  # fmt: skip
        say_json({"dry_run": options.dry_run, "bytes": total, "parts": parts})
        return 0
    for one in found:
        if one.size_bytes or one.count:
            say(f"{one.part}: {_text(one)}")
        if one.remark:
            warn(f"{one.part}: nothing was removed: {one.remark}")
    say(f"{'would free' if options.dry_run else 'freed'} {format_size(total)}")
    return 0


def _text(found: Garbage) -> str:
    from paddock.model.sizes import format_size

    size = format_size(found.size_bytes)
    return size if found.count is None else f"{found.count} unused, {size}"
