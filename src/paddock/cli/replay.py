"""`paddock replay`: a run read again from its journal alone; with --agent its program runs again,
and all that it wants from outside is answered from the record."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from paddock.cli.exit_codes import ExitCode
from paddock.cli.parser import RUN_HELP, CommandParser
from paddock.cli.run import split_command
from paddock.model.errors import InvalidInput
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.run.session import FinishedRun


def main(words: list[str]) -> int:
    words, command = split_command(words)
    options = make_parser().parse_args(words)
    if options.agent:
        from paddock.fence.registry import early_start

        with early_start():
            return _play(options, command)
    if command:
        raise InvalidInput("replay: a command is for --agent", hint="say --agent -- COMMAND")
    from paddock.cli.journals import find_journal
    from paddock.cli.replay_text import print_past
    from paddock.doors.terms import load_file

    directory = find_journal(options.run, is_quiet=options.json)
    policy = None if options.policy is None else load_file(options.policy)
    print_past(directory, policy=policy, is_json=options.json)
    return 0


def _play(options: argparse.Namespace, command: list[str]) -> int:
    from paddock.cli.journals import find_journal
    from paddock.cli.run import finish, past_options, recorded_policy, showing
    from paddock.cli.trust_prompt import trust_from
    from paddock.doors.trust import check_trust
    from paddock.run.replay.replay import replay

    if options.policy is not None:
        raise InvalidInput(
            "replay: --agent answers from the record, whatever a policy says",
            hint="leave --agent out to decide the past anew, or fork the run under the policy",
        )
    directory = find_journal(options.run, is_quiet=options.json)
    policy, trust = recorded_policy(directory), trust_from(options)
    check_trust(policy, trust)  # asked before anything is shown
    with showing(options, policy) as watch:
        result = replay(
            directory,
            command=command or None,
            on_divergence=options.on_divergence,
            clock=options.clock,
            past=past_options(options),
            watch=watch,
            trust=trust,
        )
    return _tell(result, options, finish(result, options))


def _tell(result: FinishedRun, options: argparse.Namespace, code: int) -> int:
    """Tell where it left its record, if it did. Return the exit code."""
    from paddock.cli.replay_text import tell_divergence, tell_what_next

    if result.divergence is not None:
        if not options.json:
            tell_divergence(result.divergence)
            tell_what_next(result.divergence, mode=options.on_divergence)
        return ExitCode.DIVERGED
    if options.json or options.quiet:
        return code
    left = result.left
    if left is None:
        print(f"the replay kept to its record{_beside_text(result)}", file=sys.stderr)
    else:  # it went on as a fork, which has an end of its own
        where = "after its last step" if left.step is None else f"at step {left.step}"
        tell_divergence(left)
        print(f"left its record {where}; went on live as {result.run}", file=sys.stderr)
    return code


def _beside_text(result: FinishedRun) -> str:
    parts = [f"{len(result.differs)} other in their files"] if result.differs else []
    parts += [f"{many(result.background, 'step')} beside"] if result.background else []
    return f" ({'; '.join(parts)})" if parts else ""


def add_beside(parser: argparse.ArgumentParser) -> None:
    """What is no part of what the agent does, while its past is lived through."""
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="PATTERN",
        help="what goes on by the clock: 'POST collector.example/v1/traces'",
    )
    parser.add_argument(
        "--no-beside", action="store_true", help="neither what is usual nor what the file says"
    )


def add_patience(parser: argparse.ArgumentParser) -> None:
    """For what has to come first, while a past is lived through."""
    from paddock.cli.numbers import seconds

    parser.add_argument(
        "--patience",
        type=seconds,
        default="10s",
        metavar="S",
        help="how much longer than in the record a step waits for others",
    )


def make_parser() -> CommandParser:
    from paddock.cli.run import add_env
    from paddock.cli.trust_prompt import add_trust

    parser = CommandParser(
        prog="paddock replay",
        description=__doc__,
        usage="paddock replay RUN [--policy FILE] [--agent [OPTIONS] [-- COMMAND ...]]",
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--policy", metavar="FILE", help="what another file would have decided")
    parser.add_argument("--agent", action="store_true", help="run the agent again")
    parser.add_argument(
        "--on-divergence",
        default="stop",
        metavar="MODE",
        help="stop, block what is not in the record, or go on live",
    )
    parser.add_argument(
        "--vary", action="append", default=[], metavar="AT=AS", help="what may differ: body.id=uuid"
    )
    add_beside(parser)
    add_patience(parser)
    parser.add_argument(
        "--clock", default="recorded", metavar="C", help="recorded (with libfaketime), or real"
    )
    add_env(parser)
    add_trust(parser)
    parser.add_argument("--quiet", "-q", action="store_true", help="the agent's output alone")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser
