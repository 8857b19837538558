"""`paddock run`: any program as an agent under a paddock file, on record from its first step."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from paddock.cli.exit_codes import ExitCode
from paddock.cli.parser import CommandParser
from paddock.model.errors import InvalidInput, OutOfSpace, PaddockError
from paddock.model.sizes import parse_written_duration

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.policy.decide import Policy
    from paddock.run.order import Order
    from paddock.run.replay.replay import PastOptions
    from paddock.run.report import Report
    from paddock.run.session import FinishedRun, Watcher

MAX_STDIN = 8 << 20
_MAX_PARENTS = 8
_AT_THE_END = (
    "paddock.run.report",
    "paddock.run.changed",
    "paddock.cli.run_summary",
    "paddock.cli.unpassed_variables",
)


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise InvalidInput("run: no command", hint="e.g. paddock run -- python my_agent.py")
    from paddock.fence.registry import early_start

    with early_start():
        return _run(options, command)


def _run(options: argparse.Namespace, command: list[str]) -> int:
    from paddock.cli.trust_prompt import trust_from
    from paddock.run.order import order_of
    from paddock.run.session import run

    timeout = options.timeout
    if timeout is not None:
        timeout = parse_written_duration(timeout, "timeout")
    order = order_of(
        command,
        file=options.file,
        stage=options.stage,
        isolation=options.isolation,
        offline=options.offline,
        sets=options.set,
        envs=envs_from(options),
        seed=options.seed,
        faults=faults_from(options.fault),
        timeout=timeout,
        stdin=None if sys.stdin is None or sys.stdin.isatty() else read_stdin(),
        trust=trust_from(options),
    )
    if not options.quiet:
        threading.Thread(target=_load_ahead, daemon=True).start()
    if order.file is None and not options.quiet and not options.json:
        print(f"paddock: {_without_file(order.cwd)}", file=sys.stderr)
    with showing(options, order.policy) as watch:
        result = run(order, watch)
    code = finish(result, options, order)
    if code and getattr(watch, "is_out_of_input", False) and not options.quiet:
        _tell_input(command)
    return code


def _tell_input(command: list[str]) -> None:
    """An agent that wants to be typed to has nobody: a terminal is not passed on."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    import shlex

    shown = shlex.join(["paddock", "run", "--", *command])
    print("paddock: the agent wanted to read its input. A terminal is not passed on to it; "
          f"give it what it reads: echo ... | {shown}", file=sys.stderr)  # fmt: skip


def _without_file(project: Path) -> str:
    """What holds where no paddock file is, and how there would be one."""
    from paddock.policy.file import DEFAULT_NAME

    for parent in list(project.parents)[:_MAX_PARENTS]:
        if (parent / DEFAULT_NAME).is_file():
            place = os.path.relpath(parent / DEFAULT_NAME, project)
            found = f"there is one in {os.path.dirname(place)}/: say -f {place}"
            return f"no {DEFAULT_NAME} here: nothing leaves the fence; {found}"
    return f"no {DEFAULT_NAME} here: nothing leaves the fence; paddock init writes one"


def _load_ahead() -> None:
    """While the sandbox gets up there is time for it."""
    for name in _AT_THE_END:
        importlib.import_module(name)


def told_interrupt(watch: Any, options: argparse.Namespace, why: str) -> None:
    """Return what an interrupted run came to, as far as it came, and why it was interrupted."""
    import msgspec

    from paddock.run.session import INTERRUPTED
    from paddock.state.home import Home

    name = getattr(watch, "run", None)
    if name is not None and not options.quiet and not options.json:
        try:
            report = reported(Home.find().runs / name)
        except (PaddockError, OSError):  # what went wrong is said by whoever ended it
            return
        if report.ended_by == INTERRUPTED:
            report = msgspec.structs.replace(report, ended_by=why)
        tell_summary(report)


@contextlib.contextmanager
def showing(options: argparse.Namespace, policy: Policy) -> Iterator[Watcher]:
    """Who shows a run while it goes."""
    if options.json:
        from paddock.cli.run_screen import ForPrograms

        yield ForPrograms()
        return
    from paddock.cli.output import ReaderGone, interrupted_without_reader
    from paddock.cli.run_text import LiveText

    limits = ("memory", "time")
    said = policy.sandbox.words.get("limits") or {}
    with interrupted_without_reader() as on_reader_gone:
        live = LiveText.here(
            on_reader_gone,
            is_quiet=options.quiet,
            is_asked_here="terminal" in policy.approvals.by,
            limits={f"{name} limit": str(said[name]) for name in limits if name in said},
        )
        try:
            yield live
        except (KeyboardInterrupt, OutOfSpace) as error:
            live.finish()
            is_reader_gone = isinstance(error, ReaderGone)
            why = "nobody reads its output any more" if is_reader_gone else "interrupted by you"
            told_interrupt(live, options, why)
            raise
        finally:
            live.finish()


def recorded_policy(directory: Path) -> Policy:
    """Return the policy that a recorded run began with; the usual one where it cannot be read.
    Raises for a journal that this home has not signed: nobody is asked about what a stranger
    wrote."""
    from paddock.gate.signed_journals import check_trusted
    from paddock.policy.file import default_policy
    from paddock.run.changed import configuration_of
    from paddock.run.order import load_policy
    from paddock.state.home import Home

    covered = check_trusted(directory, Home.find())
    try:
        return load_policy(configuration_of(directory, covered).policy)
    except PaddockError:
        return default_policy()  # what is wrong is said by whoever needs it


