"""`paddock approvals`: what agents ask for, and a person's answers. Ends with 4 when somebody else
was first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.exit_codes import ExitCode
from paddock.cli.output import first_or_late
from paddock.cli.parser import CommandParser
from paddock.cli.policy_file import read_policy
from paddock.model.errors import InvalidInput, PaddockError

if TYPE_CHECKING:
    from paddock.gate.approvals import Approval, Approvals


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    return first_or_late(lambda: _COMMANDS[options.action or "list"](options))


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock approvals", description=__doc__)
    _list_options(parser, is_top=True)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND")
    _list_options(commands.add_parser("list", help="questions that wait (the default)"))
    show = commands.add_parser("show", help="one question, with everything in it")
    approve = commands.add_parser("approve", help="yes, this once")
    approve.add_argument(
        "--always", action="store_true", help="also propose a rule for calls like this one"
    )
    approve.add_argument("--yes", action="store_true", help="do not ask about the rule")
    approve.add_argument("--file", type=Path, help="the paddock file, for --always")
    deny = commands.add_parser("deny", help="no")
    edit = commands.add_parser("edit", help="yes, with other arguments; rules decide on it again")
    how = edit.add_mutually_exclusive_group(required=True)
    how.add_argument("--set", action="append", metavar="PATH=VALUE",
                     help="change one field, as in body.amount=100; again for more")  # fmt: skip
    how.add_argument("--arguments", metavar="JSON", help="all arguments as one object")
    how.add_argument("--editor", action="store_true", help="change them in $EDITOR")
    for one in (show, approve, deny, edit):
        one.add_argument("id", metavar="ID", help="an id, or the beginning of one")
    for one in (approve, deny, edit):
        one.add_argument("--reason", default="", help="kept with the answer")
        one.add_argument("--by", metavar="NAME", help="who answers (default: your login name)")
    stats = commands.add_parser("stats", help="how often each rule asks, and what is answered")
    stats.add_argument("--agent", metavar="A", help="of one agent")
    stats.add_argument("--since", metavar="TIME", help="only the last 7d, 24h, ...")
    proposals = commands.add_parser("proposals", help="rules that were proposed, for review")
    proposals.add_argument("--agent", metavar="A", help="of one agent")
    proposals.add_argument("--discard", metavar="ID", help="remove one")
    for one in (show, approve, deny, edit, stats, proposals):
        one.add_argument("--json", action="store_true", help="for programs")
    return parser


def _list_options(parser: argparse.ArgumentParser, *, is_top: bool = False) -> None:
    # Below, nothing is set by itself: it would undo what was given before the word `list`.
    unset: Any = None if is_top else argparse.SUPPRESS
    off: Any = False if is_top else argparse.SUPPRESS
    parser.add_argument("--json", action="store_true", default=off, help="for programs")
    parser.add_argument("--all", action="store_true", default=off, help="answered ones as well")
    parser.add_argument("--run", metavar="RUN", default=unset, help="of one run")
    parser.add_argument("--watch", action="store_true", default=off, help="go on as they come")


def _list(options: argparse.Namespace) -> int:
    from paddock.cli.output import say, say_none
    from paddock.cli.render.approvals import approvals_table, watch
    from paddock.gate.approvals import PENDING

    approvals = _approvals()
    if options.watch:
        return watch(approvals, run=options.run, is_json=options.json)
    found = approvals.all(state=None if options.all else PENDING, run=options.run)
    if options.json:
        print(json.dumps([_as_json(one) for one in found]))
    elif found:
        say(approvals_table(found))
    else:
        say_none("no questions" if options.all else "no questions wait; --all has answered ones")
    return 0


def _show(options: argparse.Namespace) -> int:
    from paddock.cli.output import say
    from paddock.cli.render.approvals import approval_text

    approvals = _approvals()
    approvals.sweep()
    found = approvals.get(options.id)
    say(json.dumps(_as_json(found)) if options.json else approval_text(found))
    return 0


def _approve(options: argparse.Namespace) -> int:
    approvals = _approvals()
    if not options.always:
        answered = approvals.approve(options.id, _by(options), options.reason)
        return _say(answered, _as_json(answered), options)
    from paddock.gate.approvals.proposals import Proposals, sketch

    asked = approvals.get(options.id)
    policy = read_policy(options.file) if options.file else approvals.policy_of(asked)
    refused: PaddockError | None = None
    try:
        shown = sketch(asked, _by(options), policy).as_yaml()
    except PaddockError as error:
        shown, refused = "", error
    if shown and not options.json:
        print(shown, end="", flush=True)
    if shown and not (options.json or options.yes) and not _is_agreed():
        print("paddock: nothing was answered", file=sys.stderr)
        return ExitCode.FAILED
    answered = approvals.approve(asked.approval_id, _by(options), options.reason)
    if refused is not None:
        _say(answered, _as_json(answered), options)
        print(f"paddock: approved this once; no rule is proposed: {refused}", file=sys.stderr)
        return ExitCode.FAILED
    proposal = Proposals(approvals.store).add(answered, _by(options), policy)
    return _say(answered, {**_as_json(answered), "proposal": proposal.as_yaml()}, options)


def _is_agreed() -> bool:
    """Return whether the person at the terminal wants the rule that is shown; yes where there is
    none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print("Approve this call, and keep this rule for review? [y/N] ", end="", file=sys.stderr,
          flush=True)  # fmt: skip
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _deny(options: argparse.Namespace) -> int:
    answered = _approvals().deny(options.id, _by(options), options.reason)
    return _say(answered, _as_json(answered), options)


