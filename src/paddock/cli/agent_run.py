"""The common part of `run`, `replay` and `fork`: their options, the display while the agent is at
work, and the summary and exit code at its end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from paddock.cli.arguments import seconds
from paddock.cli.exit_codes import ExitCode
from paddock.cli.options import variables_from
from paddock.cli.output import warn
from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import add_trust
from paddock.model.errors import InvalidInput, OutOfSpace, PaddockError

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.policy.decide import Policy
    from paddock.run.order import Order
    from paddock.run.replay.replay import PastOptions
    from paddock.run.report import RunReport
    from paddock.run.session import FinishedRun, Watcher

_LIMITS_SHOWN = ("memory", "time")


def add_run_options(parser: CommandParser) -> None:
    """Add what a run and a fork take."""
    from paddock.model.action import Stage

    parser.add_argument("--stage", choices=[stage.value for stage in Stage], metavar="S",
                        help="observe, draft, approve, narrow or broad")  # fmt: skip
    parser.add_texts("--set", metavar="KEY=VALUE", help="another value in the file")
    parser.add_texts("--fault", metavar="F", help="a set (flaky) or one as YAML")
    add_trust(parser)
    parser.add_flag("--quiet", "-q", "the agent's output alone")
    parser.add_json("one JSON object at the end")


def add_env(parser: CommandParser) -> None:
    """Add variables for the agent; of a replay or a fork, those that the recorded run was given."""
    parser.add_texts(
        "--env",
        "-e",
        metavar="NAME[=VALUE]",
        help="a variable for the agent (a NAME alone: yours); its value is not recorded",
    )


def add_past_options(parser: CommandParser) -> None:
    """Add what a replay and a fork take about the replay of the past."""
    parser.add_texts(
        "--beside",
        metavar="PATTERN",
        help="what goes on by the clock: 'POST collector.example/v1/traces'",
    )
    parser.add_flag("--no-beside", "neither what is usual nor what the file says")
    parser.add_argument(
        "--patience",
        type=seconds,
        default="10s",
        metavar="S",
        help="how much longer than in the record a step waits for others",
    )


def past_options(options: argparse.Namespace) -> PastOptions:
    """Return what a replay or a fork lets differ while the past is replayed."""
    from paddock.run.replay.replay import PastOptions

    return PastOptions(
        vary=tuple(options.vary),
        beside=tuple(options.beside),
        drops_beside=options.no_beside,
        patience_s=options.patience,
        envs=variables_from(options.env),
    )


def split_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return our own arguments, and the command behind the first `--`."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def faults_from(texts: list[str]) -> Any:
    """Return the names of sets of faults, and faults that are written as YAML."""
    if not texts:
        return None
    import yaml

    faults: list[Any] = []
    for text in texts:
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise InvalidInput(f"--fault: {text!r} is neither a set nor YAML") from None
        faults += value if isinstance(value, list) else [value]
    return faults


def recorded_policy(directory: Path) -> Policy:
    """Return the policy that a recorded run began with; the default one where it cannot be read.
    Raises for a journal that this home has not signed: nobody is asked about what a stranger
    wrote."""
    from paddock.gate.signed_journals import check_trusted
    from paddock.policy.file import default_policy
    from paddock.run.changes import configuration_of
    from paddock.run.order import load_policy
    from paddock.state.home import Home

    covered = check_trusted(directory, Home.find())
    try:
        return load_policy(configuration_of(directory, covered).policy)
    except PaddockError:
        return default_policy()  # whoever needs it says what is wrong


# ---- while the agent is at work ------------------------------------------------------------------


@contextlib.contextmanager
def showing(options: argparse.Namespace, policy: Policy) -> Iterator[Watcher]:
    """Give the watcher that shows a run while it goes on."""
    if options.json:
        from paddock.cli.render.screen import ForPrograms

        yield ForPrograms()
        return
    from paddock.cli.output import ReaderGone, interrupted_without_reader
    from paddock.cli.render.live_run import LiveText

    limits = policy.sandbox.options.get("limits") or {}
    with interrupted_without_reader() as on_reader_gone:
        live = LiveText.here(
            on_reader_gone,
            is_quiet=options.quiet,
            is_asked_here="terminal" in policy.approvals.by,
            limits={f"{name} limit": str(limits[name]) for name in _LIMITS_SHOWN if name in limits},
        )
        try:
            yield live
        except (KeyboardInterrupt, OutOfSpace) as error:
            live.finish()
            why = "interrupted by you"
            if isinstance(error, ReaderGone):
                why = "nobody reads its output any more"
            if live.run is not None and not options.quiet:
                _tell_interrupted(live.run, why)
            raise
        finally:
            live.finish()


def _tell_interrupted(run: str, why: str) -> None:
    """Tell what an interrupted run came to, as far as it came, and why it was interrupted."""
    from msgspec.structs import replace

    from paddock.run.changes import report_with_files
    from paddock.run.session import INTERRUPTED
    from paddock.state.home import Home

    try:
        report = report_with_files(Home.find().runs / run)
    except (PaddockError, OSError):  # whoever ended it says what went wrong
        return
    if report.ended_by == INTERRUPTED:
        report = replace(report, ended_by=why)
    _tell_summary(report)


# ---- at its end ----------------------------------------------------------------------------------


def finish(result: FinishedRun, options: argparse.Namespace, order: Order | None = None) -> int:
    """Tell what a run came to, and return the agent's own status. Of a first run, given its order,
    also tell which variables the agent would have read."""
    if options.quiet and not options.json:
        return _status(result)
    from paddock.run.changes import report_with_files

    report = report_with_files(result.directory)
    missing: tuple[str, ...] = ()
    if order is not None:
        from paddock.cli.project.unpassed_variables import unpassed_variables

        missing = unpassed_variables(order)
    if options.json:
        from paddock.cli.output import say_json

        variables = {} if order is None else {"not_passed": list(missing)}
        say_json({**report.as_json(), "error": result.error, **variables})
        return _status(result)
    _tell_summary(report)
    code = _status(result)
    if missing:
        from paddock.cli.project.unpassed_variables import describe

        warn(describe(missing))
    return code


def _status(result: FinishedRun) -> int:
    """Return the exit code of a run; what ended it is told where it was not the agent itself."""
    if result.error is not None:
        warn(f"the agent was not started: {result.error}")
        return result.not_started
    if result.limit is not None:
        from paddock.cli.render.units import limit_text

        elsewhere = ", or in the paddock file"
        text = limit_text(result.limit, result.limits, "--set sandbox.limits.", elsewhere)
        warn(f"the agent was ended by {text}")
    if result.exit_code is not None:
        return result.exit_code
    from paddock.run.session import TIMED_OUT

    warn(f"the agent was ended before it was done: {result.ended_by}")
    if result.ended_by == "timeout":
        hint = "raise it with --timeout of paddock run, or sandbox.timeout in the paddock file"
        print(f"  hint: {hint}", file=sys.stderr)
    return ExitCode.TIMED_OUT if result.ended_by in TIMED_OUT else ExitCode.KILLED


def _tell_summary(report: RunReport) -> None:
    """Write the summary on the error output: the other one is the agent's."""
    import shutil

    from paddock.cli.render.run_lines import LineStyle
    from paddock.cli.render.run_summary import summary_lines

    is_terminal = sys.stderr.isatty()
    width = shutil.get_terminal_size((100, 24)).columns if is_terminal else 100
    style = LineStyle(width, is_terminal and "NO_COLOR" not in os.environ)
    print(file=sys.stderr)
    for line in summary_lines(report, style):
        print(line, file=sys.stderr)
