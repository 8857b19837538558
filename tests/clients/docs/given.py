"""Files that a page takes for granted: a wheel, an index with it, an image. No test lives here."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

from conformance.test_templates import fill_root

_WHEEL = "greeting-1.0-py3-none-any.whl"


def make(name: str, project: Path) -> None:
    """Put one of them into the project."""
    match name:
        case "greeting-1.0-py3-none-any.whl":
            _make_wheel(project / _WHEEL)
        case "index":
            (project / "index" / "greeting").mkdir(parents=True)
            _make_wheel(project / "index" / "greeting" / _WHEEL)
        case "image.tar":
            _make_image(project / "image.tar", project / "image")
        case _:
            raise ValueError(f"nothing is called {name}")


def _make_wheel(path: Path) -> None:
    info = "greeting-1.0.dist-info"
    files = {
        "greeting.py": "TEXT = 'good morning'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def _make_image(path: Path, root: Path) -> None:
    """Make a small root file system, as `docker export` would write it."""
    fill_root(root)
    with tarfile.open(path, "w") as archive:
        archive.add(root, arcname=".")
