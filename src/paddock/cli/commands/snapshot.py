"""`paddock snapshot`: saved files of sandboxes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from paddock.cli.output import say_list
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import table
from paddock.model.sizes import format_size

if TYPE_CHECKING:
    from paddock.state.snapshots.store import SnapshotInfo


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock snapshot", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    create = commands.add_parser("create", help="save the files of a running sandbox")
    create.add_argument("sandbox", metavar="SANDBOX", help="the id of a running one")
    create.add_argument("--name", help="for --snapshot NAME, instead of the id")
    shown = commands.add_parser("list", help="all of this user")
    shown.add_json("one JSON array")
    for name, what in (("verify", "check every byte of one"), ("remove", "remove one")):
        below = commands.add_parser(name, help=what)
        below.add_argument("snapshot", metavar="SNAPSHOT", help="its name or id")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    if options.action == "create":
        from paddock.doors.machine.sandbox import Sandbox  # the others need no sandbox

        print(Sandbox.connect(options.sandbox).snapshot(options.name))
        return 0
    from paddock.state.home import Home
    from paddock.state.snapshots.store import SnapshotStore

    store = SnapshotStore(Home.find().snapshots)
    if options.action == "verify":
        store.verify(store.find(options.snapshot))
        print(f"{options.snapshot}  whole")
    elif options.action == "remove":
        store.delete(store.find(options.snapshot))
        print(f"freed {format_size(store.gc())}")
    else:
        say_list(store.list(), _as_json, _table, is_json=options.json, nothing="no snapshots")
    return 0


def _table(snapshots: Sequence[SnapshotInfo]) -> str:
    rows = [
        (
            snapshot.name or "-",
            snapshot.snapshot_id,
            format_size(snapshot.size_bytes),
            datetime.fromtimestamp(snapshot.created_at).astimezone().strftime("%Y-%m-%d %H:%M"),
        )
        for snapshot in snapshots
    ]
    return table(("NAME", "ID", "SIZE", "CREATED"), rows)


def _as_json(info: SnapshotInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "id": info.snapshot_id,
        "size_bytes": info.size_bytes,
        "files": info.files,
        "created_at": info.created_at,
    }
