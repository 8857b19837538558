"""The scripts of a project: what they import, which variables they read, and which of them is
likely to be the agent. They are parsed and never run; only so many, so large and so deep are looked
at.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from paddock.cli.project.dependencies import canonical
from paddock.cli.project.services import SERVICES
from paddock.run.surroundings.host import names_in, read_text

MAX_SCRIPTS = 60
_MAX_CHARS = 1 << 18
_MAX_DEPTH = 2
_MAX_DIRECTORIES = 300  # somebody may stand in their home
# A name that could not be told from the lines around it is not named.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_ELSEWHERE = frozenset({"build", "dist", "docs", "env", "node_modules", "site-packages", "test",
                        "tests", "venv"})  # fmt: skip
_NO_AGENT = re.compile(r"(setup|conftest|noxfile|test_.*|.*_test)\.py")
_AGENTS = ("agent", "my_agent", "main", "app", "run", "bot", "cli", "__main__")
# Packages that are imported under another name than their own.
_PACKAGES = {"github": "pygithub", "agents": "openai-agents", "slack": "slackclient",
             "tavily": "tavily-python"}  # fmt: skip
_IMPORTED_JS = re.compile(
    r"""(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["']([^"'\n]{1,100})"""
)
# A model of a provider, as frameworks name it: Agent("openai:gpt-5").
_MODEL_NAME = re.compile(r"""["']([a-z][a-z-]{1,30}):[a-z][\w./-]{1,80}["']""")
_PROVIDERS = {extra: service.packages[0] for service in SERVICES for extra in service.extras} | {
    "google-gla": "google-genai"
}
_ENDS = (".py", ".js", ".mjs", ".ts", ".sh")
# Shell scripts are often about the project itself; those that fetch or change something are agents.
_SHEBANG = re.compile(r"#!\s*\S*/(?:env\s+)?(sh|bash|dash|zsh|ksh)\b")
_SHELL_PROGRAMS = re.compile(r"(?<![\w./-])(curl|wget|git|gh|jq|claude|codex|llm)(?![\w./=-])")
_URL_HOST = re.compile(r"https?://([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8})(?=[:/\s\"'?]|$)")
_NAMED = r"([A-Za-z_][A-Za-z0-9_]{1,79})"
_READ_VARIABLES = {
    "python": re.compile(
        rf"(?:\benviron(?:\.get|\.pop|\.setdefault)?\s*[\[(]|\bgetenv\s*\()\s*[\"']{_NAMED}[\"']"
    ),
    "node": re.compile(rf"\bprocess\.env(?:\.|\[[\"']){_NAMED}"),
    "shell": re.compile(rf"\$\{{?{_NAMED}"),
}


class ProjectScript(msgspec.Struct, frozen=True):
    """One script: where it is below the project, and what it uses."""

    file: str
    packages: tuple[str, ...]  # of a shell script: programs
    is_program: bool = False
    variables: tuple[str, ...] = ()  # that it reads
    hosts: tuple[str, ...] = ()  # of URLs in it
    shell: str | None = None  # that a shell script is for

    @property
    def language(self) -> str:
        return language_of(self.file)

    @property
    def is_agent_by_name(self) -> bool:
        return self.file.partition(".")[0] in _AGENTS


def language_of(file: str) -> str:
    """Return what a script is written in, by its name."""
    if file.endswith(".sh"):
        return "shell"
    return "python" if file.endswith(".py") else "node"


def script_texts(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the scripts of the project itself, not of what is installed in it: path and text."""
    count = 0
    for file in _files(str(directory)):
        text = read_text(os.path.join(directory, file))
        if text is not None and len(text) <= _MAX_CHARS:
            yield file, text
            count += 1
        if count >= MAX_SCRIPTS:
            return


def scripts_in(directory: Path) -> list[ProjectScript]:
    """Return the scripts of the project, parsed."""
    parsers = {"python": _python, "node": _node, "shell": _shell}
    return [
        parsers[language_of(file)](file, text, directory) for file, text in script_texts(directory)
    ]


def variables_read(file: str, text: str) -> tuple[str, ...]:
    """Return the names of the variables that a script reads from its environment."""
    return tuple(dict.fromkeys(_READ_VARIABLES[language_of(file)].findall(text)))


def likely_agent(
    scripts: Sequence[ProjectScript], services: frozenset[str]
) -> ProjectScript | None:
    """Return the script at the top that is most likely the agent: it uses a service, has the name
    of an agent, is a program."""
    own = [
        script
        for script in scripts
        if "/" not in script.file and not _NO_AGENT.fullmatch(script.file)
    ]
    own = [
        script
        for script in own
        if script.is_program or script.is_agent_by_name or script.shell is None
    ]

    def rank(script: ProjectScript) -> tuple[bool, bool, int, bool, str]:
        name = script.file.partition(".")[0]
        position = _AGENTS.index(name) if name in _AGENTS else len(_AGENTS)
        is_helper = script.shell is not None and name not in _AGENTS
        is_without_service = services.isdisjoint(script.packages)
        return is_helper, is_without_service, position, not script.is_program, script.file

    return min(own, key=rank, default=None)


def _files(top: str) -> Iterator[str]:
    """Yield the scripts below `top`, those of a directory before those of its directories."""
    waiting = [""]
    for below in waiting:  # it grows meanwhile
        names = [name for name in names_in(os.path.join(top, below)) if _NAME.fullmatch(name)]
        yield from (f"{below}{name}" for name in names if name.endswith(_ENDS))
        if below.count("/") < _MAX_DEPTH and len(waiting) < _MAX_DIRECTORIES:
            waiting += [
                f"{below}{name}/" for name in names if _is_own(os.path.join(top, below, name))
            ]


def _is_own(path: str) -> bool:
    """Return whether it is a directory of the project, and not of what is installed in it."""
    if os.path.basename(path) in _ELSEWHERE or os.path.islink(path) or not os.path.isdir(path):
        return False
    return not os.path.exists(os.path.join(path, "pyvenv.cfg"))


def _python(file: str, text: str, directory: Path) -> ProjectScript:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ProjectScript(file, (), variables=variables_read(file, text))
    packages: dict[str, None] = {}
    for module in _imports(tree):
        first, *rest = module.split(".")
        if _is_local(directory, file, first):
            continue
        packages |= dict.fromkeys(
            canonical(module_name) for module_name in (first, *(f"{first}.{x}" for x in rest[:1]))
        )
        packages |= dict.fromkeys([_PACKAGES[first]] if first in _PACKAGES else ())
    packages |= dict.fromkeys(
        _PROVIDERS[provider] for provider in _MODEL_NAME.findall(text) if provider in _PROVIDERS
    )
    return ProjectScript(file, tuple(packages), "__main__" in text, variables_read(file, text))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_local(directory: Path, file: str, module: str) -> bool:
    """Return whether the project has a module of that name, which hides a package."""
    for place in {directory, (directory / file).parent}:
        if (place / f"{module}.py").is_file() or (place / module / "__init__.py").is_file():
            return True
    return False


def _node(file: str, text: str, _: Path) -> ProjectScript:
    names = [
        name for name in _IMPORTED_JS.findall(text) if not name.startswith((".", "/", "node:"))
    ]
    packages = ["/".join(name.split("/")[: 2 if name.startswith("@") else 1]) for name in names]
    unique = tuple(dict.fromkeys(package.lower() for package in packages))
    return ProjectScript(file, unique, is_program=True, variables=variables_read(file, text))


def _shell(file: str, text: str, _: Path) -> ProjectScript:
    shebang = _SHEBANG.match(text)
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    programs = tuple(dict.fromkeys(_SHELL_PROGRAMS.findall(code)))
    return ProjectScript(
        file,
        programs,
        is_program=shebang is not None and bool(programs),
        variables=variables_read(file, code),
        hosts=tuple(dict.fromkeys(_URL_HOST.findall(code))),
        shell="sh" if shebang is None else shebang[1],
    )
