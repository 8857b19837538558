"""`paddock template`: root file systems from OCI images and tars."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.arguments import count, size
from paddock.cli.output import say_list
from paddock.cli.parser import CommandParser
from paddock.cli.render.table import age, terminal_table

if TYPE_CHECKING:
    from paddock.state.templates.store import StoredTemplate


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock template", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    add = commands.add_parser("add", help="an OCI layout, a docker-save tar or a rootfs tar")
    add.add_argument("source", type=Path, metavar="FILE", help="a file, or an OCI directory")
    add.add_argument("--name", help="the name to use (default: the file's)")
    add.add_argument(
        "--max-size", metavar="SIZE", type=size,
        help="what it may unpack to (default: 20 times its size, from 1GiB to 20GiB)",
    )  # fmt: skip
    add.add_argument(
        "--max-entries", metavar="N", type=count,
        help="how many files it may have (default: one for each 256 bytes, from 200000 to 2000000)",
    )  # fmt: skip
    shown = commands.add_parser("list", help="those that were added")
    shown.add_json("one JSON array")
    remove = commands.add_parser("remove", help="remove one")
    remove.add_argument("name", metavar="TEMPLATE", help="its name")
    return parser


def main(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    from paddock.state.home import Home
    from paddock.state.templates.layer_archive import UnpackLimits
    from paddock.state.templates.store import TemplateStore

    store = TemplateStore(Home.find().templates)
    if options.action == "add":
        limits = UnpackLimits.for_source(
            options.source, max_bytes=options.max_size, max_entries=options.max_entries
        )
        name = options.name or _name(options.source)
        template = store.add(options.source, name=name, limits=limits)
        print(f"{template.name}  {template.digest}")
    elif options.action == "remove":
        store.remove(options.name)
    else:
        nothing = "no templates; paddock template add makes one"
        say_list(store.list(), _as_json, _table, is_json=options.json, nothing=nothing)
    return 0


def _name(source: Path) -> str:
    return source.absolute().name.split(".tar")[0] or "template"


def _as_json(template: StoredTemplate) -> dict[str, str]:
    return {"name": template.name, "digest": template.digest}


def _table(templates: Sequence[StoredTemplate]) -> str:
    now = time.time()
    rows = [
        (template.name, template.digest[:19], age(now - template.added_at))
        for template in templates
    ]
    return terminal_table(("NAME", "DIGEST", "AGE"), rows, flexible=("NAME",))
