"""Options that say what a sandbox is to be, shared by the commands that make one."""

from __future__ import annotations

import argparse
from typing import Any, cast

from paddock.model.errors import InvalidInput
from paddock.model.spec import SpecWords

_PLAIN_LIMITS = ("pids", "files")


def add_spec_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file", "-f", metavar="PADDOCK.YAML", help="the paddock file that decides"
    )
    parser.add_argument(
        "--mount",
        "-m",
        action="append",
        default=[],
        metavar="SOURCE:TARGET[:MODE]",
        help="a host path inside; MODE is read (default), write or overlay",
    )
    parser.add_argument(
        "--volume", action="append", default=[], metavar="NAME:TARGET", help="a volume inside"
    )
    parser.add_argument(
        "--limit",
        "-l",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="cpu, memory, pids, disk, files, output, time; e.g. memory=512MiB",
    )
    parser.add_argument("--env", "-e", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--template", help="host (default), dir:/path or an added template")
    parser.add_argument("--snapshot", metavar="ID", help="start from the files of a snapshot")
    parser.add_argument("--timeout", default="1h", help="the sandbox ends after this (1h)")


def spec_from(options: argparse.Namespace) -> SpecWords:
    """What Sandbox.create takes, from the command line; what is not said is left to the file."""
    mounts = [_mount(text) for text in options.mount]
    mounts += [_volume(text) for text in options.volume]
    said: dict[str, Any] = {
        "mounts": mounts,
        "limits": dict(_limit(text) for text in options.limit),
        "envs": dict(pair(text, "--env") for text in options.env),
        "template": options.template,
        "snapshot": options.snapshot,
    }
    words = {name: value for name, value in said.items() if value}
    return cast(SpecWords, {**words, "timeout": options.timeout})


def pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"{option}: {text!r} is not NAME=VALUE")
    return name, value


def _mount(text: str) -> dict[str, str]:
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise InvalidInput(f"--mount: {text!r} is not SOURCE:TARGET or SOURCE:TARGET:MODE")
    mount = {"source": parts[0], "target": parts[1]}
    return {**mount, "mode": parts[2]} if len(parts) == 3 else mount


def _volume(text: str) -> dict[str, str]:
    name, colon, target = text.partition(":")
    if not colon:
        raise InvalidInput(f"--volume: {text!r} is not NAME:TARGET")
    return {"volume": name, "target": target}


def _limit(text: str) -> tuple[str, Any]:
    name, value = pair(text, "--limit")
    try:
        if name in _PLAIN_LIMITS:
            return name, int(value)
        return (name, float(value)) if name == "cpu" else (name, value)
    except ValueError:
        raise InvalidInput(f"--limit: {text!r}: {value!r} is not a number") from None
