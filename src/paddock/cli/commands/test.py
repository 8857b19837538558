"""`paddock test`: runs scenarios and says which of them came out as expected. Ends with 0 when all
passed, with 1 when some did not, with 2 when a scenario is wrong.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import say, say_json, write_pieces
from paddock.cli.parser import CommandParser, command
from paddock.cli.trust_prompt import add_trust, trust_from
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.run.scenarios.play import CaseResult
    from paddock.run.scenarios.preparation import Prepared

MAX_JOBS = 64


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock test", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO",
                        help="files, or directories to look in (this one)")  # fmt: skip
    parser.add_argument("-j", "--jobs", type=_jobs, default=None, metavar="N",
                        help="so many at a time (default: one for each core)")  # fmt: skip
    parser.add_texts(
        "-k", "--filter", metavar="WORDS", help="only cases whose name or file has these words"
    )
    parser.add_flag("--list", "the cases, without running them")
    parser.add_flag("--fail-fast", "begin nothing after a failure")
    parser.add_flag("--offline", "only stand-ins can be reached")
    add_trust(parser)
    parser.add_argument("--junit", metavar="FILE", help="the results as JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="the results as a page")
    parser.add_json()
    return parser


@command(make_parser, is_intermixed=True)
def main(options: argparse.Namespace) -> int:
    from paddock.doors.trust import GIVEN
    from paddock.run.scenarios.discovery import find_scenarios
    from paddock.run.scenarios.preparation import prepare

    scenarios = find_scenarios([Path(name) for name in options.scenarios or ["."]])
    # A list runs nothing.
    trust = GIVEN if options.list else trust_from(options)
    prepared = prepare(scenarios, is_offline=options.offline, trust=trust)
    cases = _choose(prepared, options.filter)
    if options.list:
        return _list(cases, is_json=options.json)
    results = _play(cases, options)
    _write_files(results, options)
    return _tell(results, options)


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_JOBS:
        raise argparse.ArgumentTypeError(f"not a number from 1 to {MAX_JOBS}")
    return int(text)


def _choose(cases: list[Prepared], filters: Sequence[str]) -> list[Prepared]:
    chosen = [case for case in cases if all(_has(case, word) for word in filters)]
    if not chosen:
        raise InvalidInput(f"no case has {' and '.join(map(repr, filters))} in its name",
                           hint="paddock test --list shows them")  # fmt: skip
    return chosen


def _has(prepared: Prepared, word: str) -> bool:
    name = f"{prepared.case.scenario.source} {prepared.case.name}"
    return word.casefold() in name.casefold()


def _list(cases: list[Prepared], *, is_json: bool) -> int:
    from paddock.cli.render.scenarios import case_json, case_lines

    if is_json:
        say_json([case_json(prepared.case) for prepared in cases])
    else:
        say("\n".join(case_lines([prepared.case for prepared in cases])))
    return 0


def _play(cases: list[Prepared], options: argparse.Namespace) -> list[CaseResult]:
    from paddock.cli.render.scenarios import ScenarioProgress
    from paddock.run.scenarios.play import Play, run_case

    total = sum(prepared.case.scenario.repeat for prepared in cases)
    with ScenarioProgress(total, is_quiet=options.json) as progress:
        jobs = options.jobs or min(os.cpu_count() or 1, MAX_JOBS)
        play = Play(run_case, progress.told, jobs, options.fail_fast)
        return play.through(cases)


def _write_files(results: list[CaseResult], options: argparse.Namespace) -> None:
    if options.junit:
        from paddock.run.scenarios.junit import junit_xml

        write_pieces([junit_xml(results)], Path(options.junit))
    if options.html:
        from paddock.run.scenarios.page import results_page

        write_pieces([results_page(results)], Path(options.html))


def _tell(results: list[CaseResult], options: argparse.Namespace) -> int:
    from paddock.cli.render.scenarios import result_lines, results_json
    from paddock.run.scenarios.play import CaseStatus

    if options.json:
        say_json(results_json(results))
    else:
        say("\n".join(result_lines(results)))
    is_well = all(result.standing is CaseStatus.PASSED for result in results)
    return 0 if is_well else ExitCode.FAILED
