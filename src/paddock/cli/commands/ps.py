"""`paddock ps`: the sandboxes of this user, of whatever process."""

from __future__ import annotations

import json
import time

from paddock.cli.output import say_none
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import age, line_width, table


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock ps", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON array")
    parser.add_argument("--quiet", "-q", action="store_true", help="ids alone")
    return parser


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    from paddock.doors.machine.remote import living
    from paddock.state.home import Home

    records = living(Home.find())
    infos = [{"sandbox_id": r.sandbox_id, "pid": r.init_pid, **(r.info or {})} for r in records]
    if options.json:
        print(json.dumps(infos))
    elif options.quiet:
        print("".join(f"{i['sandbox_id']}\n" for i in infos), end="")
    elif infos:
        rows = [
            (
                i["sandbox_id"],
                age(time.time() - i.get("started_at", time.time())),
                i.get("template", "?"),
                i.get("host_pid", "?"),
                " ".join(f"{k}={v}" for k, v in i.get("metadata", {}).items()),
            )
            for i in infos
        ]
        header = ("ID", "AGE", "TEMPLATE", "HOST PID", "METADATA")
        print(table(header, rows, width=line_width(), flexible=("METADATA", "TEMPLATE")))
    else:
        say_none("no sandboxes are running")
    return 0
