"""`paddock drafts`: writes that were kept instead of done. Ends with 4 when somebody else was
first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.options import login_from
from paddock.cli.output import first_or_late, say, say_json, say_list
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import age, terminal_table
from paddock.cli.trust_prompt import add_trust
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.gate.drafts import Draft, Drafts


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] not in _COMMANDS and not arguments[0].startswith("-"):
        arguments = [
            "list",
            "--run",
            run_name(arguments[0]),
            *arguments[1:],
        ]  # `paddock drafts RUN`
    is_help = arguments[:1] in (["-h"], ["--help"])
    if not arguments or (arguments[0].startswith("-") and not is_help):
        arguments = ["list", *arguments]
    options = make_parser().parse_args(arguments)
    return first_or_late(lambda: _COMMANDS[options.action or "list"](options))


def run_name(word: str) -> str:
    """Return the whole id of a run that is named in any way."""
    from paddock.cli.journals import find_journal

    return find_journal(word).name


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock drafts", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    shown = commands.add_parser("list", help="drafts that wait")
    shown.add_flag("--all", "sent and discarded ones as well")
    shown.add_argument("--run", metavar="RUN", help="of one run")
    show = commands.add_parser("show", help="one draft, with everything in it")
    discard = commands.add_parser("discard", help="it will not be sent")
    discard.add_flag("--stuck", "one whose sending was interrupted; look first")
    send = commands.add_parser("send", help="carry it out, through the gate")
    send.add_argument("--file", "-f", type=Path, default=Path("paddock.yaml"), metavar="FILE",
                      help="the paddock file that decides on it")  # fmt: skip
    send.add_argument("--stage", metavar="S", help="instead of the file's: approve, narrow, broad")
    send.add_argument("--tools", metavar="MODULE[:NAME]",
                      help="where the tool functions are: a mapping, a list, or one function; "
                           "without a name the functions of the module. "
                           "Requests need none")  # fmt: skip
    add_trust(send)
    which = send.add_mutually_exclusive_group(required=True)
    which.add_argument("id", metavar="DRAFT", nargs="?", help="an id")
    which.add_argument("--all", metavar="RUN", help="all of a run, up to the first that fails")
    for subparser in (show, discard):
        subparser.add_argument("id", metavar="DRAFT", help="an id")
    for subparser in (discard, send):
        subparser.add_argument(
            "--by", metavar="NAME", help="who does it (default: your login name)"
        )
    for subparser in (shown, show, discard, send):
        subparser.add_json("for programs")
    return parser


def _list(options: argparse.Namespace) -> int:
    drafts = _drafts().all(run=options.run, state=None if options.all else "draft")
    nothing = "no drafts" if options.all else "no drafts wait; --all has those that are over"
    say_list(drafts, draft_as_json, _table, is_json=options.json, nothing=nothing)
    return 0


def _show(options: argparse.Namespace) -> int:
    import shutil

    from paddock.gate.approvals.question_text import draft_lines

    draft = _drafts().get(options.id)
    if options.json:
        say_json(draft_as_json(draft))
    else:
        say("\n".join(draft_lines(draft, shutil.get_terminal_size().columns)))
    return 0


def _discard(options: argparse.Namespace) -> int:
    drafts = _drafts()
    state = "sending" if options.stuck else "draft"
    drafts.change(options.id, "discarded", login_from(options), was=state)
    if options.json:
        say_json(draft_as_json(drafts.get(options.id)))
    else:
        print(f"discarded {options.id}")
    return 0


def _send(options: argparse.Namespace) -> int:
    from paddock.cli.commands.drafts_send import send_all, send_one

    send = send_one if options.all is None else send_all
    return send(_drafts(), options, login_from(options))


def _drafts() -> Drafts:
    from paddock.gate.drafts import Drafts
    from paddock.gate.run_gate import gate_store
    from paddock.state.home import Home

    return Drafts(gate_store(Home.find()))


def _table(drafts: Sequence[Draft]) -> str:
    import time

    from paddock.cli.render.calls import call_summary

    rows = [
        (
            draft.draft_id,
            draft.state,
            printable(draft.agent, 60),
            call_summary(draft.action.kind, draft.action.name, draft.action.arguments),
            age(time.time() - draft.made_at),
        )
        for draft in drafts
    ]
    header = ("ID", "STATE", "AGENT", "CALL", "AGE")
    return terminal_table(header, rows, flexible=("AGENT", "CALL"), with_ends=("CALL",))


def draft_as_json(draft: Draft) -> dict[str, Any]:
    """Return a draft for programs."""
    from msgspec.structs import asdict

    from paddock.gate.drafts import action_as_json

    return {**asdict(draft), "action": action_as_json(draft.action)}


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "discard": _discard,
    "send": _send,
}
