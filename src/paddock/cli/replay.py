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
    from paddock.run.again import Divergence
    from paddock.run.running import Ended


def main(words: list[str]) -> int:
    words, command = split_command(words)
    options = make_parser().parse_args(words)
    if options.agent:
        from paddock.fence.container.rousing import early

        with early():
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
    from paddock.cli.run import envs_from, finish, recorded_policy, showing
    from paddock.cli.trust_prompt import trust_from
    from paddock.doors.trust import check_trust
    from paddock.run.replaying import replay

    if options.policy is not None:
        raise InvalidInput(
            "replay: --agent answers from the record, whatever a policy says",
            hint="leave --agent out to decide the past anew, or fork the run under the policy",
        )
    directory = find_journal(options.run, is_quiet=options.json)
    policy, trust = recorded_policy(directory), trust_from(options)
    check_trust(policy, trust)  # asked before anything is shown
    with showing(options, policy) as watch:
        ended = replay(
            directory,
            command=command or None,
            on_divergence=options.on_divergence,
            vary=options.vary,
            beside=options.beside,
            drops_beside=options.no_beside,
            clock=options.clock,
            patience_s=options.patience,
            watch=watch,
            trust=trust,
            envs=envs_from(options),
        )
    return told(ended, options, finish(ended, options))


def told(ended: Ended, options: argparse.Namespace, code: int) -> int:
    """Where it left its record, if it did."""
    if ended.divergence is None and ended.left is not None:
        return _told_live(ended, ended.left, options, code)
    if ended.divergence is None:
        if not options.json and not options.quiet:
            print(f"the replay kept to its record{_besides(ended)}", file=sys.stderr)
        return code
    from paddock.cli.replay_left import tell_divergence, tell_what_next

    if not options.json:
        tell_divergence(ended.divergence)
        tell_what_next(ended.divergence, mode=options.on_divergence)
    return ExitCode.DIVERGED


def _told_live(ended: Ended, left: Divergence, options: argparse.Namespace, code: int) -> int:
    """It went on as a fork, which has an end of its own."""
    from paddock.cli.replay_left import tell_divergence

    if not options.json and not options.quiet:
        where = "after its last step" if left.step is None else f"at step {left.step}"
        tell_divergence(left)
        print(f"left its record {where}; went on live as {ended.run}", file=sys.stderr)
    return code


def _besides(ended: Ended) -> str:
    said = [f"{len(ended.differs)} other in their files"] if ended.differs else []
    said += [f"{many(ended.beside, 'step')} beside"] if ended.beside else []
    return f" ({'; '.join(said)})" if said else ""


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
