"""`paddock trust`: shows what a paddock file asks of this machine, and agrees to it; lists and
revokes what was agreed to."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from paddock.cli.output import say, say_json, sentences
from paddock.cli.parser import CommandParser
from paddock.model.errors import InvalidInput, NotTrusted


def main(words: list[str]) -> int:
    options = make_parser().parse_args(words)
    with sentences():
        if options.revoke is not None:
            return _revoke(options)
        return _list(options) if options.list else _agree(options)


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock trust", description=__doc__)
    parser.add_argument("file", nargs="?", default="paddock.yaml", metavar="FILE",
                        help="the paddock file")  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="agree without being asked")
    parser.add_argument("--list", action="store_true", help="what was agreed to")
    parser.add_argument("--revoke", metavar="FILE", help="forget all that was agreed to for a file")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _agree(options: argparse.Namespace) -> int:
    from paddock.cli.trust_prompt import ask
    from paddock.doors.terms import load_file
    from paddock.doors.trust import remember, requests_of

    policy = load_file(options.file)
    requests = requests_of(policy)
    path = os.path.realpath(options.file)
    if requests and not options.yes:
        if options.json or not sys.stdin.isatty():
            raise InvalidInput("nobody can be asked here", hint="say --yes")
        if not ask(path, requests):
            raise NotTrusted(f"{path} is not trusted")
    remember(policy)
    texts = [one.text for one in requests]
    if options.json:
        say_json({"file": path, "requests": texts, "is_trusted": True})
    elif not requests:
        say(f"{_shown(path)} asks for nothing on this machine: it needs no agreement")
    else:
        say("\n".join([f"{_shown(path)} may:", *(f"  - {_shown(text)}" for text in texts)]))
    return 0


def _list(options: argparse.Namespace) -> int:
    from paddock.cli.render.times import clock
    from paddock.state.home import Home
    from paddock.state.trusted_files import TrustedFiles

    found = TrustedFiles(Home.find()).all()
    if options.json:
        files: list[dict[str, Any]] = [
            {"file": one.path, "digest": one.digest, "agreed_at": one.agreed_at,
             "requests": list(one.requests)}
            for one in found
        ]  # fmt: skip
        say_json({"files": files})
        return 0
    for one in found:
        say(f"{_shown(one.path)}  since {clock(int(one.agreed_at * 1e6))}")
        for text in one.requests:
            say(f"  - {_shown(text)}")
    if not found:
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
        say(f"{_shown(path)} is not trusted any more")
    else:
        say(f"{_shown(path)} was not trusted")
    return 0 if count else 1


def _shown(text: str) -> str:
    from paddock.model.plain import plain

    return plain(text, 1 << 20)
