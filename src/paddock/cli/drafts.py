"""`paddock drafts`: writes that were kept instead of done. Ends with 4 when somebody else was
first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output import first_or_late
from paddock.cli.policy_file import read_policy
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from paddock.gate.drafts import Draft, Drafts
    from paddock.model.action import Receipt
    from paddock.policy.decide import Policy

EXIT_FAILED = 1


def main(words: list[str]) -> int:
    options = _parser().parse_args(words)
    return first_or_late(lambda: _COMMANDS[options.action or "list"](options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paddock drafts", description=__doc__)
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
    send.add_argument("--file", type=Path, default=Path("paddock.yaml"), metavar="FILE",
                      help="the paddock file that decides on it (paddock.yaml)")  # fmt: skip
    send.add_argument("--stage", metavar="S", help="instead of the file's: approve, narrow, broad")
    send.add_argument("--tools", required=True, metavar="MODULE[:NAME]",
                      help="where the tool functions are: a mapping, a list, or one function; "
                           "without a name the functions of the module")  # fmt: skip
    for one in (show, discard, send):
        one.add_argument("id", metavar="ID")
    for one in (discard, send):
        one.add_argument("--by", metavar="NAME", help="who does it (your login name)")
    for one in (shown, show, discard, send):
        one.add_argument("--json", action="store_true", help="for programs")
    return parser


def _list(options: argparse.Namespace) -> int:
    from paddock.cli.output import say

    found = _drafts().all(run=options.run, state=None if options.all else "draft")
    if options.json:
        print(json.dumps([_as_json(one) for one in found]))
    elif found:
        say(_table(found))
    return 0


def _show(options: argparse.Namespace) -> int:
    from paddock.cli.output import say

    draft = _drafts().get(options.id)
    say(json.dumps(_as_json(draft)) if options.json else _text(draft))
    return 0


def _discard(options: argparse.Namespace) -> int:
    drafts = _drafts()
    drafts.change(
        options.id, "discarded", _by(options), was="sending" if options.stuck else "draft"
    )
    return _say(f"discarded {options.id}", _as_json(drafts.get(options.id)), options)


def _send(options: argparse.Namespace) -> int:
    import asyncio
    import contextlib

    from paddock.cli.tool_functions import find_function, live
    from paddock.gate.opening import approvers_for, open_gate
    from paddock.gate.sending import check_sendable, send
    from paddock.journal.errors import JournalBroken
    from paddock.state.home import Home, new_id

    drafts, home = _drafts(), Home.find()
    draft = drafts.get(options.id)
    function = find_function(options.tools, draft.action)
    policy = _policy(options.file, options.stage)
    check_sendable(draft, policy)  # before there is a run of it
    approvers = approvers_for(policy)
    gate = open_gate(home, new_id(), policy, about={"draft": draft.draft_id}, approvers=approvers)
    try:
        sending = send(drafts, draft.draft_id, gate, live(function), _by(options))
        receipt = asyncio.run(sending)
    finally:
        with contextlib.suppress(JournalBroken):  # the receipt says so
            gate.close({"draft": draft.draft_id})
    return _report(drafts.get(draft.draft_id), gate.run, receipt, options)


def _report(draft: Draft, run: str, receipt: Receipt, options: argparse.Namespace) -> int:
    from paddock.gate.showing import plain
    from paddock.journal.bodies import as_json

    said = {**_as_json(draft), "sent_run": run, "outcome": receipt.outcome.value}
    said |= {"result": as_json(receipt.result), "error": receipt.error}
    if receipt.is_done:
        return _say(f"sent {draft.draft_id} (run {run})", said, options)
    if options.json:
        print(json.dumps(said))
    then = "it is a draft again" if draft.state == "draft" else f"it stays {draft.state}"
    why = plain(receipt.error or "")
    print(f"paddock: not sent, {then}: {receipt.outcome.value}: {why}", file=sys.stderr)
    return EXIT_FAILED


def _policy(path: Path, stage: str | None) -> Policy:
    from paddock.model.action import Stage

    if stage is not None and stage not in list(Stage):
        known = ", ".join(Stage)
        raise InvalidInput(f"--stage: {stage!r} is not a stage", hint=f"there are {known}")
    if not path.exists():
        raise InvalidInput(f"{path} cannot be read", hint="name the paddock file with --file")
    return read_policy(path, stage)


def _drafts() -> Drafts:
    from paddock.gate.drafts import Drafts
    from paddock.gate.opening import gate_store
    from paddock.state.home import Home

    return Drafts(gate_store(Home.find()))


def _by(options: argparse.Namespace) -> str:
    from paddock.gate.asking import login_name

    return options.by or login_name()


def _say(line: str, said: dict[str, Any], options: argparse.Namespace) -> int:
    print(json.dumps(said) if options.json else line)
    return 0


def _table(found: list[Draft]) -> str:
    import time

    from paddock.cli.table import age, table
    from paddock.gate.showing import plain

    rows = [
        (
            one.draft_id,
            one.state,
            plain(one.agent, 60),
            plain(f"{one.action.kind} {one.action.name}", 60),
            age(time.time() - one.made_at),
        )
        for one in found
    ]
    return table(("ID", "STATE", "AGENT", "CALL", "AGE"), rows)


def _text(draft: Draft) -> str:
    import shutil

    from paddock.gate.showing import draft_lines

    return "\n".join(draft_lines(draft, shutil.get_terminal_size().columns))


def _as_json(draft: Draft) -> dict[str, Any]:
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
