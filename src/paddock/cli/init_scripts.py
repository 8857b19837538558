"""The scripts of a project: what they import, and which of them is likely to be the agent. They
are parsed and never run; only so many, so large and so deep are looked at.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from paddock.model.values import dataclass
from paddock.run.surroundings.host import names_in, read_text

MAX_SCRIPTS = 60
_MAX_CHARS = 1 << 18
_MAX_DEPTH = 2
# A name that could not be told from the lines around it is not named.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_ELSEWHERE = frozenset({"build", "dist", "docs", "env", "node_modules", "site-packages", "test",
                        "tests", "venv"})  # fmt: skip
_NO_AGENT = re.compile(r"(setup|conftest|noxfile|test_.*|.*_test)\.py")
_AGENTS = ("agent", "my_agent", "main", "app", "run", "bot", "cli", "__main__")
# Packages that are imported under another name than their own.
_PACKAGES = {"github": "pygithub", "agents": "openai-agents", "slack": "slackclient"}
_IMPORTED_JS = re.compile(
    r"""(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["']([^"'\n]{1,100})"""
)
_ENDS = (".py", ".js", ".mjs", ".ts")


@dataclass(frozen=True, slots=True)
class Script:
    """One script: where it is below the project, and the packages that it imports."""

    file: str
    packages: tuple[str, ...]
    is_program: bool = False

    @property
    def language(self) -> str:
        return "python" if self.file.endswith(".py") else "node"


def scripts_in(directory: Path) -> list[Script]:
    """Those of the project itself, not of what is installed in it."""
    found = []
    for file in _files(str(directory), "", 0):
        text = read_text(os.path.join(directory, file))
        if text is not None and len(text) <= _MAX_CHARS:
            found.append(
                _python(file, text, directory) if file.endswith(".py") else _node(file, text)
            )
        if len(found) >= MAX_SCRIPTS:
            break
    return found


def likely_agent(scripts: Sequence[Script], services: frozenset[str]) -> Script | None:
    """Of those at the top: one that uses a service, has the name of an agent, is a program."""
    own = [one for one in scripts if "/" not in one.file and not _NO_AGENT.fullmatch(one.file)]

    def rank(one: Script) -> tuple[bool, int, bool, str]:
        name = one.file.partition(".")[0]
        known = _AGENTS.index(name) if name in _AGENTS else len(_AGENTS)
        return services.isdisjoint(one.packages), known, not one.is_program, one.file

    return min(own, key=rank, default=None)


def _files(top: str, below: str, depth: int) -> Iterator[str]:
    names = [one for one in names_in(os.path.join(top, below)) if _NAME.fullmatch(one)]
    yield from (f"{below}{one}" for one in names if one.endswith(_ENDS))
    for one in names if depth < _MAX_DEPTH else ():
        place = os.path.join(top, below, one)
        is_own = one not in _ELSEWHERE and not os.path.islink(place) and os.path.isdir(place)
        if is_own and not os.path.exists(os.path.join(place, "pyvenv.cfg")):
            yield from _files(top, f"{below}{one}/", depth + 1)


def _python(file: str, text: str, directory: Path) -> Script:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Script(file, ())
    found: dict[str, None] = {}
    for module in _imports(tree):
        first, *rest = module.split(".")
        if _is_local(directory, file, first):
            continue
        found |= dict.fromkeys(
            _canonical(one) for one in (first, *(f"{first}.{x}" for x in rest[:1]))
        )
        found |= dict.fromkeys([_PACKAGES[first]] if first in _PACKAGES else ())
    return Script(file, tuple(found), "__main__" in text)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _is_local(directory: Path, file: str, module: str) -> bool:
    """A module of the project hides a package of the same name."""
    for place in {directory, (directory / file).parent}:
        if (place / f"{module}.py").is_file() or (place / module / "__init__.py").is_file():
            return True
    return False


def _node(file: str, text: str) -> Script:
    names = [one for one in _IMPORTED_JS.findall(text) if not one.startswith((".", "/", "node:"))]
    packages = ["/".join(one.split("/")[: 2 if one.startswith("@") else 1]) for one in names]
    return Script(file, tuple(dict.fromkeys(one.lower() for one in packages)), is_program=True)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
