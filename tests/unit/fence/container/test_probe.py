"""Looking at the host runs nothing that lies where the caller stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.fence.container.probe import probe
from paddock.state.home import Home

SOURCE = Path(__file__).resolve().parents[4] / "src" / "paddock"
FILES = [path for path in SOURCE.rglob("*.py") if "files" not in path.parts]  # of a demo's agent


def test_probe_runs_no_module_of_the_directory_it_is_called_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ctypes", "os", "socket", "struct", "paddock"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    found = probe(Home(tmp_path / "home"))
    assert not (tmp_path / "ran").exists()
    assert {one.name for one in found.findings} >= {"isolation", "network"}


def test_every_interpreter_is_started_apart_from_the_current_directory() -> None:
    starts = [(path, line, words) for path in FILES for line, words in interpreters(path)]
    assert len(starts) >= 5
    # A script has its own directory in that place.
    careless = [one for one in starts if one[2][0] in ("-c", "-m")]
    assert careless == []


def interpreters(path: Path) -> Iterator[tuple[int, list[str]]]:
    """What stands behind `sys.executable` in a list."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text if "sys.executable" in text else "")):
        if isinstance(node, ast.List):
            words = [ast.unparse(one) for one in node.elts]
            if "sys.executable" in words[:-1]:
                rest = node.elts[words.index("sys.executable") + 1 :]
                yield node.lineno, [str(getattr(one, "value", "")) for one in rest]
