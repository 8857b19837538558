"""Which directories a Python needs to run. Found by reading, never by running it: what it would run
on its way up is not in a pen yet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from paddock.model.errors import InvalidInput
from paddock.model.values import dataclass
from paddock.world.pen.walls import is_visible

_MAX_LINKS = 16
_MAX_TEXT = 1 << 16


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and what must be readable for it."""

    path: Path
    reads: tuple[Path, ...]


def find(path: Path | None = None) -> Interpreter:
    """The one that runs Paddock, or another. Raises InvalidInput."""
    chosen = Path(sys.executable) if path is None else path
    if not os.access(chosen, os.X_OK) or chosen.is_dir():
        raise InvalidInput(f"{chosen} is no Python that can be executed")
    reads: list[Path] = []
    for tree in [*_trees(chosen), *_packages(chosen.parent.parent)]:
        if not is_visible(tree) and tree.is_dir() and tree not in reads:
            reads.append(tree)
    return Interpreter(chosen, tuple(reads))


def _trees(path: Path) -> Iterator[Path]:
    """The environment, and each installation on the way along the links to the real program."""
    for _ in range(_MAX_LINKS):
        yield path.parent.parent
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / os.readlink(path)))
    yield path.resolve().parent.parent


def _packages(prefix: Path) -> Iterator[Path]:
    """Directories that an environment names in .pth files: projects that are worked on."""
    for file in sorted(prefix.glob("lib/python3.*/site-packages/*.pth"))[:100]:
        try:
            lines = file.read_text("utf-8", "replace")[:_MAX_TEXT].splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("/") and Path(line) != Path(os.path.expanduser("~")):
                yield Path(line)
