"""`paddock init`: a first paddock file for a project, from what is found in it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from paddock.cli.output import say, say_json, write_pieces
from paddock.cli.parser import CommandParser, command
from paddock.cli.project.inspection import Project, look
from paddock.cli.project.paddock_file import paddock_file, service_keys
from paddock.cli.project.scripts import ProjectScript
from paddock.cli.render.cells import labelled
from paddock.cli.render.table import line_width
from paddock.doors.trust import remember
from paddock.model.errors import InvalidInput
from paddock.model.printable import printable
from paddock.policy.decide import Policy

NAME = "paddock.yaml"
_MAX_SHOWN = 10


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock init", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), metavar="DIR",
                        help="the project")  # fmt: skip
    parser.add_flag("--force", "write over a file that is there")
    parser.add_json("say what was found as JSON")
    return parser


@command(make_parser)
def main(options: argparse.Namespace) -> int:
    path = _place(options.directory, is_forced=options.force)
    project = look(options.directory)
    text = paddock_file(project)
    policy = _load(text, path)
    write_pieces([text], path)
    remember(policy)
    if options.json:
        say_json(_data(project, path))
    else:
        say("\n".join(_lines(project, path)))
    return 0


def _place(directory: Path, *, is_forced: bool) -> Path:
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is no directory")
    path = directory / NAME
    if os.path.lexists(path) and not is_forced:
        raise InvalidInput(f"{path} is there already", hint="--force writes over it")
    return path


def _load(text: str, path: Path) -> Policy:
    """Return the policy of the text. A text of ours that does not load is our fault: nothing is
    written then."""
    from paddock.policy.file import load

    file = path.absolute()
    return load(text, str(path), str(file.parent), str(file))


def _data(project: Project, path: Path) -> dict[str, object]:
    return {
        "file": str(path),
        "agent": project.agent,
        "languages": list(project.languages),
        "services": [
            {"name": used.service.name, "package": used.package, "file": used.file}
            for used in project.used
        ],
        "secrets": list(service_keys(project)),
        "variables": list(project.secrets),
        "settings": list(project.settings),
        "hidden": list(project.hidden),
        "script": None if project.script is None else project.script.file,
    }


def _lines(project: Project, path: Path) -> list[str]:
    facts = [("found", ", ".join(project.languages))] if project.languages else []
    facts += [("uses", f"{u.service.name} ({u.package}, in {u.file})") for u in project.used]
    keys = list(service_keys(project))
    if keys:
        facts.append(("secrets", f"{_some(keys)} (by name; values stay outside)"))
    if unplaced := [name for name in project.secrets if name not in keys]:
        facts.append(("secrets?", f"{_some(unplaced)} (commented: say which host gets each)"))
    if project.settings:
        facts.append(("settings", f"{_some(project.settings)} (commented: not passed on)"))
    if project.hidden:
        facts.append(("hidden", _some(project.hidden)))
    lines = [f"{printable(str(path))} is written, for the agent {project.agent}."]
    for label, text in facts:
        lines += labelled(f"  {label:<10}", text, line_width())
    lines.append("Next:")
    dot_env = project.directory / ".env"
    in_dot_env = {variable.name for variable in project.variables if variable.file == ".env"}
    if not in_dot_env.isdisjoint([*keys, *project.secrets]):
        word = shlex.quote(os.path.join(".", dot_env))  # a shell wants a slash in it
        lines.append(f"  set -a; . {printable(word)}; set +a  # the secrets, into your environment")
    lines += [
        f"  export {key}=...  # is not set here"
        for key in keys
        if key not in os.environ and key not in in_dot_env
    ]
    lines.append(f"  paddock policy check {printable(str(path))}")
    lines.append(f"  paddock run -- {_example(project)}")
    return lines


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MAX_SHOWN
    shown = ", ".join(printable(name) for name in names[:_MAX_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _example(project: Project) -> str:
    if project.script is None:
        return "node agent.js" if project.languages[:1] == ("node",) else "python my_agent.py"
    return f"{_program(project, project.script)} {project.script.file}"


def _program(project: Project, script: ProjectScript) -> str:
    """Return the interpreter of a script; the project's own Python, unless an environment is
    active."""
    if script.language != "python":
        return script.shell or "node"
    for name in (".venv", "venv"):
        is_there = os.access(project.directory / name / "bin" / "python", os.X_OK)
        if is_there and "VIRTUAL_ENV" not in os.environ:
            return f"{name}/bin/python"
    return "python"
