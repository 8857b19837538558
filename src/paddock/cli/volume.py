"""`paddock volume`: persistent directories with a quota."""

from __future__ import annotations

import argparse
import dataclasses
import json

from paddock.cli.table import table
from paddock.doors.machine.volumes import Volume
from paddock.model.sizes import format_size


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="paddock volume", description=__doc__)
    commands = parser.add_subparsers(dest="action", required=True)
    create = commands.add_parser("create", help="make one")
    create.add_argument("name")
    create.add_argument("--quota", default="1GiB", help="how much it may hold (1GiB)")
    shown = commands.add_parser("list", help="all of this user")
    shown.add_argument("--json", action="store_true")
    remove = commands.add_parser("remove", help="remove one and all in it")
    remove.add_argument("name")
    options = parser.parse_args(words)
    if options.action == "create":
        print(Volume.create(options.name, options.quota).name)
    elif options.action == "remove":
        Volume.get(options.name).delete()
    elif options.json:
        print(json.dumps([dataclasses.asdict(v) for v in Volume.list()]))
    elif volumes := Volume.list():
        rows = [(v.name, format_size(v.quota_bytes), format_size(v.used_bytes())) for v in volumes]
        print(table(("NAME", "QUOTA", "USED"), rows))
    return 0
