"""The order of the packages, and the name and docstring of every file, read from the source.

Nothing of Paddock is imported here: a rule must be checkable on code that does not run.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from cases import for_each

SOURCE = Path(__file__).resolve().parents[2] / "src" / "paddock"
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
# The built-in stand-ins, which are plugins: they use the world, and nothing of Paddock knows them.
SERVICES = SOURCE.with_name("paddock_services")
SERVICE_FILES = sorted(SERVICES.rglob("*.py"))

# From top to bottom. Imports point down only; packages on one line do not import each other.
LINES = (
    ("cli", "server"),
    ("demo",),
    ("run",),
    ("ladder",),
    ("doors",),
    ("world",),
    ("gate",),
    ("fence",),
    ("llm",),
    ("policy", "journal", "state"),
    ("objects",),
    ("model",),
)
LINE_OF = {package: number for number, line in enumerate(LINES) for package in line}
GUEST = "paddock.fence.guest"
# Implementations of `fence.driver`. Everybody else gets a driver from `fence.registry`.
DRIVERS = ("paddock.fence.container", "paddock.fence.fake")
# A file that stands alone: it is copied into sandboxes, and any package may import it.
ALONE = "inside.py"
# What Python and pytest load by themselves: packages only when they are used.
FACES = ("__init__.py", "pytest_plugin.py")
# Inside the fence its files are top-level modules: `import wire`.
GUEST_MODULES = {PurePosixPath(file).stem for file in FILES if file.startswith("fence/guest/")}
KERNEL_EXTRAS = {"IPython", "matplotlib", "matplotlib_inline", "traitlets"}  # kernel*.py only
WITHOUT_IO = ("model", "policy")
# fmt: off
IO_MODULES = frozenset({
    "_io", "_posixsubprocess", "_socket", "aiofiles", "asyncio", "concurrent", "ctypes", "dbm",
    "fcntl", "fileinput", "ftplib", "glob", "http", "httpx", "imaplib", "io", "logging", "mmap",
    "multiprocessing", "os", "pathlib", "poplib", "posix", "pty", "requests", "select",
    "selectors", "shelve", "shutil", "signal", "smtplib", "socket", "socketserver", "sqlite3",
    "ssl", "subprocess", "syslog", "tempfile", "termios", "tty", "urllib.request", "webbrowser",
    "xmlrpc",
})
# fmt: on
IO_BUILTINS = frozenset({"open", "print", "input", "breakpoint"})
MAX_MODULES = 25
BANNED_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "manager"})


@dataclass(frozen=True, slots=True)
class Import:
    """One module that a file names, where, and whether it is loaded together with the file."""

    module: str
    line: int
    is_eager: bool


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every file, parsed once for all tests."""
    return {file: ast.parse((SOURCE / file).read_text()) for file in FILES}


def test_imports_point_down_the_packages(trees: dict[str, ast.Module]) -> None:
    breaches = [breach for file in FILES for breach in _breaches(file, trees[file])]
    assert not breaches, "\n" + "\n".join(breaches)


def test_files_are_named_after_what_they_contain() -> None:
    banned = [
        file for file in FILES if BANNED_NAMES & set(PurePosixPath(file).with_suffix("").parts)
    ]
    assert not banned, f"these names say nothing about their content: {banned}"


def test_every_module_opens_with_a_docstring(trees: dict[str, ast.Module]) -> None:
    silent = [file for file in FILES if not ast.get_docstring(trees[file])]
    assert not silent, f"say in a sentence what these modules contain: {silent}"


def test_no_directory_has_more_modules_than_a_reader_can_survey() -> None:
    counts = Counter(PurePosixPath(file).parent.as_posix() for file in FILES)
    crowded = {name: count for name, count in counts.items() if count > MAX_MODULES}
    crowded.pop("cli/commands", None)  # one module for each command
    assert not crowded, f"group these by concern: {crowded}"


def test_public_class_name_has_one_meaning(trees: dict[str, ast.Module]) -> None:
    places: dict[str, list[str]] = {}
    for file, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(file)
    several = {name: files for name, files in places.items() if len(files) > 1}
    assert not several, f"give each a specific name: {several}"


def test_there_is_source_to_check() -> None:
    assert FILES, f"no Python file below {SOURCE}"
    assert SERVICE_FILES, f"no Python file below {SERVICES}"


def test_built_in_services_use_the_world_and_what_is_below_it() -> None:
    breaches = []
    for path in SERVICE_FILES:
        file = path.relative_to(SERVICES).as_posix()
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), f"say in a sentence what {path} contains"
        assert path.stem not in BANNED_NAMES, f"the name of {path} says nothing about its content"
        breaches += [
            f"{file}:{one.line}: {one.module}"
            for one in _imports(file, tree)
            if not _is_allowed_in_services(one.module)
        ]
    assert not breaches, "\n" + "\n".join(breaches)


