"""`paddock fork`: a second future for a run, or many at once, from one of its steps."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.exit_codes import ExitCode
from paddock.cli.parser import RUN_HELP, CommandParser
from paddock.cli.run import split_command
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from paddock.run.replay.fork import ForkOptions
    from paddock.run.session import FinishedRun


def main(words: list[str]) -> int:
    words, command = split_command(words)
    options = make_parser().parse_args(words)
    from paddock.fence.registry import early_start

    with early_start():
        return _fork(options, command)


def _fork(options: argparse.Namespace, command: list[str]) -> int:
    from paddock.cli.journals import find_journal
    from paddock.cli.run import finish, recorded_policy, showing
    from paddock.cli.trust_prompt import trust_from
    from paddock.doors.terms import policy_of
    from paddock.doors.trust import check_trust
    from paddock.run.replay.fork import fork

    directory = find_journal(options.run, is_quiet=options.json)
    kinds = kinds_of(options, command)
    policy, trust = recorded_policy(directory), trust_from(options)
    check_trust(policy, trust)  # asked before anything is shown
    if options.policy is not None:
        policy_of(options.policy, trust)
    if len(kinds) * options.count == 1:
        with showing(options, policy) as watch:
            result = fork(directory, kinds, watch=[watch], trust=trust)[0]
        code = finish(result, options)
        return _left(result, options, code)
    from paddock.cli.fork_many import fork_many

    return fork_many(directory, kinds, options, trust)


def kinds_of(options: argparse.Namespace, command: list[str]) -> list[ForkOptions]:
    """Return one kind of fork for each fault that is to be tried alone, or one in all."""
    from paddock.cli.run import faults_from, past_options
    from paddock.run.replay.fork import LAST, ForkOptions

    at = options.at if options.at == LAST else _number(options.at)
    each = [[fault] for fault in options.each_fault] or [options.fault]
    return [
        ForkOptions(
            at=at,
            policy=options.policy,
            stage=options.stage,
            sets=tuple(options.set),
            faults=faults_from(texts),
            command=tuple(command) or None,
            seed=options.seed,
            is_state_only=options.state_only,
            past=past_options(options),
        )
        for texts in each
    ]


def _left(result: FinishedRun, options: argparse.Namespace, code: int) -> int:
    if result.divergence is None:
        return code
    from paddock.cli.replay_text import tell_divergence, tell_what_next

    if not options.json:
        tell_divergence(result.divergence, "before it could fork, ")
        tell_what_next(result.divergence, is_fork=True)
    return ExitCode.DIVERGED


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"--at: {text!r} is neither a step nor `last`") from None


def make_parser() -> CommandParser:
    from paddock.cli.numbers import count
    from paddock.cli.replay import add_beside, add_patience
    from paddock.cli.run import add_env, add_run_options

    parser = CommandParser(
        prog="paddock fork",
        description=__doc__,
        usage="paddock fork RUN --at K [OPTIONS] [-- COMMAND ...]",
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--at", required=True, metavar="K", help="the first step that is live; last"
    )
    parser.add_argument("--policy", metavar="FILE", help="another paddock file from there on")
    parser.add_argument("-n", "--count", type=count, default=1, metavar="N", help="of each kind")
    parser.add_argument("--yes", action="store_true", help="although they are more than 200")
    parser.add_argument(
        "-j", "--jobs", type=count, metavar="N", help="at once (default: one for each core)"
    )
    parser.add_argument(
        "--each-fault",
        action="append",
        default=[],
        metavar="F",
        help="a fork with this fault alone",
    )
    parser.add_argument("--seed", metavar="S", help="of what is left to chance from there on")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="AT=AS", help="what may differ in the past"
    )
    add_beside(parser)
    add_patience(parser)
    parser.add_argument(
        "--state-only", action="store_true", help="COMMAND starts in that state, without the past"
    )
    add_env(parser)
    add_run_options(parser)
    return parser
