"""`paddock volume`: persistent directories with a quota."""

from __future__ import annotations

import json

import msgspec

from paddock.cli.output import say_none
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import line_width, table
from paddock.model.sizes import format_size


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock volume", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    create = commands.add_parser("create", help="make one")
    create.add_argument("name", metavar="NAME", help="its name")
    create.add_argument("--quota", default="1GiB", help="how much it may hold")
    shown = commands.add_parser("list", help="all of this user")
    shown.add_argument("--json", action="store_true", help="one JSON array")
    remove = commands.add_parser("remove", help="remove one and all in it")
    remove.add_argument("name", metavar="VOLUME", help="its name")
    return parser


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    from paddock.doors.machine.volumes import Volume

    if options.action == "create":
        print(Volume.create(options.name, options.quota).name)
    elif options.action == "remove":
        Volume.get(options.name).delete()
    elif options.json:
        print(json.dumps([msgspec.structs.asdict(v) for v in Volume.list()]))
    elif volumes := Volume.list():
        rows = [(v.name, format_size(v.quota_bytes), format_size(v.used_bytes())) for v in volumes]
        print(table(("NAME", "QUOTA", "USED"), rows, width=line_width(), flexible=("NAME",)))
    else:
        say_none("no volumes; paddock volume create makes one")
    return 0
