"""`paddock replay`: a run read again from its journal alone; with --agent its program runs again,
and all that it wants from outside is answered from the record."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from paddock.cli.agent_run import (
    add_env,
    add_past_options,
    finish,
    past_options,
    recorded_policy,
    showing,
    split_command,
)
from paddock.cli.exit_codes import ExitCode
from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import add_trust, trust_from
from paddock.model.errors import InvalidInput
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.run.session import FinishedRun


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock replay",
        description=__doc__,
        usage="paddock replay RUN [--policy FILE] [--agent [OPTIONS] [-- COMMAND ...]]",
    )
    parser.add_run()
    parser.add_argument("--policy", metavar="FILE", help="what another file would have decided")
    parser.add_flag("--agent", "run the agent again")
    parser.add_argument(
        "--on-divergence",
        default="stop",
        metavar="MODE",
        help="stop, block what is not in the record, or go on live",
    )
    parser.add_texts("--vary", metavar="AT=AS", help="what may differ: body.id=uuid")
    add_past_options(parser)
    parser.add_argument(
        "--clock", default="recorded", metavar="C", help="recorded (with libfaketime), or real"
    )
    add_env(parser)
    add_trust(parser)
    parser.add_flag("--quiet", "-q", "the agent's output alone")
    parser.add_json("for programs")
    return parser


def main(arguments: list[str]) -> int:
    arguments, command = split_command(arguments)
    options = make_parser().parse_args(arguments)
    if options.agent:
        from paddock.fence.registry import early_start

        with early_start():
            return _replay_agent(options, command)
    if command:
        raise InvalidInput("replay: a command is for --agent", hint="say --agent -- COMMAND")
    from paddock.cli.journals import find_journal
    from paddock.cli.render.replay import print_past
    from paddock.doors.terms import load_file

    directory = find_journal(options.run, is_quiet=options.json)
    policy = None if options.policy is None else load_file(options.policy)
    print_past(directory, policy=policy, is_json=options.json)
    return 0


def _replay_agent(options: argparse.Namespace, command: list[str]) -> int:
    from paddock.cli.journals import find_journal
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
    from paddock.cli.render.replay import tell_divergence, tell_what_next

    if result.divergence is not None:
        if not options.json:
            tell_divergence(result.divergence)
            tell_what_next(result.divergence, mode=options.on_divergence)
        return ExitCode.DIVERGED
    if options.json or options.quiet:
        return code
    left = result.left
    if left is None:
        print(f"the replay kept to its record{_remark(result)}", file=sys.stderr)
    else:  # it went on as a fork, which has an end of its own
        where = "after its last step" if left.step is None else f"at step {left.step}"
        tell_divergence(left)
        print(f"left its record {where}; went on live as {result.run}", file=sys.stderr)
    return code


def _remark(result: FinishedRun) -> str:
    """Return how many steps had other files, and how many were background traffic."""
    parts = []
    if result.differs:
        parts.append(f"{len(result.differs)} other in their files")
    if result.background:
        parts.append(f"{many(result.background, 'step')} beside")
    return f" ({'; '.join(parts)})" if parts else ""
