"""`paddock template`: root file systems from OCI images and tars."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from paddock.cli.table import age, table
from paddock.state.home import Home
from paddock.state.templates import TemplateStore


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="paddock template", description=__doc__)
    commands = parser.add_subparsers(dest="action", required=True)
    add = commands.add_parser("add", help="an OCI layout, a docker-save tar or a rootfs tar")
    add.add_argument("source", type=Path)
    add.add_argument("--name", help="the name to use (by default the file's)")
    shown = commands.add_parser("list", help="those that were added")
    shown.add_argument("--json", action="store_true")
    remove = commands.add_parser("remove", help="remove one")
    remove.add_argument("name")
    options = parser.parse_args(words)
    store = TemplateStore(Home.find().templates)
    if options.action == "add":
        template = store.add(options.source, name=options.name or _name(options.source))
        print(f"{template.name}  {template.digest}")
    elif options.action == "remove":
        store.remove(options.name)
    else:
        _list(store, is_json=options.json)
    return 0


def _name(source: Path) -> str:
    return source.absolute().name.split(".tar")[0] or "template"


def _list(store: TemplateStore, *, is_json: bool) -> None:
    import time

    found = store.list()
    if is_json:
        print(json.dumps([{"name": t.name, "digest": t.digest} for t in found]))
    elif found:
        rows = [(t.name, t.digest[:19], age(time.time() - t.added_at)) for t in found]
        print(table(("NAME", "DIGEST", "AGE"), rows))
