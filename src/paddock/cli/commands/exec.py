"""`paddock exec`: one command in a sandbox, its input, output and status passed through."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.cli.exit_codes import ExitCode
from paddock.cli.options import add_spec_options, command_from, only_for_new, spec_from
from paddock.cli.output import say_json, warn
from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import trusted_policy
from paddock.model.errors import CommandExitException, InvalidInput
from paddock.model.spec import Limits

if TYPE_CHECKING:
    from paddock.doors.machine.sandbox import Sandbox

_STDIN_CHUNK = 64 << 10


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock exec",
        description="Run a command in a new sandbox, or with --id in a running one.",
        usage="paddock exec [OPTIONS] [--] COMMAND [ARGUMENT ...]",
    )
    add_spec_options(parser)
    parser.add_argument("--id", metavar="SANDBOX", help="a running sandbox instead of a new one")
    parser.add_argument("--cwd", help="directory inside (default: the home)")
    parser.add_argument("--command-timeout", default=None, help="stop the command after this")
    parser.add_json("print the result as one JSON object")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND",
                        help="a program and its words")  # fmt: skip
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    from paddock.cli.own_sandbox import create_sandbox
    from paddock.doors.machine.sandbox import Sandbox

    command = command_from(options)
    if not command:
        raise InvalidInput("exec: no command; e.g. paddock exec -- python3 -c 'print(1)'")
    if options.id:
        only_for_new(options)
        return _run(Sandbox.connect(options.id), command, options)
    policy = trusted_policy(options.file, options)
    with create_sandbox("exec", policy, **spec_from(options)) as box:
        if sys.stderr.isatty() and not options.json:
            warn(f"run {box.sandbox_id}")
        return _run(box, command, options)


def _run(box: Sandbox, command: list[str], options: argparse.Namespace) -> int:
    is_fed = not sys.stdin.isatty() if sys.stdin is not None else False
    handle = box.commands.run(
        command,
        background=True,
        cwd=options.cwd,
        stdin=is_fed,
        binary=True,
        on_stdout=None if options.json else _out,
        on_stderr=None if options.json else _err,
    )
    if is_fed:
        _feed(handle)
    try:
        result = handle.wait(options.command_timeout)
    except CommandExitException as error:
        result = error.result
    except (KeyboardInterrupt, BrokenPipeError):
        handle.kill()
        raise
    if options.json:
        say_json({**_plain(result), "run": box.sandbox_id})
    elif result.killed_by:
        from paddock.cli.render.units import limit_text

        limits = Limits(**box.get_info().limits)
        text = limit_text(result.killed_by, limits, "--limit ")
        warn(f"stopped by {text}")
    return ExitCode.TIMED_OUT if result.killed_by == "timeout" else int(result.exit_code)


def _feed(handle: Any) -> None:
    """Passes our input on in a thread: the command may end without ever reading it."""
    import threading

    def pump() -> None:
        with contextlib.suppress(Exception):
            while chunk := os.read(sys.stdin.fileno(), _STDIN_CHUNK):
                handle.send_stdin(chunk)
            handle.close_stdin()

    threading.Thread(target=pump, daemon=True).start()


def _plain(result: Any) -> dict[str, Any]:
    fields = msgspec.structs.asdict(result)
    del fields["stdout_bytes"], fields["stderr_bytes"]
    return fields


def _out(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _err(content: bytes) -> None:
    sys.stderr.buffer.write(content)
    sys.stderr.buffer.flush()