def finish(result: FinishedRun, options: argparse.Namespace, order: Order | None = None) -> int:
    """Says what it came to; the agent's own status is ours. Of a first run, given its order, also
    which variables the agent would have read."""
    if options.quiet and not options.json:
        return _status(result)
    report = reported(result.directory)
    missing = () if order is None else _missing_variables(order)
    if options.json:
        from paddock.cli.output import say_json

        variables = {} if order is None else {"not_passed": list(missing)}
        say_json({**report.as_json(), "error": result.error, **variables})
    else:
        tell_summary(report)
    code = _status(result)
    if missing and not options.json:
        from paddock.cli.unpassed_variables import describe

        print(f"paddock: {describe(missing)}", file=sys.stderr)
    return code


def _missing_variables(order: Order) -> tuple[str, ...]:
    from paddock.cli.unpassed_variables import unpassed_variables

    return unpassed_variables(order)


def _status(result: FinishedRun) -> int:
    if result.error is not None:
        print(f"paddock: the agent was not started: {result.error}", file=sys.stderr)
        return result.not_started
    if result.limit is not None:
        from paddock.cli.limit_text import limit_text

        elsewhere = ", or in the paddock file"
        text = limit_text(result.limit, result.limits, "--set sandbox.limits.", elsewhere)
        print(f"paddock: the agent was ended by {text}", file=sys.stderr)
    if result.exit_code is not None:
        return result.exit_code
    from paddock.run.session import TIMED_OUT

    print(f"paddock: the agent was ended before it was done: {result.ended_by}", file=sys.stderr)
    if result.ended_by == "timeout":
        hint = "raise it with --timeout of paddock run, or sandbox.timeout in the paddock file"
        print(f"  hint: {hint}", file=sys.stderr)
    return ExitCode.TIMED_OUT if result.ended_by in TIMED_OUT else ExitCode.KILLED


def reported(directory: Path) -> Report:
    """Return what a run came to, with the names of the files that it touched."""
    import msgspec

    from paddock.run.changed import configuration_of, files_touched
    from paddock.run.report import report_of

    mounts = configuration_of(directory).mounts
    return msgspec.structs.replace(report_of(directory), files=files_touched(directory, mounts))


def tell_summary(report: Report) -> None:
    """On the error output: the other one is the agent's."""
    from paddock.cli.run_lines import Manner
    from paddock.cli.run_summary import summary_lines

    is_coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    print(file=sys.stderr)
    width = 100
    if sys.stderr.isatty():
        import shutil

        width = shutil.get_terminal_size((100, 24)).columns
    for line in summary_lines(report, Manner(width, is_coloured)):
        print(line, file=sys.stderr)


def read_stdin() -> bytes | None:
    """What was piped in, if anything was: it is a part of the run, and comes again in a replay."""
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(mode) and not (stat.S_ISFIFO(mode) and _is_ready()):
        return None
    data = sys.stdin.buffer.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise InvalidInput("run: more than 8 MiB on the input", hint="put it into a file")
    return data


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Our own words, and the command behind the first `--`."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def faults_from(texts: list[str]) -> Any:
    """Names of sets, or faults as YAML."""
    if not texts:
        return None
    import yaml

    found: list[Any] = []
    for text in texts:
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise InvalidInput(f"--fault: {text!r} is neither a set nor YAML") from None
        found += value if isinstance(value, list) else [value]
    return found


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """What replay and fork take as well."""
    from paddock.cli.trust_prompt import add_trust
    from paddock.model.action import Stage

    parser.add_argument("--stage", choices=[stage.value for stage in Stage], metavar="S",
                        help="observe, draft, approve, narrow or broad")  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="another value in the file"
    )
    parser.add_argument(
        "--fault", action="append", default=[], metavar="F", help="a set (flaky) or one as YAML"
    )
    add_trust(parser)
    parser.add_argument("--quiet", "-q", action="store_true", help="the agent's output alone")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock run",
        description=__doc__,
        usage="paddock run [OPTIONS] [--] COMMAND [ARGUMENT ...]",
        instead={"--limit": "--set sandbox.limits.NAME=VALUE"},
    )
    parser.add_argument(
        "--file", "-f", metavar="FILE", help="the paddock file (default: paddock.yaml)"
    )
    parser.add_argument("--isolation", metavar="I", help="container (the one there is)")
    parser.add_argument("--offline", action="store_true", help="stand-ins only: nothing goes out")
    add_env(parser)
    parser.add_argument("--seed", metavar="S", help="of all chance inside (default: a new one)")
    parser.add_argument("--timeout", metavar="T", help="the agent ends after this (default: 1h)")
    add_run_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the agent")
    return parser


def _is_ready() -> bool:
    """A pipe that nobody writes to must not hold up the run."""
    import select

    return bool(select.select([sys.stdin], [], [], 0)[0])


def add_env(parser: argparse.ArgumentParser) -> None:
    """Variables for the agent; of a replay or a fork, those that the recorded run was given."""
    parser.add_argument(
        "--env",
        "-e",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a variable for the agent (a NAME alone: yours); its value is not recorded",
    )


def envs_from(options: argparse.Namespace) -> dict[str, str]:
    from paddock.cli.options import variables_from

    return variables_from(options.env)


def past_options(options: argparse.Namespace) -> PastOptions:
    """Return what a replay or a fork lets differ while the past is lived through."""
    from paddock.run.replay.replay import PastOptions

    return PastOptions(
        vary=tuple(options.vary),
        beside=tuple(options.beside),
        drops_beside=options.no_beside,
        patience_s=options.patience,
        envs=envs_from(options),
    )
