"""`paddock volume`: persistent directories with a quota."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from paddock.cli.output import say_list
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import terminal_table
from paddock.model.sizes import format_size

if TYPE_CHECKING:
    from paddock.doors.machine.volumes import Volume


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock volume", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    create = commands.add_parser("create", help="make one")
    create.add_argument("name", metavar="NAME", help="its name")
    create.add_argument("--quota", default="1GiB", help="how much it may hold")
    shown = commands.add_parser("list", help="all of this user")
    shown.add_json("one JSON array")
    remove = commands.add_parser("remove", help="remove one and all in it")
    remove.add_argument("name", metavar="VOLUME", help="its name")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    from paddock.doors.machine.volumes import Volume

    if options.action == "create":
        print(Volume.create(options.name, options.quota).name)
    elif options.action == "remove":
        Volume.get(options.name).delete()
    else:
        nothing = "no volumes; paddock volume create makes one"
        say_list(Volume.list(), asdict, _table, is_json=options.json, nothing=nothing)
    return 0


def _table(volumes: Sequence[Volume]) -> str:
    rows = [
        (volume.name, format_size(volume.quota_bytes), format_size(volume.used_bytes()))
        for volume in volumes
    ]
    return terminal_table(("NAME", "QUOTA", "USED"), rows, flexible=("NAME",))
