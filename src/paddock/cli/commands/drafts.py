"""`paddock drafts`: writes that were kept instead of done. Ends with 4 when somebody else was
first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import first_or_late
from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import add_trust

if TYPE_CHECKING:
    from paddock.gate.drafts import Draft, Drafts


def main(words: list[str]) -> int:
    if words and words[0] not in _COMMANDS and not words[0].startswith("-"):
        words = ["list", "--run", run_name(words[0]), *words[1:]]  # `paddock drafts RUN`
    is_help = words[:1] in (["-h"], ["--help"])
    if not words or (words[0].startswith("-") and not is_help):
        words = ["list", *words]
    options = make_parser().parse_args(words)
    return first_or_late(lambda: _COMMANDS[options.action or "list"](options))


def run_name(word: str) -> str:
    """The whole id of a run that is named in any way."""
    from paddock.cli.journals import find_journal

    return find_journal(word).name


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock drafts", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    shown = commands.add_parser("list", help="drafts that wait")
    shown.add_argument("--all", action="store_true", help="sent and discarded ones as well")
    shown.add_argument("--run", metavar="RUN", help="of one run")
    show = commands.add_parser("show", help="one draft, with everything in it")
    discard = commands.add_parser("discard", help="it will not be sent")
    discard.add_argument(
        "--stuck", action="store_true", help="one whose sending was interrupted; look first"
    )
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
    for one in (show, discard):
        one.add_argument("id", metavar="DRAFT", help="an id")
    for one in (discard, send):
        one.add_argument("--by", metavar="NAME", help="who does it (default: your login name)")
    for one in (shown, show, discard, send):
        one.add_argument("--json", action="store_true", help="for programs")
    return parser


def _list(options: argparse.Namespace) -> int:
    from paddock.cli.output import say, say_none

    found = _drafts().all(run=options.run, state=None if options.all else "draft")
    if options.json:
        print(json.dumps([draft_as_json(one) for one in found]))
    elif found:
        say(_table(found))
    else:
        say_none("no drafts" if options.all else "no drafts wait; --all has those that are over")
    return 0


def _show(options: argparse.Namespace) -> int:
    from paddock.cli.output import say

    draft = _drafts().get(options.id)
    say(json.dumps(draft_as_json(draft)) if options.json else _text(draft))
    return 0


def _discard(options: argparse.Namespace) -> int:
    drafts = _drafts()
    drafts.change(
        options.id, "discarded", _by(options), was="sending" if options.stuck else "draft"
    )
    return _say(f"discarded {options.id}", draft_as_json(drafts.get(options.id)), options)


def _send(options: argparse.Namespace) -> int:
    from paddock.cli.commands.drafts_send import send_all, send_one

    by = _by(options)
    if options.all is not None:
        return send_all(_drafts(), options, by)
    return send_one(_drafts(), options, by)


def _drafts() -> Drafts:
    from paddock.gate.drafts import Drafts
    from paddock.gate.run_gate import gate_store
    from paddock.state.home import Home

    return Drafts(gate_store(Home.find()))


def _by(options: argparse.Namespace) -> str:
    from paddock.gate.approvals.request import login_name

    return options.by or login_name()


def _say(line: str, said: dict[str, Any], options: argparse.Namespace) -> int:
    print(json.dumps(said) if options.json else line)
    return 0


def _table(found: list[Draft]) -> str:
    import time

    from paddock.cli.render.calls import call_summary
    from paddock.cli.render.table import age, line_width, table
    from paddock.model.plain import plain

    rows = [
        (
            one.draft_id,
            one.state,
            plain(one.agent, 60),
            call_summary(one.action.kind, one.action.name, one.action.arguments),
            age(time.time() - one.made_at),
        )
        for one in found
    ]
    return table(
        ("ID", "STATE", "AGENT", "CALL", "AGE"),
        rows,
        width=line_width(),
        flexible=("AGENT", "CALL"),
        with_ends=("CALL",),
    )


def _text(draft: Draft) -> str:
    import shutil

    from paddock.gate.approvals.question_text import draft_lines

    return "\n".join(draft_lines(draft, shutil.get_terminal_size().columns))


def draft_as_json(draft: Draft) -> dict[str, Any]:
    """As `--json` has it."""
    from paddock.gate.drafts import action_as_json

    return {
        "draft_id": draft.draft_id,
        "run": draft.run,
        "agent": draft.agent,
        "step": draft.step,
        "action": action_as_json(draft.action),
        "preview": draft.preview,
        "made_at": draft.made_at,
        "state": draft.state,
        "changed_by": draft.changed_by,
        "sent_step": draft.sent_step,
    }


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "discard": _discard,
    "send": _send,
}
