"""`paddock compare`: two or many runs side by side, from their journals alone."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from paddock.cli.output import is_coloured, say, say_json, write_pieces
from paddock.cli.parser import CommandParser, command


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock compare",
        description=__doc__,
        epilog="The first run is what the others are held against.",
    )
    parser.add_run("first")
    parser.add_argument("others", metavar="RUN", nargs="*", help="one or more runs")
    parser.add_flag("--full", "every step, and values in full")
    parser.add_json()
    parser.add_argument("--html", type=Path, metavar="FILE", help="a page in one file as well")
    return parser


@command(make_parser, is_intermixed=True)
def main(options: argparse.Namespace) -> int:
    if not options.others:
        make_parser().error(f"a second RUN is needed, to compare {options.first[:60]} with")
    from paddock.cli.journals import find_journal
    from paddock.cli.render.comparison import comparison_lines
    from paddock.run.compare.comparison import compare

    runs = [find_journal(name, is_quiet=options.json) for name in (options.first, *options.others)]
    comparison = compare(runs, is_full=options.full)
    if options.html is not None:
        from paddock.run.compare.page import comparison_page

        write_pieces([comparison_page(comparison)], options.html)
    if options.json:
        say_json(comparison.as_json())
        return 0
    width = shutil.get_terminal_size((120, 40)).columns
    say("\n".join(comparison_lines(comparison, width, is_coloured(), is_full=options.full)))
    if options.html is not None:
        say(f"\npage      {options.html}")
    return 0
