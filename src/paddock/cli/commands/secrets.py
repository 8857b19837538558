"""`paddock secrets`: which running sandboxes have which secrets, and how to take one from all of
them. Only names are known here; no value is.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from paddock.cli.output import say, say_json, say_none, sentences
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import age, line_width, table
from paddock.model.plural import many
from paddock.state.home import Home
from paddock.state.revocations import Holder, holders, revoke


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    with sentences():
        home = Home.find()
        return _revoke(home, options) if options.action == "revoke" else _list(home, options)


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock secrets", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    shown = commands.add_parser("list", help="running sandboxes and the names of their secrets")
    taken = commands.add_parser("revoke", help="take a secret from every running sandbox")
    taken.add_argument("name", metavar="NAME", help="as in the paddock file")
    for one in (shown, taken):
        one.add_argument("--json", action="store_true", help="for programs")
    return parser


def _list(home: Home, options: argparse.Namespace) -> int:
    found = [(one, one.lost(home)) for one in holders(home)]
    if options.json:
        say_json([_as_json(one, lost) for one, lost in found])
    elif found:
        rows = [
            (one.sandbox_id, name, "revoked" if name in lost else "in use",
             age(time.time() - one.started_at), one.host_pid)
            for one, lost in found
            for name in one.marks
        ]  # fmt: skip
        say(
            table(
                ("SANDBOX", "SECRET", "STATE", "AGE", "HOST PID"),
                rows,
                width=line_width(),
                flexible=("SECRET",),
            )
        )
    else:
        say_none("no running sandbox has secrets")
    return 0


def _revoke(home: Home, options: argparse.Namespace) -> int:
    before = [one for one in holders(home) if options.name in one.marks]
    had = [one.sandbox_id for one in before if options.name not in one.lost(home)]
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


def _as_json(one: Holder, lost: set[str]) -> dict[str, Any]:
    return {
        "sandbox_id": one.sandbox_id,
        "secrets": sorted(one.marks),
        "revoked": sorted(lost),
        "host_pid": one.host_pid,
        "started_us": int(one.started_at * 1e6),
    }
