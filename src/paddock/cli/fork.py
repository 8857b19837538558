"""`paddock fork`: a second future for a run, or many at once, from one of its steps."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.run import split_command
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from paddock.run.forking import ForkWords
    from paddock.run.running import Ended


def main(words: list[str]) -> int:
    words, command = split_command(words)
    options = _parser().parse_args(words)
    from paddock.fence.container.rousing import early

    with early():
        return _fork(options, command)


def _fork(options: argparse.Namespace, command: list[str]) -> int:
    from paddock.cli.journals import find_journal
    from paddock.cli.run import finish, recorded_policy, showing
    from paddock.run.forking import fork

    directory = find_journal(options.run, is_quiet=options.json)
    kinds = kinds_of(options, command)
    if len(kinds) * options.count == 1:
        with showing(options, recorded_policy(directory)) as watch:
            ended = fork(directory, kinds, watch=[watch])[0]
        code = finish(ended, options)
        return _left(ended, options, code)
    from paddock.cli.fork_many import fork_many

    return fork_many(directory, kinds, options)


def kinds_of(options: argparse.Namespace, command: list[str]) -> list[ForkWords]:
    """One for each fault that is to be tried alone, or one in all."""
    from paddock.cli.run import faults_from
    from paddock.run.forking import LAST, ForkWords

    at = options.at if options.at == LAST else _number(options.at)
    each = [[one] for one in options.each_fault] or [options.fault]
    return [
        ForkWords(
            at=at,
            policy=options.policy,
            stage=options.stage,
            sets=tuple(options.set),
            faults=faults_from(texts),
            command=tuple(command) or None,
            seed=options.seed,
            vary=tuple(options.vary),
            beside=tuple(options.beside),
            drops_beside=options.no_beside,
            patience_s=options.patience,
            is_state_only=options.state_only,
        )
        for texts in each
    ]


def _left(ended: Ended, options: argparse.Namespace, code: int) -> int:
    if ended.divergence is None:
        return code
    from paddock.cli.replay import EXIT_DIVERGED
    from paddock.cli.replay_left import tell_divergence, tell_what_next

    if not options.json:
        tell_divergence(ended.divergence, "before it could fork, ")
        tell_what_next(ended.divergence, is_fork=True)
    return EXIT_DIVERGED


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"--at: {text!r} is neither a step nor `last`") from None


def _parser() -> argparse.ArgumentParser:
    from paddock.cli.journals import RUN_HELP
    from paddock.cli.numbers import count
    from paddock.cli.replay import add_beside, add_patience
    from paddock.cli.run import add_run_options

    parser = argparse.ArgumentParser(
        prog="paddock fork",
        description=__doc__,
        usage="paddock fork RUN --at K [options] [-- COMMAND ...]",
    )
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--at", required=True, metavar="K", help="the first step that is live; last"
    )
    parser.add_argument("--policy", metavar="FILE", help="another paddock file from there on")
    parser.add_argument("-n", "--count", type=count, default=1, metavar="N", help="of each kind")
    parser.add_argument("--yes", action="store_true", help="although they are more than 200")
    parser.add_argument("-j", "--jobs", type=count, metavar="N", help="at once (as many as cores)")
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
    add_run_options(parser)
    return parser
