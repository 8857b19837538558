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

from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.policy.decide import Policy
    from paddock.run.report import Report
    from paddock.run.running import Ended, Watcher

EXIT_TIMED_OUT, EXIT_NOT_STARTED, EXIT_KILLED = 124, 126, 137
MAX_STDIN = 8 << 20
_MAX_PARENTS = 8
_AT_THE_END = (
    "paddock.run.report",
    "paddock.run.account",
    "paddock.run.changed",
    "paddock.run.touched",
    "paddock.cli.run_summary",
)


def main(words: list[str]) -> int:
    options = _parser().parse_args(words)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise InvalidInput("run: no command", hint="e.g. paddock run -- python my_agent.py")
    from paddock.fence.container.rousing import early

    with early():
        return _run(options, command)


def _run(options: argparse.Namespace, command: list[str]) -> int:
    from paddock.run.order import order_of
    from paddock.run.running import run

    order = order_of(
        command,
        file=options.file,
        stage=options.stage,
        isolation=options.isolation,
        offline=options.offline,
        sets=options.set,
        envs=dict(_pair(text) for text in options.env),
        seed=options.seed,
        faults=faults_from(options.fault),
        timeout=options.timeout,
        stdin=None if sys.stdin is None or sys.stdin.isatty() else read_stdin(),
    )
    if not options.quiet:
        threading.Thread(target=_load_ahead, daemon=True).start()
    if order.file is None and not options.quiet and not options.json:
        print(f"paddock: {_without_file(order.cwd)}", file=sys.stderr)
    with showing(options, order.policy) as watch:
        ended = run(order, watch)
    code = finish(ended, options)
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


def told_interrupt(watch: Any, options: argparse.Namespace) -> None:
    """What an interrupted run came to, as far as it came."""
    import dataclasses

    from paddock.run.running import INTERRUPTED
    from paddock.state.home import Home

    name = getattr(watch, "run", None)
    if name is not None and not options.quiet and not options.json:
        report = reported(Home.find().runs / name)
        if report.ended_by == INTERRUPTED:
            report = dataclasses.replace(report, ended_by="interrupted by you")
        tell_summary(report)


@contextlib.contextmanager
def showing(options: argparse.Namespace, policy: Policy) -> Iterator[Watcher]:
    """Who shows a run while it goes."""
    if options.json:
        from paddock.cli.run_json import ForPrograms

        yield ForPrograms()
        return
    from paddock.cli.run_text import LiveText

    said = policy.sandbox.words.get("limits") or {}
    live = LiveText.here(
        is_quiet=options.quiet,
        is_asked_here="terminal" in policy.approvals.by,
        limits={f"{name} limit": str(said[name]) for name in ("memory", "time") if name in said},
    )
    try:
        yield live
    except KeyboardInterrupt:
        live.finish()
        told_interrupt(live, options)
        raise
    finally:
        live.finish()


def recorded_policy(directory: Path) -> Policy:
    """The terms that a recorded run began with; the usual ones where they cannot be read."""
    from paddock.model.errors import PaddockError
    from paddock.policy.file import default_policy
    from paddock.run.changed import setting_in
    from paddock.run.order import policy_in

    try:
        return policy_in(setting_in(directory).get("policy") or {})
    except PaddockError:
        return default_policy()  # what is wrong is said by whoever needs them


def finish(ended: Ended, options: argparse.Namespace) -> int:
    """Says what it came to; the agent's own status is ours."""
    if options.quiet and not options.json:
        return _status(ended)
    report = reported(ended.directory)
    if options.json:
        from paddock.cli.output import say_json

        say_json({**report.as_json(), "error": ended.error})
    else:
        tell_summary(report)
    return _status(ended)


def _status(ended: Ended) -> int:
    if ended.error is not None:
        print(f"paddock: the agent was not started: {ended.error}", file=sys.stderr)
        return EXIT_NOT_STARTED
    if ended.exit_code is not None:
        return ended.exit_code
    from paddock.run.running import TIMED_OUT

    print(f"paddock: the agent was ended before it was done: {ended.ended_by}", file=sys.stderr)
    return EXIT_TIMED_OUT if ended.ended_by in TIMED_OUT else EXIT_KILLED


def reported(directory: Path) -> Report:
    """What a run came to, with the names of the files that it touched."""
    import dataclasses

    from paddock.run.changed import setting_in
    from paddock.run.report import report_of
    from paddock.run.touched import files_touched

    mounts = setting_in(directory).get("mounts") or ()
    return dataclasses.replace(report_of(directory), files=files_touched(directory, mounts))


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
    parser.add_argument("--stage", metavar="S", help="observe, draft, approve, narrow or broad")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="another value in the file"
    )
    parser.add_argument(
        "--fault", action="append", default=[], metavar="F", help="a set (flaky) or one as YAML"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="the agent's output alone")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="paddock run",
        description=__doc__,
        usage="paddock run [options] [--] COMMAND [ARGUMENT ...]",
    )
    parser.add_argument("--file", "-f", metavar="FILE", help="the paddock file (paddock.yaml)")
    parser.add_argument("--isolation", metavar="I", help="container (the one there is)")
    parser.add_argument("--offline", action="store_true", help="stand-ins only: nothing goes out")
    parser.add_argument("--env", "-e", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seed", metavar="S", help="of all chance inside (a new one)")
    parser.add_argument("--timeout", metavar="T", help="the agent ends after this (1h)")
    add_run_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def _is_ready() -> bool:
    """A pipe that nobody writes to must not hold up the run."""
    import select

    return bool(select.select([sys.stdin], [], [], 0)[0])


def _pair(text: str) -> tuple[str, str]:
    from paddock.cli.options import pair

    return pair(text, "--env")
