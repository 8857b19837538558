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


def test_every_walk_names_its_functions() -> None:
    sections = re.split(r"^##+ ", (ROOT / "ARCHITECTURE.md").read_text(), flags=re.MULTILINE)
    walks = [text for text in sections if "function by function" in text.partition("\n")[0]]
    assert len(walks) >= 3
    for walk in walks:
        assert len(NAMED.findall(walk)) >= 8, walk.partition("\n")[0]


def test_every_function_of_the_walks_exists() -> None:
    named = NAMED.findall((ROOT / "ARCHITECTURE.md").read_text())
    missing = []
    for file, name in named:
        path = ROOT / "src" / "paddock" / file
        if not path.is_file() or name not in defined_in(path):
            missing.append(f"{file}:{name}")
    assert not missing
