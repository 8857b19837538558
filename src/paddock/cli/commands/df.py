"""`paddock df`: what takes space in PADDOCK_HOME, and what of it `paddock gc` would free."""

from __future__ import annotations

import argparse

from paddock.cli.output import say, say_json, warn
from paddock.cli.parser import CommandParser, command
from paddock.cli.render.table import terminal_table
from paddock.model.sizes import format_size


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock df", description=__doc__)
    parser.add_json("one JSON object; sizes are bytes")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.run.disk_use import disk_use
    from paddock.run.garbage import find_garbage
    from paddock.state.home import Home

    home = Home.find()
    unused = {garbage.part: garbage for garbage in find_garbage(home)}
    parts = disk_use(home)
    sizes = {name: garbage.size_bytes for name, garbage in unused.items()}
    remarks = {name: garbage.remark for name, garbage in unused.items()}
    total, free = sum(part.size_bytes for part in parts), sum(sizes.values())
    if options.json:
        described = [
            {"part": part.part, "bytes": part.size_bytes, "count": part.count,
             "reclaimable_bytes": sizes.get(part.part, 0), "remark": remarks.get(part.part)}
            for part in parts
        ]  # fmt: skip
        say_json({"home": str(home.root), "total_bytes": total, "reclaimable_bytes": free,
                  "parts": described})  # fmt: skip
        return 0
    rows: list[tuple[object, ...]] = []
    for part in parts:
        if part.size_bytes:
            size = sizes.get(part.part)
            count = "-" if part.count is None else part.count
            unused_size = format_size(size) if size else "-"
            rows.append((part.part, format_size(part.size_bytes), count, unused_size, part.what))
    rows.append(("total", format_size(total), "-", format_size(free), str(home.root)))
    say(terminal_table(("PART", "SIZE", "COUNT", "UNUSED", "WHAT"), rows))
    for name, remark in remarks.items():
        if remark:
            warn(f"{name}: what is unused is not known: {remark}")
    return 0
