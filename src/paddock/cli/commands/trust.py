"""`paddock trust`: shows what a paddock file asks of this machine, and agrees to it; lists and
revokes what was agreed to."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from paddock.cli.output import check_person, say, say_json
from paddock.cli.parser import CommandParser, command
from paddock.cli.trust_prompt import ask
from paddock.model.errors import NotTrusted
from paddock.model.printable import printable


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock trust", description=__doc__)
    parser.add_argument("file", nargs="?", default="paddock.yaml", metavar="FILE",
                        help="the paddock file")  # fmt: skip
    parser.add_flag("--yes", "agree without being asked")
    parser.add_flag("--list", "what was agreed to")
    parser.add_argument("--revoke", metavar="FILE", help="forget all that was agreed to for a file")
    parser.add_json("for programs")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    if options.revoke is not None:
        return _revoke(options)
    return _list(options) if options.list else _agree(options)


def _agree(options: argparse.Namespace) -> int:
    from paddock.doors.terms import load_file
    from paddock.doors.trust import remember, requests_of

    policy = load_file(options.file)
    requests = requests_of(policy)
    path = os.path.realpath(options.file)
    if requests and not options.yes:
        check_person(is_json=options.json)
        if not ask(path, requests):
            raise NotTrusted(f"{path} is not trusted")
    remember(policy)
    texts = [request.text for request in requests]
    if options.json:
        say_json({"file": path, "requests": texts, "is_trusted": True})
    elif not requests:
        say(f"{_plain(path)} asks for nothing on this machine: it needs no agreement")
    else:
        say("\n".join([f"{_plain(path)} may:", *(f"  - {_plain(text)}" for text in texts)]))
    return 0


def _list(options: argparse.Namespace) -> int:
    from paddock.cli.render.units import clock
    from paddock.state.home import Home
    from paddock.state.trusted_files import TrustedFiles

    trusted = TrustedFiles(Home.find()).all()
    if options.json:
        files: list[dict[str, Any]] = [
            {"file": file.path, "digest": file.digest, "agreed_at": file.agreed_at,
             "requests": list(file.requests)}
            for file in trusted
        ]  # fmt: skip
        say_json({"files": files})
        return 0
    for file in trusted:
        say(f"{_plain(file.path)}  since {clock(int(file.agreed_at * 1e6))}")
        for text in file.requests:
            say(f"  - {_plain(text)}")
    if not trusted:
        say("nothing was agreed to")
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from paddock.state.home import Home
    from paddock.state.trusted_files import TrustedFiles

    path = os.path.realpath(Path(options.revoke))
    count = TrustedFiles(Home.find()).revoke(path)
    if options.json:
        say_json({"file": path, "revoked": count})
    elif count:
        say(f"{_plain(path)} is not trusted any more")
    else:
        say(f"{_plain(path)} was not trusted")
    return 0 if count else 1


def _plain(text: str) -> str:
    return printable(text, 1 << 20)
