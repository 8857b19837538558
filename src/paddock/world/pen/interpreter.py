"""The directories that a Python interpreter needs. They are found by reading files, never by
running it: what an interpreter runs at start-up would not be in a pen yet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.pen.mounts import is_visible

_MAX_LINKS = 16
_MAX_TEXT = 1 << 16


class Interpreter(msgspec.Struct, frozen=True):
    """A Python interpreter, and what must be visible for it."""

    path: Path
    reads: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...] = ()  # links that lead to it, with their targets


def find(path: Path | None = None) -> Interpreter:
    """Return the interpreter that runs Paddock, or another one. Raises InvalidInput."""
    chosen = Path(sys.executable) if path is None else path
    if not os.access(chosen, os.X_OK) or chosen.is_dir():
        raise InvalidInput(f"{chosen} is no Python that can be executed")
    reads: dict[Path, None] = {}
    links: dict[Path, str] = {}
    for name in _link_chain(chosen):
        prefix = name.parent.parent
        if _has_python(prefix):
            reads[prefix] = None
        elif name.is_symlink():  # in a shared bin directory: only the link, not its neighbours
            links[name] = os.readlink(name)
        else:  # a parent directory is a link
            links[name] = str(name.resolve())
    reads.update(dict.fromkeys(_packages(chosen.parent.parent)))
    # An editable install may lie where this user cannot look; `Path.is_dir` would raise there.
    trees = tuple(tree for tree in reads if not is_visible(tree) and os.path.isdir(tree))
    missing = ((n, t) for n, t in links.items() if not is_visible(n) and n != n.resolve())
    return Interpreter(chosen, trees, tuple(missing))


def _link_chain(path: Path) -> list[Path]:
    """Return the program, from link to link up to the real one. A virtual environment may have a
    copy instead of a link, so the interpreter that it was made from is included."""
    names: list[Path] = []
    pending = [path]
    while pending and len(names) < _MAX_LINKS:
        name = pending.pop(0)
        if name in names or not name.exists():
            continue
        names.append(name)
        if name.is_symlink():
            target = os.readlink(name)
            # For `..` the kernel goes up from the real directory.
            has_parent = ".." in target.split("/")
            directory = name.parent.resolve() if has_parent else name.parent
            pending.append(Path(os.path.normpath(directory / target)))
        else:
            pending.append(name.resolve())
        pending += _bases(name.parent.parent)
    return names


def _bases(prefix: Path) -> Iterator[Path]:
    for line in _read_lines(prefix / "pyvenv.cfg"):
        key, _, value = (part.strip() for part in line.partition("="))
        if key == "home" and value.startswith("/"):
            yield Path(os.path.normpath(value)) / "python3"


def _has_python(prefix: Path) -> bool:
    """Return whether a directory is one Python or environment, not shared by many programs."""
    if (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir():
        return True
    return any(prefix.glob("lib/python3*/os.py"))


def _packages(prefix: Path) -> Iterator[Path]:
    """Yield the directories in .pth files: editable installs."""
    for file in sorted(prefix.glob("lib/python3.*/site-packages/*.pth"))[:100]:
        for line in _read_lines(file):
            if line.startswith("/") and Path(line) != Path(os.path.expanduser("~")):
                yield Path(line)


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace")[:_MAX_TEXT].splitlines()
    except OSError:
        return []
