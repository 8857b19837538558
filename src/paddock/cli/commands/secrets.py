"""`paddock secrets`: which running sandboxes have which secrets, and how to take one from all of
them. Only names are known here; no value is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from paddock.cli.output import say, say_json, say_list
from paddock.cli.parser import CommandParser, command
from paddock.cli.render.table import age, terminal_table
from paddock.model.plural import many
from paddock.state.home import Home
from paddock.state.revocations import Holder, holders, revoke


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock secrets", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    shown = commands.add_parser("list", help="running sandboxes and the names of their secrets")
    taken = commands.add_parser("revoke", help="take a secret from every running sandbox")
    taken.add_argument("name", metavar="NAME", help="as in the paddock file")
    for subparser in (shown, taken):
        subparser.add_json("for programs")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    home = Home.find()
    return _revoke(home, options) if options.action == "revoke" else _list(home, options)


def _list(home: Home, options: argparse.Namespace) -> int:
    held = [(holder, holder.lost(home)) for holder in holders(home)]
    nothing = "no running sandbox has secrets"
    say_list(held, _as_json, _table, is_json=options.json, nothing=nothing)
    return 0


def _table(held: Sequence[tuple[Holder, set[str]]]) -> str:
    rows = []
    for holder, lost in held:
        running = age(time.time() - holder.started_at)
        for name in holder.marks:
            state = "revoked" if name in lost else "in use"
            rows.append((holder.sandbox_id, name, state, running, holder.host_pid))
    header = ("SANDBOX", "SECRET", "STATE", "AGE", "HOST PID")
    return terminal_table(header, rows, flexible=("SECRET",))


def _revoke(home: Home, options: argparse.Namespace) -> int:
    before = [holder for holder in holders(home) if options.name in holder.marks]
    had = [holder.sandbox_id for holder in before if options.name not in holder.lost(home)]
    revoke(home, options.name)
    if options.json:
        say_json({"name": options.name, "revoked": True, "sandboxes": had})
    else:
        say(f"{options.name} is revoked: {_count(had)}")
    return 0


def _count(had: list[str]) -> str:
    if not had:
        return "no running sandbox had it; one that is being started now does not get to use it"
    sandboxes = many(len(had), "running sandbox", "running sandboxes")
    return f"taken from {sandboxes}: {', '.join(had)}"


def _as_json(held: tuple[Holder, set[str]]) -> dict[str, Any]:
    holder, lost = held
    return {
        "sandbox_id": holder.sandbox_id,
        "secrets": sorted(holder.marks),
        "revoked": sorted(lost),
        "host_pid": holder.host_pid,
        "started_us": int(holder.started_at * 1e6),
    }
