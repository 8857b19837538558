"""`paddock approvals`: what agents ask for, and a person's answers. Ends with 4 when somebody else
was first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.exit_codes import ExitCode
from paddock.cli.options import login_from
from paddock.cli.output import confirm, first_or_late, say, say_json, say_list, say_none, warn
from paddock.cli.parser import CommandParser
from paddock.cli.policy_file import read_policy
from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.sizes import parse_duration

if TYPE_CHECKING:
    from paddock.gate.approvals.questions import Approval, Approvals
    from paddock.model.action import Action
    from paddock.policy.decide import Policy


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    return first_or_late(lambda: _COMMANDS[options.action or "list"](options))


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock approvals", description=__doc__)
    _list_options(parser, is_top=True)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND")
    _list_options(commands.add_parser("list", help="questions that wait (the default)"))
    show = commands.add_parser("show", help="one question, with everything in it")
    approve = commands.add_parser("approve", help="yes, this once")
    approve.add_flag("--always", "also propose a rule for calls like this one")
    approve.add_flag("--yes", "do not ask about the rule")
    approve.add_argument("--file", type=Path, help="the paddock file, for --always")
    deny = commands.add_parser("deny", help="no")
    edit = commands.add_parser("edit", help="yes, with other arguments; rules decide on it again")
    how = edit.add_mutually_exclusive_group(required=True)
    how.add_argument("--set", action="append", metavar="PATH=VALUE",
                     help="change one field, as in body.amount=100; again for more")  # fmt: skip
    how.add_argument("--arguments", metavar="JSON", help="all arguments as one object")
    how.add_argument("--editor", action="store_true", help="change them in $EDITOR")
    for subparser in (show, approve, deny, edit):
        subparser.add_argument("id", metavar="ID", help="an id, or the beginning of one")
    for subparser in (approve, deny, edit):
        subparser.add_argument("--reason", default="", help="kept with the answer")
        subparser.add_argument(
            "--by", metavar="NAME", help="who answers (default: your login name)"
        )
    stats = commands.add_parser("stats", help="how often each rule asks, and what is answered")
    stats.add_argument("--agent", metavar="A", help="of one agent")
    stats.add_argument("--since", metavar="TIME", help="only the last 7d, 24h, ...")
    proposals = commands.add_parser("proposals", help="rules that were proposed, for review")
    proposals.add_argument("--agent", metavar="A", help="of one agent")
    proposals.add_argument("--discard", metavar="ID", help="remove one")
    for subparser in (show, approve, deny, edit, stats, proposals):
        subparser.add_json("for programs")
    return parser


def _list_options(parser: CommandParser, *, is_top: bool = False) -> None:
    # Below, nothing is set by itself: it would undo what was given before the word `list`.
    unset: Any = None if is_top else argparse.SUPPRESS
    off: Any = False if is_top else argparse.SUPPRESS
    parser.add_argument("--json", action="store_true", default=off, help="for programs")
    parser.add_argument("--all", action="store_true", default=off, help="answered ones as well")
    parser.add_argument("--run", metavar="RUN", default=unset, help="of one run")
    parser.add_argument("--watch", action="store_true", default=off, help="go on as they come")


def _list(options: argparse.Namespace) -> int:
    from paddock.cli.render.approvals import approval_json, approvals_table, watch
    from paddock.gate.approvals.questions import PENDING

    approvals = _approvals()
    if options.watch:
        return watch(approvals, run=options.run, is_json=options.json)
    questions = approvals.all(state=None if options.all else PENDING, run=options.run)
    nothing = "no questions" if options.all else "no questions wait; --all has answered ones"
    say_list(questions, approval_json, approvals_table, is_json=options.json, nothing=nothing)
    return 0


def _show(options: argparse.Namespace) -> int:
    from paddock.cli.render.approvals import approval_json, approval_text

    approvals = _approvals()
    approvals.sweep()
    question = approvals.get(options.id)
    if options.json:
        say_json(approval_json(question))
    else:
        say(approval_text(question))
    return 0


def _approve(options: argparse.Namespace) -> int:
    approvals = _approvals()
    by = login_from(options)
    if not options.always:
        return _say(approvals.approve(options.id, by, options.reason), options)
    from paddock.gate.approvals.proposals import Proposals, sketch

    question = approvals.get(options.id)
    policy = read_policy(options.file) if options.file else approvals.policy_of(question)
    refusal: PaddockError | None = None
    try:
        rule = sketch(question, by, policy).as_yaml()
    except PaddockError as error:
        refusal = error
    else:
        if not options.json:
            print(rule, end="", flush=True)
            if not options.yes and not _is_agreed():
                warn("nothing was answered")
                return ExitCode.FAILED
    answered = approvals.approve(question.approval_id, by, options.reason)
    if refusal is not None:
        _say(answered, options)
        warn(f"approved this once; no rule is proposed: {refusal}")
        return ExitCode.FAILED
    proposal = Proposals(approvals.store).add(answered, by, policy)
    return _say(answered, options, proposal=proposal.as_yaml())


def _is_agreed() -> bool:
    """Return whether the person at the terminal wants the rule that is shown; yes where there is
    no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    question = "Approve this call, and keep this rule for review? [y/N] "
    return confirm(question, is_on_stderr=True)


