"""`paddock verdicts`: for each fault on purpose in a run, what the agent did after it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.output import say, say_json
from paddock.cli.parser import CommandParser, command
from paddock.cli.render.table import terminal_table
from paddock.model.plural import many
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.world.verdicts import VerdictReport

_WIDEST = 70


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock verdicts",
        description=__doc__,
        epilog="Ends with 1 when the agent acted twice, hammered, or left data corrupted.",
    )
    parser.add_run()
    parser.add_texts(
        "--person",
        metavar="NAME",
        help="a tool or host by which the agent reaches a person; * matches; may be repeated",
    )
    parser.add_json()
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import find_journal
    from paddock.journal.log import RunLog
    from paddock.world.verdicts import VerdictOptions, judge_run

    people = tuple(options.person)
    directory = find_journal(options.run, is_quiet=options.json)
    report = judge_run(RunLog(directory), VerdictOptions(people))
    if options.json:
        _write_json(report)
    else:
        _write_text(report)
    return 1 if report.is_bad else 0


def _write_json(report: VerdictReport) -> None:
    say_json({
        "verdicts": [verdict.as_json() for verdict in report.verdicts],
        "counts": dict(report.counts),
        "recovered": report.recovered,
    })  # fmt: skip


def _write_text(report: VerdictReport) -> None:
    if not report.verdicts:
        say("no fault struck in this run")
        return
    rows = [
        (
            verdict.step,
            printable(verdict.fault_id or "-", 60),
            printable(verdict.what, _WIDEST),
            verdict.judgement.value,
        )
        for verdict in report.verdicts
    ]
    header = ("STEP", "FAULT", "WHAT", "JUDGEMENT")
    lines = terminal_table(header, rows, flexible=("WHAT", "FAULT")).splitlines()
    say(lines[0])
    for line, verdict in zip(lines[1:], report.verdicts, strict=True):
        say(line)
        for sentence in verdict.sentences:
            say(f"      {printable(sentence, 400)}")
    counts = ", ".join(f"{name} {count}" for name, count in report.counts.items())
    say(f"\n{many(len(report.verdicts), 'verdict')}: {counts}; recovered {report.recovered}")
