"""`paddock init`: a first paddock file for a project, from what is found in it."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from paddock.cli.init_look import Project, look
from paddock.cli.init_text import paddock_file
from paddock.cli.output import say, say_json, sentences, write_pieces
from paddock.model.errors import InvalidInput

NAME = "paddock.yaml"
_MAX_SHOWN = 10


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="paddock init", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), metavar="DIR")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--json", action="store_true", help="say what was found as JSON")
    options = parser.parse_args(words)
    with sentences():
        path = _place(options.directory, is_forced=options.force)
        project = look(options.directory)
        text = paddock_file(project)
        _check(text, path)
        write_pieces([text], path)
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


def _check(text: str, path: Path) -> None:
    """What we write must load. If it does not, that is our fault and nothing is written."""
    from paddock.policy.file import load

    load(text, str(path), str(path.absolute().parent))


def _data(project: Project, path: Path) -> dict[str, object]:
    return {
        "file": str(path),
        "agent": project.agent,
        "languages": list(project.languages),
        "services": [
            {"name": one.service.name, "package": one.package, "file": one.file}
            for one in project.used
        ],
        "variables": list(project.variables),
        "hidden": list(project.hidden),
        "script": project.script,
    }


def _lines(project: Project, path: Path) -> list[str]:
    from paddock.model.plain import plain

    lines = [f"{plain(str(path))} is written, for the agent {project.agent}."]
    if project.languages:
        lines.append(f"  found     {', '.join(project.languages)}")
    lines += [f"  uses      {u.service.name} ({u.package}, in {u.file})" for u in project.used]
    if project.variables:
        lines.append(f"  secrets   {', '.join(project.variables)} (by name; values stay outside)")
    if project.hidden:
        more = len(project.hidden) - _MAX_SHOWN
        shown = ", ".join(plain(name) for name in project.hidden[:_MAX_SHOWN])
        lines.append(f"  hidden    {shown}{f' and {more} more' if more > 0 else ''}")
    lines.append("Next:")
    dot_env = project.directory / ".env"
    if project.variables and dot_env.is_file():
        word = shlex.quote(os.path.join(".", dot_env))  # a shell wants a slash in it
        lines.append(f"  set -a; . {plain(word)}; set +a  # the secrets, into your environment")
    lines.append(f"  paddock policy check {plain(str(path))}")
    lines.append(f"  paddock run -- {_example(project)}")
    return lines


def _example(project: Project) -> str:
    if project.script is None:
        return "node agent.js" if project.languages[:1] == ("node",) else "python my_agent.py"
    return f"{_program(project)} {project.script}"


def _program(project: Project) -> str:
    """The project's own Python, where it has one that nobody has switched to."""
    if not str(project.script).endswith(".py"):
        return "node"
    for name in (".venv", "venv"):
        is_there = os.access(project.directory / name / "bin" / "python", os.X_OK)
        if is_there and "VIRTUAL_ENV" not in os.environ:
            return f"{name}/bin/python"
    return "python"
