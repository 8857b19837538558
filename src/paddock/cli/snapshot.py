"""`paddock snapshot`: saved files of sandboxes."""

from __future__ import annotations

import argparse
import json

from paddock.model.sizes import format_size
from paddock.state.home import Home
from paddock.state.snapshots import SnapshotStore


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="paddock snapshot", description=__doc__)
    commands = parser.add_subparsers(dest="action", required=True)
    shown = commands.add_parser("list", help="all of this user")
    shown.add_argument("--json", action="store_true")
    for name, what in (("verify", "check every byte of one"), ("remove", "remove one")):
        commands.add_parser(name, help=what).add_argument("id")
    options = parser.parse_args(words)
    store = SnapshotStore(Home.find().snapshots)
    if options.action == "verify":
        store.verify(options.id)
        print(f"{options.id}  whole")
    elif options.action == "remove":
        store.delete(options.id)
        print(f"freed {format_size(store.gc())}")
    else:
        ids = [s.snapshot_id for s in store.list()]
        print(json.dumps(ids) if options.json else "\n".join(ids))
    return 0
