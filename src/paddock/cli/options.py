"""The options of commands that make a sandbox, and what Sandbox.create takes for them."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, cast

from paddock.cli.parser import CommandParser
from paddock.cli.trust_prompt import add_trust
from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_written_duration

if TYPE_CHECKING:
    from paddock.doors.terms import CreateOptions

_PLAIN_LIMITS = ("pids", "files")


def add_spec_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--file", "-f", metavar="PADDOCK.YAML", help="the paddock file that decides"
    )
    parser.add_texts(
        "--mount",
        "-m",
        metavar="SOURCE:TARGET[:MODE]",
        help="a host path inside; MODE is read (default), write or overlay",
    )
    parser.add_texts("--volume", metavar="NAME:TARGET", help="a volume inside")
    parser.add_texts(
        "--limit",
        "-l",
        metavar="NAME=VALUE",
        help="cpu, memory, pids, disk, files, output, time; e.g. memory=512MiB",
    )
    parser.add_texts(
        "--env",
        "-e",
        metavar="NAME[=VALUE]",
        help="a variable inside; a NAME alone has the value that it has here",
    )
    parser.add_argument("--template", help="host (default), dir:/path or an added template")
    parser.add_argument("--snapshot", metavar="SNAPSHOT", help="start from the files of a snapshot")
    parser.add_argument("--timeout", default="1h", help="the sandbox ends after this")
    add_trust(parser)
    _add_network_options(parser)


def _add_network_options(parser: CommandParser) -> None:
    parser.add_texts(
        "--allow",
        metavar="HOST:PORT",
        help="may be reached, in place of the network of the file; e.g. api.example.com:443",
    )
    parser.add_flag("--no-network", "nothing may be reached, whatever the file says")
    parser.add_texts(
        "--secret",
        metavar="NAME=FROM@HOST[,HOST]",
        help="only these hosts get it; FROM is env:VAR, file:PATH, command:WORDS, keyring:S/USER",
    )


def spec_from(options: argparse.Namespace) -> CreateOptions:
    """Return what Sandbox.create takes; what the command line leaves out is left to the file."""
    mounts = [_mount(text) for text in options.mount]
    mounts += [_volume(text) for text in options.volume]
    values: dict[str, Any] = {
        "mounts": mounts,
        "limits": dict(_limit(text) for text in options.limit),
        "envs": variables_from(options.env),
        "template": options.template,
        "snapshot": options.snapshot,
    }
    present = {name: value for name, value in values.items() if value}
    timeout = parse_written_duration(options.timeout, "timeout")
    return cast("CreateOptions", {**present, **_network(options), "timeout": timeout})


def command_from(options: argparse.Namespace) -> list[str]:
    """Return the command behind the options, without a `--` before it."""
    command: list[str] = options.command
    return command[1:] if command[:1] == ["--"] else command


def login_from(options: argparse.Namespace) -> str:
    """Return who answers or acts: `--by`, or the login name."""
    from paddock.gate.approvals.request import login_name

    return options.by or login_name()


def only_for_new(options: argparse.Namespace) -> None:
    """Raise InvalidInput for options that a running sandbox cannot take: it has its network, and to
    seem to change it would be worse than to fail."""
    if options.allow or options.no_network or options.secret:
        raise InvalidInput(
            "--allow, --no-network and --secret are for a new sandbox",
            hint="the process that made it can call box.update_network(...)",
        )


def variables_from(texts: list[str]) -> dict[str, str]:
    """Return variables from `NAME=VALUE`, or from `NAME` and the environment."""
    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise InvalidInput(f"--env: {text!r} is neither NAME=VALUE nor NAME")
        if not equals and name not in os.environ:
            raise InvalidInput(f"--env: {name!r} is not set here", hint=f"say -e {name}=VALUE")
        variables[name] = value if equals else os.environ[name]
    return variables


def pair(text: str, option: str, hint: str | None = None) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"{option}: {text!r} is not NAME=VALUE", hint=hint)
    return name, value


def _network(options: argparse.Namespace) -> dict[str, Any]:
    """Return the network and secrets of the command line; nothing where it has none."""
    if options.no_network:
        if options.allow or options.secret:
            raise InvalidInput("--no-network leaves nothing for --allow and --secret")
        return {"network": {"mode": "none"}, "secrets": {}}
    if options.secret and not options.allow and options.file is None:
        raise InvalidInput("--secret: there is no network for it", hint="say --allow HOST:PORT too")
    allowed = {"network": {"allow": [_check_destination(text) for text in options.allow]}}
    secrets = {"secrets": _secrets(options.secret)}
    return {**(allowed if options.allow else {}), **(secrets if options.secret else {})}


def _check_destination(text: str) -> str:
    from paddock.policy.network import parse_destination

    try:
        parse_destination(text)
    except InvalidInput as error:
        raise InvalidInput(f"--allow: {error.message}", hint=error.hint) from None
    return text


def _secrets(texts: list[str]) -> dict[str, Any]:
    secrets = dict(map(_secret, texts))
    if len(secrets) != len(texts):
        raise InvalidInput("--secret: one name is there twice")
    return secrets


def _secret(text: str) -> tuple[str, dict[str, Any]]:
    """Parse `NAME=FROM@HOST`. No message has any part of the text: it may hold the value itself."""
    from paddock.policy.secrets import secrets_of

    name, _, rest = text.partition("=")
    source, at, hosts = rest.rpartition("@")
    if not name or not at:
        hint = "as in --secret API_KEY=env:API_KEY@api.example.com"
        raise InvalidInput("--secret: is not NAME=FROM@HOST", hint=hint)
    config = {"from": source, "to": hosts.split(",")}
    try:
        secrets_of({name: config})
    except InvalidInput as error:
        raise InvalidInput(f"--secret: {error.message}", hint=error.hint) from None
    return name, config


def _mount(text: str) -> dict[str, str]:
    parts = text.split(":")
    if len(parts) not in (2, 3):
        hint = "as in ./data:/data or ./data:/data:overlay"
        raise InvalidInput(f"--mount: {text!r} is not SOURCE:TARGET[:MODE]", hint=hint)
    mount = {"source": parts[0], "target": parts[1]}
    return {**mount, "mode": parts[2]} if len(parts) == 3 else mount


def _volume(text: str) -> dict[str, str]:
    name, colon, target = text.partition(":")
    if not colon:
        raise InvalidInput(f"--volume: {text!r} is not NAME:TARGET", hint=f"as in {text}:/data")
    return {"volume": name, "target": target}


def _limit(text: str) -> tuple[str, Any]:
    name, value = pair(text, "--limit", hint="as in memory=512MiB")
    try:
        if name in _PLAIN_LIMITS:
            return name, int(value)
        return (name, float(value)) if name == "cpu" else (name, value)
    except ValueError:
        hint = f"as in {name}={'0.5' if name == 'cpu' else '256'}"
        raise InvalidInput(f"--limit: {text!r}: {value!r} is not a number", hint=hint) from None
