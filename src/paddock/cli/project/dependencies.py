"""The packages that a project lists: pyproject.toml (PEP 621, PEP 735, Poetry, uv), requirements
files, Pipfile and package.json. A package with an extra is listed once more with it, as in
`pydantic-ai-slim[openai]`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paddock.run.surroundings.host import read_text

_MAX_FILES = 20
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]{0,200})\])?")
# What is found is written into a comment: nothing that could end it is taken for a name.
_EXTRA = re.compile(r"[a-z0-9-]{1,50}")
_NPM_NAME = re.compile(r"[a-z0-9@/._~-]{1,200}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NPM_SECTIONS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
Listed = tuple[str, str]  # the package, and the file that lists it


def listed_packages(directory: Path) -> Iterator[Listed]:
    """Yield each package that a list of dependencies names, and the file that it is in."""
    for requirement in _of_pyproject(pyproject(directory)):
        yield from _requirement_names(requirement, "pyproject.toml")
    for path in _requirement_files(directory):
        for line in (read_text(str(path)) or "").splitlines():
            yield from _requirement_names(line, str(path.relative_to(directory)))
    pipfile = _toml(directory / "Pipfile")
    for section in ("packages", "dev-packages"):
        for requirement in _of_table(pipfile.get(section)):
            yield from _requirement_names(requirement, "Pipfile")
    table = package_json(directory)
    for section in _NPM_SECTIONS:
        for name in map(str.lower, _mapping(table.get(section))):
            if _NPM_NAME.fullmatch(name):
                yield name, "package.json"


def pyproject(directory: Path) -> dict[str, Any]:
    """Return the tables of pyproject.toml; none where it is missing or broken."""
    return _toml(directory / "pyproject.toml")


def package_json(directory: Path) -> dict[str, Any]:
    """Return the object of package.json; an empty one where it is missing or broken."""
    try:
        value = json.loads(read_text(os.path.join(directory, "package.json")) or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def canonical(name: str) -> str:
    """Return the name of a Python distribution in its one spelling (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirement_files(directory: Path) -> list[Path]:
    paths = [*directory.glob("requirements*.txt"), *directory.glob("requirements/*.txt")]
    return sorted(path for path in paths if _FILE_NAME.fullmatch(path.name))[:_MAX_FILES]


def _requirement_names(requirement: str, file: str) -> Iterator[Listed]:
    match = _REQUIREMENT.match(requirement)
    if match is None:
        return
    name = canonical(match[1])
    yield name, file
    for extra in (match[2] or "").split(","):
        if _EXTRA.fullmatch(extra := canonical(extra.strip())):
            yield f"{name}[{extra}]", file


def _of_pyproject(table: Mapping[str, Any]) -> Iterator[str]:
    project, tool = _mapping(table.get("project")), _mapping(table.get("tool"))
    poetry, uv = _mapping(tool.get("poetry")), _mapping(tool.get("uv"))
    lists = [project.get("dependencies"), uv.get("dev-dependencies")]
    lists += _mapping(project.get("optional-dependencies")).values()
    lists += _mapping(table.get("dependency-groups")).values()
    for listed in lists:
        yield from _texts(listed)
    groups = [_mapping(group) for group in _mapping(poetry.get("group")).values()]
    for group in (poetry, {"dependencies": poetry.get("dev-dependencies")}, *groups):
        yield from _of_table(group.get("dependencies"))


def _of_table(table: Any) -> Iterator[str]:
    """Yield the requirements of `name = "^1"` and `name = {version = "^1", extras = ["x"]}`."""
    for name, value in _mapping(table).items():
        extras = ",".join(_texts(_mapping(value).get("extras")))
        yield f"{name}[{extras}]"


def _texts(value: Any) -> Iterable[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(str(path)) or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
