"""Finds out about a project: its name, what it depends on and imports, and the variables that it
reads. Only names leave this file; no value of a variable is ever kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from paddock.cli.project.dependencies import listed_packages, package_json, pyproject
from paddock.cli.project.dotenv import Variable, variables_in
from paddock.cli.project.scripts import ProjectScript, likely_agent, scripts_in
from paddock.cli.project.services import SERVICES, KnownService
from paddock.run.surroundings.secret_files import secret_files

_PACKAGES = frozenset(package for service in SERVICES for package in service.packages)
_KEYS = frozenset(key for service in SERVICES for key in service.keys)
_LANGUAGES = (
    ("python", ("pyproject.toml", "setup.py", "requirements.txt", "Pipfile")),
    ("node", ("package.json",)),
    ("go", ("go.mod",)),
    ("rust", ("Cargo.toml",)),
)


class Used(msgspec.Struct, frozen=True):
    """A service that the project uses: by which package, key or host, in which file."""

    service: KnownService
    package: str
    file: str


class Project(msgspec.Struct, frozen=True):
    """The findings about a project."""

    directory: Path
    agent: str
    languages: tuple[str, ...]
    used: tuple[Used, ...]
    variables: tuple[Variable, ...]  # of .env files
    hidden: tuple[str, ...]  # what an agent will not see of it
    script: ProjectScript | None = None  # that is likely to be the agent
    named: frozenset[str] = frozenset()  # variables that its scripts read, or .env or the host set
    hosts: tuple[tuple[str, str], ...] = ()  # other hosts in shell scripts, each with its file

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names in .env files that hold secrets."""
        return tuple(
            variable.name
            for variable in self.variables
            if variable.is_secret or variable.name in _KEYS
        )

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the other names in .env files."""
        return tuple(
            variable.name for variable in self.variables if variable.name not in self.secrets
        )


def look(directory: Path) -> Project:
    """Look at a project: read its lists of dependencies and its scripts, run nothing."""
    scripts, variables = scripts_in(directory), variables_in(directory)
    agent = likely_agent(scripts, _PACKAGES)
    languages = [
        name for name, marks in _LANGUAGES if any((directory / mark).is_file() for mark in marks)
    ]
    if agent is not None and agent.language not in languages:
        languages.append(agent.language)
    known_hosts = {host for service in SERVICES for host in service.hosts}
    hosts = {host: script.file for script in reversed(scripts) for host in script.hosts}
    return Project(
        directory=directory,
        agent=agent_name(_declared_name(directory) or directory.resolve().name),
        languages=tuple(languages),
        used=tuple(used_services(directory, scripts, variables)),
        variables=variables,
        hidden=secret_files(str(directory)),
        script=agent,
        named=frozenset(
            [
                *(name for script in scripts for name in script.variables),
                *(variable.name for variable in variables),
                *os.environ,
            ]
        ),
        hosts=tuple((host, file) for host, file in hosts.items() if host not in known_hosts),
    )


def agent_name(text: str) -> str:
    """Return a name that a paddock file takes."""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", text.rpartition("/")[2]).strip("-._")
    return clean[:100] or "agent"


def used_services(
    directory: Path, scripts: Iterable[ProjectScript], variables: Iterable[Variable] = ()
) -> Iterator[Used]:
    """Yield the services that are used, each by the first of: a package, a package with an extra, a
    key of a well-known name, a host in a shell script."""
    scripts = list(scripts)
    packages = _first(
        [
            *listed_packages(directory),
            *((package, script.file) for script in scripts for package in script.packages),
        ]
    )
    keys = _first(
        [
            *((variable.name, variable.file) for variable in variables),
            *((name, script.file) for script in scripts for name in script.variables),
        ]
    )
    hosts = _first((host, script.file) for script in scripts for host in script.hosts)
    for service in SERVICES:
        endings = tuple(f"[{extra}]" for extra in service.extras)
        names = [(name, packages[name]) for name in service.packages if name in packages]
        names += [(name, file) for name, file in packages.items() if name.endswith(endings)]
        names += [(name, keys[name]) for name in service.keys if name in keys]
        names += [(host, hosts[host]) for host in service.hosts if host in hosts]
        if names:
            yield Used(service, *names[0])


def _first(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return for each name the first file that has it."""
    files: dict[str, str] = {}
    for name, file in pairs:
        files.setdefault(name, file)
    return files


def _declared_name(directory: Path) -> str:
    project = pyproject(directory)
    poetry = project.get("tool", {}).get("poetry") if isinstance(project.get("tool"), dict) else {}
    for table in (project.get("project"), poetry, package_json(directory)):
        name = table.get("name") if isinstance(table, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""
