"""`paddock compare`: two or many runs side by side, from their journals alone."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from paddock.cli.output import is_coloured, say, say_json, sentences, write_pieces
from paddock.cli.parser import CommandParser


def main(arguments: list[str]) -> int:
    parser = make_parser()
    options = parser.parse_intermixed_args(arguments)
    if not options.others:
        parser.error(f"a second RUN is needed, to compare {options.first[:60]} with")
    with sentences():
        _compare(options)
    return 0


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


def _compare(options: argparse.Namespace) -> None:
    from paddock.cli.journals import find_journal
    from paddock.cli.render.comparison import comparison_lines
    from paddock.run.compare.comparison import compare

    runs = [find_journal(word, is_quiet=options.json) for word in (options.first, *options.others)]
    comparison = compare(runs, is_full=options.full)
    if options.html is not None:
        from paddock.run.compare.page import comparison_page

        write_pieces([comparison_page(comparison)], options.html)
    if options.json:
        say_json(comparison.as_json())
        return
    width = shutil.get_terminal_size((120, 40)).columns
    say("\n".join(comparison_lines(comparison, width, is_coloured(), is_full=options.full)))
    if options.html is not None:
        say(f"\npage      {options.html}")
