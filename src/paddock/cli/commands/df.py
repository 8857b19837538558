"""`paddock df`: what takes space in PADDOCK_HOME, and what of it `paddock gc` would free."""

from __future__ import annotations

from paddock.cli.parser import CommandParser


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock df", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object; sizes are bytes")
    return parser


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    from paddock.cli.output import say, say_json, sentences, warn
    from paddock.cli.render.table import line_width, table
    from paddock.model.sizes import format_size
    from paddock.run.disk_use import disk_use
    from paddock.run.garbage import find_garbage
    from paddock.state.home import Home

    home = Home.find()
    with sentences():
        garbage = {found.part: found for found in find_garbage(home)}
        parts = disk_use(home)
    total = sum(part.size_bytes for part in parts)
    free = sum(found.size_bytes for found in garbage.values())
    if options.json:
        say_json({
            "home": str(home.root), "total_bytes": total, "reclaimable_bytes": free,
            "parts": [
                {"part": part.part, "bytes": part.size_bytes, "count": part.count,
                 "reclaimable_bytes": garbage[part.part].size_bytes if part.part in garbage else 0,
                 "remark": garbage[part.part].remark if part.part in garbage else None}
                for part in parts
            ],
        })  # fmt: skip
        return 0
    rows = []
    for part in parts:
        if not part.size_bytes:
            continue
        found = garbage.get(part.part)
        unused = format_size(found.size_bytes) if found and found.size_bytes else "-"
        count = "-" if part.count is None else part.count
        rows.append((part.part, format_size(part.size_bytes), count, unused, part.what))
    rows.append(("total", format_size(total), "-", format_size(free), str(home.root)))
    say(table(("PART", "SIZE", "COUNT", "UNUSED", "WHAT"), rows, width=line_width()))
    for found in garbage.values():
        if found.remark:
            warn(f"{found.part}: what is unused is not known: {found.remark}")
    return 0
