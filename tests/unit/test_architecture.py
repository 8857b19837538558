"""That ARCHITECTURE.md names functions that exist: `path/of/file.py:Class.method`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`([a-z_0-9/]+\.py):([A-Za-z_][\w.]*)`")


def defined_in(path: Path) -> set[str]:
    """Return the functions, classes and methods of a file, as `name` and `Class.name`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            methods += [one for one in node.body if isinstance(one, ast.AsyncFunctionDef)]
            names |= {node.name, *(f"{node.name}.{method.name}" for method in methods)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return names


WALKS = re.compile(r"^### ([^\n]*), function by function$(.*?)(?=^#|^\*\*)", re.M | re.S)


def test_every_walk_names_its_functions() -> None:
    walks = dict(WALKS.findall((ROOT / "ARCHITECTURE.md").read_text()))
    assert {"A fork", "One HTTPS request"} <= set(walks)
    for title, text in walks.items():
        assert len(NAMED.findall(text)) >= 15, f"the walk {title!r} names its functions"


def test_every_function_of_the_walks_exists() -> None:
    named = NAMED.findall((ROOT / "ARCHITECTURE.md").read_text())
    missing = []
    for file, name in named:
        path = ROOT / "src" / "paddock" / file
        if not path.is_file() or name not in defined_in(path):
            missing.append(f"{file}:{name}")
    assert not missing
