"""`paddock ps`: the sandboxes of this user, of whatever process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from paddock.cli.output import say_list
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import age, terminal_table


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock ps", description=__doc__)
    parser.add_json("one JSON array")
    parser.add_flag("--quiet", "-q", "ids alone")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    from paddock.doors.machine.remote import living
    from paddock.state.home import Home

    infos: list[dict[str, Any]] = [
        {"sandbox_id": record.sandbox_id, "pid": record.init_pid, **(record.info or {})}
        for record in living(Home.find())
    ]
    if options.quiet and not options.json:
        print("".join(f"{info['sandbox_id']}\n" for info in infos), end="")
    else:
        nothing = "no sandboxes are running"
        say_list(infos, dict, _table, is_json=options.json, nothing=nothing)
    return 0


def _table(infos: Sequence[dict[str, Any]]) -> str:
    now = time.time()
    rows = [
        (
            info["sandbox_id"],
            age(now - info.get("started_at", now)),
            info.get("template", "?"),
            info.get("host_pid", "?"),
            " ".join(f"{key}={value}" for key, value in info.get("metadata", {}).items()),
        )
        for info in infos
    ]
    header = ("ID", "AGE", "TEMPLATE", "HOST PID", "METADATA")
    return terminal_table(header, rows, flexible=("METADATA", "TEMPLATE"))
