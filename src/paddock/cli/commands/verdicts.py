"""`paddock verdicts`: for each fault on purpose in a run, what the agent did after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.cli.parser import RUN_HELP, CommandParser
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.world.verdicts import VerdictReport

_WIDEST = 70


def main(words: list[str]) -> int:
    from paddock.cli.output import sentences

    options = make_parser().parse_args(words)
    with sentences():
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


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock verdicts",
        description=__doc__,
        epilog="Ends with 1 when the agent acted twice, hammered, or left data corrupted.",
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--person",
        metavar="NAME",
        action="append",
        default=[],
        help="a tool or host by which the agent reaches a person; * matches; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def _write_json(report: VerdictReport) -> None:
    from paddock.cli.output import say_json

    say_json({
        "verdicts": [one.as_json() for one in report.verdicts],
        "counts": dict(report.counts),
        "recovered": report.recovered,
    })  # fmt: skip


def _write_text(report: VerdictReport) -> None:
    from paddock.cli.output import say
    from paddock.cli.render.table import line_width, table
    from paddock.model.plain import plain

    if not report.verdicts:
        say("no fault struck in this run")
        return
    rows = [
        (one.step, plain(one.fault_id or "-", 60), plain(one.what, _WIDEST), one.judgement.value)
        for one in report.verdicts
    ]
    header = ("STEP", "FAULT", "WHAT", "JUDGEMENT")
    lines = table(header, rows, width=line_width(), flexible=("WHAT", "FAULT")).splitlines()
    say(lines[0])
    for line, one in zip(lines[1:], report.verdicts, strict=True):
        say(line)
        for sentence in one.sentences:
            say(f"      {plain(sentence, 400)}")
    said = ", ".join(f"{name} {count}" for name, count in report.counts.items())
    say(f"\n{many(len(report.verdicts), 'verdict')}: {said}; recovered {report.recovered}")