def _edit(options: argparse.Namespace) -> int:
    from paddock.cli.commands.approval_edit import check_edit
    from paddock.gate.approvals.argument_edits import change_lines

    approvals = _approvals()
    asked = approvals.get(options.id)
    shown = asked.content.get("arguments") or {}
    arguments = _edited(shown, options)
    checked = approvals.checking(lambda one, edited: check_edit(approvals, one, edited))
    answered = checked.edit(asked.approval_id, _by(options), arguments, options.reason)
    _say(answered, _as_json(answered), options)
    if not options.json:
        print("".join(f"  {line}\n" for line in change_lines(shown, arguments)), end="")
    return 0


def _edited(shown: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    from paddock.gate.approvals.argument_edits import parse_arguments, with_changes

    if options.set:
        return with_changes(shown, options.set)
    if options.arguments is not None:
        return parse_arguments(options.arguments)
    return _in_editor(shown)


def _in_editor(shown: dict[str, Any]) -> dict[str, Any]:
    import subprocess

    from paddock.gate.approvals.argument_edits import arguments_file, editor_words, read_arguments

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    with arguments_file(shown) as path:
        try:
            code = subprocess.run([*editor_words(editor), str(path)], check=False).returncode
        except OSError as error:
            raise InvalidInput(f"$EDITOR cannot be started: {error.strerror}") from None
        if code:
            raise InvalidInput(f"the editor ended with {code}; nothing was answered")
        edited = read_arguments(path)
    if json.dumps(edited, sort_keys=True) == json.dumps(shown, sort_keys=True):
        raise InvalidInput("nothing was changed, so nothing was answered")
    return edited


def _stats(options: argparse.Namespace) -> int:
    from paddock.cli.output import say, say_none
    from paddock.cli.render.approvals import statistics_json, statistics_table
    from paddock.gate.approvals.statistics import rule_statistics
    from paddock.model.sizes import parse_duration

    window_s = parse_duration(options.since, "--since") if options.since else None
    found = rule_statistics(_approvals(), agent=options.agent, window_s=window_s)
    if options.json:
        print(json.dumps(statistics_json(found)))
    elif found:
        say(statistics_table(found))
    else:
        say_none("no rule has asked yet")
    return 0


def _proposals(options: argparse.Namespace) -> int:
    from paddock.cli.output import say_none
    from paddock.cli.render.approvals import proposals_json
    from paddock.gate.approvals.proposals import Proposals

    proposals = Proposals(_approvals().store)
    if options.discard:
        proposals.discard(options.discard)
        return 0
    found = proposals.all(options.agent)
    if options.json:
        print(json.dumps(proposals_json(found)))
    elif found:
        print("\n".join(one.as_yaml() for one in found), end="")
    else:
        say_none("no rules are proposed")
    return 0


def _approvals() -> Approvals:
    from paddock.gate.approvals import Approvals
    from paddock.gate.run_gate import gate_store
    from paddock.state.home import Home

    return Approvals(gate_store(Home.find()))


def _by(options: argparse.Namespace) -> str:
    from paddock.gate.approvals.request import login_name

    return options.by or login_name()


def _say(answered: Approval, said: dict[str, Any], options: argparse.Namespace) -> int:
    print(json.dumps(said) if options.json else f"{answered.state} {answered.approval_id}")
    return 0


def _as_json(approval: Approval) -> dict[str, Any]:
    from paddock.cli.render.approvals import approval_json

    return approval_json(approval)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "approve": _approve,
    "deny": _deny,
    "edit": _edit,
    "stats": _stats,
    "proposals": _proposals,
}