def _deny(options: argparse.Namespace) -> int:
    return _say(_approvals().deny(options.id, login_from(options), options.reason), options)


def _edit(options: argparse.Namespace) -> int:
    from paddock.gate.approvals.argument_edits import change_lines, parse_arguments, with_changes

    approvals = _approvals()
    question = approvals.get(options.id)
    shown = question.content.get("arguments") or {}
    if options.set:
        arguments = with_changes(shown, options.set)
    elif options.arguments is not None:
        arguments = parse_arguments(options.arguments)
    else:
        arguments = _in_editor(shown)
    checked = approvals.checking(lambda approval, edited: check_edit(approvals, approval, edited))
    answered = checked.edit(question.approval_id, login_from(options), arguments, options.reason)
    _say(answered, options)
    if not options.json:
        for line in change_lines(shown, arguments):
            print(f"  {line}")
    return 0


def _in_editor(shown: dict[str, Any]) -> dict[str, Any]:
    import subprocess

    from paddock.gate.approvals.argument_edits import arguments_file, editor_command, read_arguments

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    with arguments_file(shown) as path:
        try:
            code = subprocess.run([*editor_command(editor), str(path)], check=False).returncode
        except OSError as error:
            raise InvalidInput(f"$EDITOR cannot be started: {error.strerror}") from None
        if code:
            raise InvalidInput(f"the editor ended with {code}; nothing was answered")
        edited = read_arguments(path)
    if json.dumps(edited, sort_keys=True) == json.dumps(shown, sort_keys=True):
        raise InvalidInput("nothing was changed, so nothing was answered")
    return edited


def check_edit(approvals: Approvals, approval: Approval, arguments: Mapping[str, Any]) -> None:
    """Raise InvalidInput for an edit that could not be carried out, or that the terms of the run
    would block. The run, which is another process, decides on it again in any case."""
    from paddock.gate.approvals.argument_edits import check_decision, check_fields
    from paddock.gate.approvals.proposals import asked_action
    from paddock.gate.ledger import Accounts

    action = asked_action(approval)
    policy = approvals.policy_of(approval)
    check_fields(action.kind, action.arguments, arguments)
    edited = _rebuilt(action, arguments, policy)
    if policy is not None:
        accounts = Accounts(approvals.store, policy.agent, approval.run)
        check_decision(policy, accounts, action, edited)


def _rebuilt(action: Action, arguments: Mapping[str, Any], policy: Policy | None) -> Action:
    """Return the edited action as its door would build it again."""
    from msgspec.structs import replace

    from paddock.gate.approvals.argument_edits import check_editable
    from paddock.model.action import Kind

    if action.kind is Kind.MODEL:
        raise InvalidInput("A request to a model cannot be edited.")
    if action.kind is not Kind.HTTP:
        check_editable(action)
        return replace(action, arguments=arguments)
    from paddock.doors.network.request import rebuild_action, recorded_proposal

    network = None if policy is None else policy.network
    proposal = recorded_proposal(action, () if network is None else network.graphql)
    return rebuild_action(proposal, action, arguments)


def _stats(options: argparse.Namespace) -> int:
    from paddock.cli.render.approvals import statistics_json, statistics_table
    from paddock.gate.approvals.statistics import rule_statistics

    window_s = parse_duration(options.since, "--since") if options.since else None
    statistics = rule_statistics(_approvals(), agent=options.agent, window_s=window_s)
    nothing = "no rule has asked yet"
    say_list(statistics, statistics_json, statistics_table, is_json=options.json, nothing=nothing)
    return 0


def _proposals(options: argparse.Namespace) -> int:
    from paddock.cli.render.approvals import proposal_json
    from paddock.gate.approvals.proposals import Proposals

    proposals = Proposals(_approvals().store)
    if options.discard:
        proposals.discard(options.discard)
        return 0
    rules = proposals.all(options.agent)
    if options.json:
        say_json([proposal_json(rule) for rule in rules])
    elif rules:
        print("\n".join(rule.as_yaml() for rule in rules), end="")
    else:
        say_none("no rules are proposed")
    return 0


def _approvals() -> Approvals:
    from paddock.gate.approvals.questions import Approvals
    from paddock.gate.run_gate import gate_store
    from paddock.state.home import Home

    return Approvals(gate_store(Home.find()))


def _say(answered: Approval, options: argparse.Namespace, **more: str) -> int:
    from paddock.cli.render.approvals import approval_json

    if options.json:
        say_json({**approval_json(answered), **more})
    else:
        print(f"{answered.state} {answered.approval_id}")
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "approve": _approve,
    "deny": _deny,
    "edit": _edit,
    "stats": _stats,
    "proposals": _proposals,
}
