"""`paddock fork`: a second future for a run, or many at once, from one of its steps."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.agent_run import (
    add_env,
    add_past_options,
    add_run_options,
    faults_from,
    finish,
    past_options,
    recorded_policy,
    showing,
    split_command,
)
from paddock.cli.arguments import count
from paddock.cli.exit_codes import ExitCode
from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import trust_from
from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.doors.trust import Trust
    from paddock.run.replay.fork import ForkOptions
    from paddock.run.session import FinishedRun

MAX_UNASKED = 200  # each is a sandbox, and a journal that stays
_CLEAR = "\r\033[2K"


def make_parser() -> CommandParser:
    parser = CommandParser(
        prog="paddock fork",
        description=__doc__,
        usage="paddock fork RUN --at K [OPTIONS] [-- COMMAND ...]",
    )
    parser.add_run()
    parser.add_argument(
        "--at", required=True, metavar="K", help="the first step that is live; last"
    )
    parser.add_argument("--policy", metavar="FILE", help="another paddock file from there on")
    parser.add_argument("-n", "--count", type=count, default=1, metavar="N", help="of each kind")
    parser.add_flag("--yes", "although they are more than 200")
    parser.add_argument(
        "-j", "--jobs", type=count, metavar="N", help="at once (default: one for each core)"
    )
    parser.add_texts("--each-fault", metavar="F", help="a fork with this fault alone")
    parser.add_argument("--seed", metavar="S", help="of what is left to chance from there on")
    parser.add_texts("--vary", metavar="AT=AS", help="what may differ in the past")
    add_past_options(parser)
    parser.add_flag("--state-only", "COMMAND starts in that state, without the past")
    add_env(parser)
    add_run_options(parser)
    return parser


def main(arguments: list[str]) -> int:
    arguments, command = split_command(arguments)
    options = make_parser().parse_args(arguments)
    from paddock.fence.registry import early_start

    with early_start():
        return _fork(options, command)


def _fork(options: argparse.Namespace, command: list[str]) -> int:
    from paddock.cli.journals import find_journal
    from paddock.doors.terms import policy_of
    from paddock.doors.trust import check_trust

    directory = find_journal(options.run, is_quiet=options.json)
    kinds = kinds_of(options, command)
    policy, trust = recorded_policy(directory), trust_from(options)
    check_trust(policy, trust)  # asked before anything is shown
    if options.policy is not None:
        policy_of(options.policy, trust)
    if len(kinds) * options.count > 1:
        return fork_many(directory, kinds, options, trust)
    from paddock.run.replay.fork import fork

    with showing(options, policy) as watch:
        result = fork(directory, kinds, watch=[watch], trust=trust)[0]
    code = finish(result, options)
    if result.divergence is None:
        return code
    if not options.json:
        from paddock.cli.render.replay import tell_divergence, tell_what_next

        tell_divergence(result.divergence, "before it could fork, ")
        tell_what_next(result.divergence, is_fork=True)
    return ExitCode.DIVERGED


def kinds_of(options: argparse.Namespace, command: list[str]) -> list[ForkOptions]:
    """Return one kind of fork for each fault that is to be tried alone, or one in all."""
    from paddock.run.replay.fork import LAST, ForkOptions

    at = options.at
    if at != LAST:
        try:
            at = int(at)
        except ValueError:
            raise InvalidInput(f"--at: {at!r} is neither a step nor `last`") from None
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


# ---- many forks at once --------------------------------------------------------------------------


def fork_many(
    directory: Path, kinds: Sequence[ForkOptions], options: argparse.Namespace, trust: Trust
) -> int:
    """Make all forks and compare them; where somebody does not wait for the rest, those that are
    over. Return 0 when each went its way."""
    from paddock.run.replay.fork import fork

    total = len(kinds) * options.count
    if total > MAX_UNASKED and not options.yes:
        hint = f"more than {MAX_UNASKED} are made with --yes"
        raise InvalidInput(f"fork: that would be {total} forks", hint=hint)
    is_shown = not options.quiet and not options.json
    progress = ForkProgress(total, is_shown=is_shown, has_kinds=len(kinds) > 1)
    try:
        results = fork(
            directory,
            kinds,
            count=options.count,
            jobs=options.jobs,
            on_end=progress.add,
            trust=trust,
        )
    except (KeyboardInterrupt, PaddockError):
        progress.end()
        if progress.results:
            _compare(directory, progress.results, options)
        raise
    progress.end()
    _compare(directory, results, options)
    return int(any(result.divergence or result.error is not None for result in results))


class ForkProgress:
    """A line for each fork that is over; in a terminal one below them that says how many are
    left. Nobody can read along with many forks."""

    def __init__(self, total: int, *, is_shown: bool, has_kinds: bool) -> None:
        self.results: list[FinishedRun] = []
        self._total = total
        self._is_shown = is_shown
        self._has_kinds = has_kinds
        self._is_terminal = sys.stderr.isatty()
        self._draw()

    def add(self, kind: ForkOptions, result: FinishedRun) -> None:
        """Tell that a fork has ended. Called by the engine, one after the other."""
        self.results.append(result)
        if not self._is_shown:
            return
        fault = f", {_fault_text(kind.faults)}" if self._has_kinds else ""
        text = f"fork {len(self.results)} of {self._total}{fault}: {result.run}, {_end(result)}"
        self._write(f"paddock: {text}\n")
        self._draw()

    def end(self) -> None:
        if self._is_shown and self._is_terminal:
            self._write("")

    def _draw(self) -> None:
        if self._is_shown and self._is_terminal:
            self._write(f"{len(self.results)} of {self._total} forks are over")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{_CLEAR}{text}" if self._is_terminal else text)
        sys.stderr.flush()


def _end(result: FinishedRun) -> str:
    if result.error is not None:
        return f"not started: {printable(result.error, 200)}"
    if result.divergence is not None:
        step = result.divergence.step
        return f"left its record {'at its end' if step is None else f'at step {step}'}"
    if result.exit_code is None:
        return f"ended: {printable(result.ended_by, 100)}"
    return f"exit code {result.exit_code}"


def _fault_text(faults: Any) -> str:
    """Return `fault flaky`, or the id or the kind of a fault that is written as YAML."""
    fault = faults[0] if isinstance(faults, list) and faults else faults
    if isinstance(fault, Mapping):
        fault = fault.get("id") or fault.get("fault")
    return printable(f"fault {fault}", 60)


def _compare(directory: Path, results: Sequence[FinishedRun], options: argparse.Namespace) -> None:
    from paddock.cli.commands.compare import main as compare

    runs = [str(run) for run in (directory, *(result.directory for result in results))]
    compare([*runs, "--json"] if options.json else runs)