@for_each(
    ("module", "is_allowed"),
    [
        ("paddock.world.kit", True),
        ("paddock.model.errors", True),
        ("paddock.doors.terms", False),
        ("paddock.cli", False),
        ("paddock", False),
        ("starlette.routing", True),
    ],
)
def test_which_packages_a_built_in_service_may_use(module: str, is_allowed: bool) -> None:
    assert _is_allowed_in_services(module) is is_allowed


@for_each(
    ("file", "source"),
    [
        ("model/a.py", "from paddock.state import b"),
        ("state/a.py", "from paddock import journal"),
        ("state/a.py", "def f():\n    import paddock.policy.rules"),
        ("state/a.py", "from ..fence import b"),
        ("state/a.py", "from importlib import import_module\nimport_module('paddock.gate')"),
        ("server/a.py", "from paddock.cli.main import main"),
        ("fence/a.py", "from paddock import Sandbox"),
        ("doors/a.py", "from paddock.fence.container import keeper"),
        ("cli/a.py", "def f():\n    from paddock.fence.container.probe import probe"),
        ("run/a.py", "from paddock.fence import container"),
        ("run/a.py", "from paddock.fence.fake import FakeDriver"),
        ("fence/a.py", "import paddock"),
        ("fence/a.py", "from paddock.attic import b"),
        ("attic/a.py", "import json"),
        ("stray.py", "import json"),
        ("inside.py", "from paddock.model.errors import NotFound"),
        ("inside.py", "import httpx"),
        ("__init__.py", "from paddock.doors import machine"),
        ("__init__.py", "if True:\n    import paddock.doors"),
        ("fence/guest/a.py", "from paddock.fence.driver import b"),
        ("fence/guest/a.py", "from paddock.model.errors import NotFound"),
        ("fence/guest/a.py", "from .. import driver"),
        ("fence/guest/a.py", "import IPython"),
        ("fence/guest/kernel.py", "import numpy"),
        ("model/a.py", "import pydantic"),
        ("model/a.py", "import os.path"),
        ("model/a.py", "from pathlib import Path"),
        ("model/a.py", "from urllib import request"),
        ("model/a.py", "def f(p):\n    return open(p)"),
        ("policy/a.py", "import socket"),
        ("world/a.py", "from paddock_services.payments import Payments"),
        ("cli/a.py", "def f():\n    import paddock_services"),
    ],
)
def test_a_breach_of_the_order_is_found(file: str, source: str) -> None:
    found = list(_breaches(file, ast.parse(source)))
    assert len(found) == 1
    assert found[0].startswith(f"src/paddock/{file}:")


@for_each(
    ("file", "source"),
    [
        ("cli/main.py", "from paddock import Sandbox\nfrom paddock.run import a\nimport click"),
        ("cli/main.py", "from . import shell\nfrom paddock.cli.commands.shell import run"),
        ("__main__.py", "from paddock.cli.main import main"),
        ("__init__.py", "def __getattr__(name):\n    from paddock.doors import machine"),
        (
            "__init__.py",
            "import typing\nif typing.TYPE_CHECKING:\n    import paddock.run",
        ),
        ("fence/container/a.py", "from paddock.fence.guest import wire\nfrom ...state import b"),
        ("fence/registry.py", "from paddock.fence.container.keeper_start import early"),
        ("doors/a.py", "from paddock.fence import driver\nfrom paddock.fence.registry import b"),
        ("fence/guest/a.py", "from paddock.fence.guest import wire\nfrom . import wire\nimport os"),
        ("fence/guest/a.py", "".join(f"import {name}\n" for name in sorted(GUEST_MODULES))),
        ("fence/guest/kernel.py", "import IPython.core\nimport matplotlib"),
        ("model/__init__.py", "from .errors import NotFound\nfrom urllib.parse import urlsplit"),
        ("model/a.py", "import msgspec"),
        ("policy/a.py", "import celpy\nfrom paddock.model import spec"),
        ("inside.py", "import json\nimport socket"),
        ("doors/a.py", "from paddock.inside import MAX_NAMES"),
    ],
)
def test_what_the_order_allows_is_not_called_a_breach(file: str, source: str) -> None:
    assert list(_breaches(file, ast.parse(source))) == []


