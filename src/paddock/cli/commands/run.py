"""`paddock run`: any program as an agent under a paddock file, on record from its first step."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from paddock.cli.agent_run import add_env, add_run_options, faults_from, finish, showing
from paddock.cli.options import command_from, variables_from
from paddock.cli.output import warn
from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import trust_from
from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_written_duration

if TYPE_CHECKING:
    from pathlib import Path

MAX_STDIN = 8 << 20
_MAX_PARENTS = 8
_AT_THE_END = (
    "paddock.run.report",
    "paddock.run.changes",
    "paddock.cli.render.run_summary",
    "paddock.cli.project.unpassed_variables",
)


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
    parser.add_flag("--offline", "stand-ins only: nothing goes out")
    add_env(parser)
    parser.add_argument("--seed", metavar="S", help="of all chance inside (default: a new one)")
    parser.add_argument("--timeout", metavar="T", help="the agent ends after this (default: 1h)")
    add_run_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the agent")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    command = command_from(options)
    if not command:
        raise InvalidInput("run: no command", hint="e.g. paddock run -- python my_agent.py")
    from paddock.fence.registry import early_start

    with early_start():
        return _run(options, command)


def _run(options: argparse.Namespace, command: list[str]) -> int:
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
        envs=variables_from(options.env),
        seed=options.seed,
        faults=faults_from(options.fault),
        timeout=timeout,
        stdin=_piped_input(),
        trust=trust_from(options),
    )
    if not options.quiet:
        threading.Thread(target=_load_ahead, daemon=True).start()
    if order.file is None and not options.quiet and not options.json:
        warn(_advice_without_file(order.cwd))
    with showing(options, order.policy) as watch:
        result = run(order, watch)
    code = finish(result, options, order)
    if code and getattr(watch, "is_out_of_input", False) and not options.quiet:
        _tell_input(command)
    return code


def _piped_input() -> bytes | None:
    """Return what was piped in, if anything was: it is a part of the run, and a replay has it
    again. A pipe that nobody writes to must not hold up the run."""
    import select
    import stat

    if sys.stdin is None or sys.stdin.isatty():
        return None
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return None
    is_pipe = stat.S_ISFIFO(mode) and bool(select.select([sys.stdin], [], [], 0)[0])
    if not is_pipe and not stat.S_ISREG(mode):
        return None
    data = sys.stdin.buffer.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise InvalidInput("run: more than 8 MiB on the input", hint="put it into a file")
    return data


def _advice_without_file(project: Path) -> str:
    """Return what holds where there is no paddock file, and how there would be one."""
    from paddock.policy.file import DEFAULT_NAME

    advice = "paddock init writes one"
    for parent in list(project.parents)[:_MAX_PARENTS]:
        if (parent / DEFAULT_NAME).is_file():
            path = os.path.relpath(parent / DEFAULT_NAME, project)
            advice = f"there is one in {os.path.dirname(path)}/: say -f {path}"
            break
    return f"no {DEFAULT_NAME} here: nothing leaves the fence; {advice}"


def _load_ahead() -> None:
    """Load what is needed at the end while the sandbox starts."""
    for name in _AT_THE_END:
        importlib.import_module(name)


def _tell_input(command: list[str]) -> None:
    """Tell a person why the agent could read nothing: a terminal is not passed on."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    import shlex

    run = shlex.join(["paddock", "run", "--", *command])
    warn("the agent wanted to read its input. A terminal is not passed on to it; "
         f"give it what it reads: echo ... | {run}")  # fmt: skip
