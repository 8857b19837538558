"""What kind of project it is: its name, what it depends on and imports, and the names in its .env.
Only names leave this file; no value of a variable is ever kept.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paddock.cli.init_scripts import likely_agent, scripts_in
from paddock.cli.init_services import SERVICES, Service
from paddock.model.values import dataclass
from paddock.run.surroundings.host import read_text
from paddock.run.surroundings.secret_files import secret_files

MAX_VARIABLES = 50
_DOT_ENV = (".env", ".env.local", ".env.example", ".env.sample", ".env.template")
_VARIABLE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]{0,79})\s*=", re.MULTILINE)
_SECRET_WORD = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|DSN)S?($|_)", re.IGNORECASE
)
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_PACKAGES = frozenset(package for service in SERVICES for package in service.packages)
_SECTIONS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")


@dataclass(frozen=True, slots=True)
class Used:
    """A service that the project uses, by which package (or key), said in which file."""

    service: Service
    package: str
    file: str


@dataclass(frozen=True, slots=True)
class Project:
    """What was found."""

    directory: Path
    agent: str
    languages: tuple[str, ...]
    used: tuple[Used, ...]
    variables: tuple[str, ...]  # names in .env files that look like secrets
    hidden: tuple[str, ...]  # what an agent will not see of it
    script: str | None = None  # that is likely to be the agent


def look(directory: Path) -> Project:
    """Looks at a project; reads its lists of dependencies and its scripts, runs nothing."""
    python, node = list(_python(directory)), list(_node(directory))
    scripts, variables = scripts_in(directory), _variables(directory)
    imported = [(package, one.file) for one in scripts for package in one.packages]
    agent = likely_agent(scripts, _PACKAGES)
    described = _described(directory)
    languages = [
        name
        for name, marks in (
            ("python", ("pyproject.toml", "setup.py", "requirements.txt")),
            ("node", ("package.json",)),
            ("go", ("go.mod",)),
            ("rust", ("Cargo.toml",)),
        )
        if any((directory / mark).is_file() for mark in marks)
    ]
    if agent is not None and agent.language not in languages:
        languages.append(agent.language)
    return Project(
        directory=directory,
        agent=agent_name(described or directory.resolve().name),
        languages=tuple(languages),
        used=tuple(_used([*python, *node, *imported], variables)),
        variables=tuple(variables),
        hidden=secret_files(str(directory)),
        script=None if agent is None else agent.file,
    )


def agent_name(text: str) -> str:
    """A name that a paddock file takes."""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", text.rpartition("/")[2]).strip("-._")
    return clean[:100] or "agent"


def _described(directory: Path) -> str:
    for table in (_toml(directory).get("project"), _json(directory)):
        name = table.get("name") if isinstance(table, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""


def _used(packages: Iterable[tuple[str, str]], variables: Mapping[str, str]) -> Iterator[Used]:
    """By a package, or else by a key of a well-known name."""
    files: dict[str, str] = {}
    for package, file in packages:
        files.setdefault(package, file)
    for service in SERVICES:
        told = [(one, files[one]) for one in service.packages if one in files]
        told += [(one, variables[one]) for one in service.keys if one in variables]
        if told:
            yield Used(service, *told[0])


def _python(directory: Path) -> Iterator[tuple[str, str]]:
    for text in _of_pyproject(_toml(directory)):
        if match := _REQUIREMENT.match(text):
            yield _canonical(match[1]), "pyproject.toml"
    for path in sorted(directory.glob("requirements*.txt"))[:20]:
        for line in (read_text(str(path)) or "").splitlines():
            if match := _REQUIREMENT.match(line):
                yield _canonical(match[1]), path.name


def _of_pyproject(table: Mapping[str, Any]) -> Iterator[str]:
    project, tool = table.get("project"), table.get("tool")
    groups = [table.get("dependency-groups")]
    if isinstance(project, dict):
        groups += [{"": project.get("dependencies")}, project.get("optional-dependencies")]
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    if isinstance(poetry, dict) and isinstance(poetry.get("dependencies"), dict):
        groups.append({"": list(poetry["dependencies"])})
    for group in groups:
        for listed in group.values() if isinstance(group, dict) else ():
            yield from (w for w in listed if isinstance(w, str)) if isinstance(listed, list) else ()


def _node(directory: Path) -> Iterator[tuple[str, str]]:
    table = _json(directory)
    for section in _SECTIONS:
        listed = table.get(section)
        yield from (
            ((name.lower(), "package.json") for name in listed or ())
            if isinstance(listed, dict)
            else ()
        )


def _variables(directory: Path) -> dict[str, str]:
    """Names that look like those of secrets, each with the first file that has it."""
    found: dict[str, str] = {}
    for file in _DOT_ENV:
        text = read_text(os.path.join(directory, file)) or ""
        found = {**dict.fromkeys(_VARIABLE.findall(text), file), **found}
    known = {key for service in SERVICES for key in service.keys}
    secret = [name for name in found if name in known or _SECRET_WORD.search(name)]
    return {name: found[name] for name in secret[:MAX_VARIABLES]}


def _toml(directory: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(os.path.join(directory, "pyproject.toml")) or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(directory: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_text(os.path.join(directory, "package.json")) or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