def _breaches(file: str, tree: ast.Module) -> Iterator[str]:
    """Yield every rule that the file breaks, as `file:line: what: the rule`."""
    top = PurePosixPath(file).parts[0]
    if top not in LINE_OF and file not in (*FACES, "__main__.py", ALONE):
        yield _say(file, 1, "lives in no package", f"the packages are {', '.join(LINE_OF)}")
        return
    for one in _imports(file, tree):
        rule = _broken_rule(file, one)
        if rule is not None:
            yield _say(file, one.line, f"imports {one.module}", rule)
    if top in WITHOUT_IO:
        for call, line in _io_calls(tree):
            yield _say(file, line, f"calls {call}()", f"{top} does no I/O")


def _broken_rule(file: str, one: Import) -> str | None:
    package = PurePosixPath(file).parts[0]
    if one.module.split(".")[0] == SERVICES.name:
        return "services are found by their entry points"
    if file.startswith("fence/guest/"):
        return _broken_guest_rule(file, one)
    if file == ALONE:
        return None if _is_stdlib(one.module) else f"{ALONE} uses the standard library only"
    if one.module == f"paddock.{PurePosixPath(ALONE).stem}":
        return None
    if package != "fence" and one.module.startswith(DRIVERS):
        return "only the fence knows its drivers; use fence.driver and fence.registry"
    if one.module.split(".")[0] == "paddock":
        return _broken_order(file, package, one)
    if package in WITHOUT_IO and _is_io(one.module):
        return f"{package} does no I/O"
    if package == "model" and not _is_stdlib(one.module) and one.module != "msgspec":
        return "model uses the standard library and msgspec only"
    return None


def _broken_order(file: str, package: str, one: Import) -> str | None:
    target = one.module.split(".")[1] if "." in one.module else ""
    if target not in LINE_OF and target:
        return f"there is no package {target!r}"
    if file == "__main__.py":
        return None
    if file in FACES:
        return "the package root loads packages lazily, inside a function" if one.is_eager else None
    if not target:
        return (
            None if LINE_OF[package] == 0 else "only the top packages use the package's public face"
        )
    if target == package or LINE_OF[target] > LINE_OF[package]:
        return None
    if LINE_OF[target] == LINE_OF[package]:
        return f"{package} and {target} are on one line, which do not import each other"
    return f"{target} is above {package}; imports point down only"


def _broken_guest_rule(file: str, one: Import) -> str | None:
    if one.module == GUEST or one.module.startswith(GUEST + "."):
        return None
    is_kernel = PurePosixPath(file).name.startswith("kernel")
    allowed = GUEST_MODULES | KERNEL_EXTRAS if is_kernel else GUEST_MODULES
    if _is_stdlib(one.module) or one.module.split(".")[0] in allowed:
        return None
    return "the guest runs alone in the sandbox: standard library and fence/guest only"


def _is_allowed_in_services(module: str) -> bool:
    top, _, rest = module.partition(".")
    return top != "paddock" or LINE_OF.get(rest.split(".")[0], -1) >= LINE_OF["world"]


def _imports(file: str, tree: ast.Module) -> Iterator[Import]:
    eager = set(map(id, _loaded_at_import(tree)))
    for node in ast.walk(tree):
        for module in _modules_named(file, node):
            yield Import(module, node.lineno, id(node) in eager)  # type: ignore[attr-defined]


def _modules_named(file: str, node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom():
            return _modules_of_from(file, node)
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if _is_import_call(node.func):
            return [name]
    return []


def _modules_of_from(file: str, node: ast.ImportFrom) -> list[str]:
    base = node.module or ""
    if node.level:
        package = ("paddock", *PurePosixPath(file).parent.parts)
        above = package[: len(package) - node.level + 1]
        base = ".".join((*above, base) if base else above)
    if base == "paddock":  # `from paddock import state` names a package, `import Sandbox` the root.
        names = (name.name for name in node.names)
        return sorted({f"paddock.{name}" if name in LINE_OF else "paddock" for name in names})
    if base == "urllib":
        return [f"urllib.{name.name}" for name in node.names]
    if base == "paddock.fence":
        return [f"paddock.fence.{name.name}" for name in node.names]
    return [base]


def _is_import_call(func: ast.expr) -> bool:
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return name in ("import_module", "__import__")


def _loaded_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is loaded: no function bodies, no TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and _is_type_checking(child.test):
            continue
        yield child
        yield from _loaded_at_import(child)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _io_calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IO_BUILTINS:
                yield name, node.lineno


def _is_io(module: str) -> bool:
    parts = module.split(".")
    return any(".".join(parts[:size]) in IO_MODULES for size in range(1, len(parts) + 1))


def _is_stdlib(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names


def _say(file: str, line: int, what: str, rule: str) -> str:
    return f"src/paddock/{file}:{line}: {what}: {rule}"
