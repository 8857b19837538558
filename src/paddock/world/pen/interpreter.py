"""Which directories a Python needs to run. Found by reading, never by running it: what it would run
on its way up is not in a pen yet."""

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
    """A Python, and what must be there for it."""

    path: Path
    reads: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...] = ()  # names that lead to it, and where each leads


def find(path: Path | None = None) -> Interpreter:
    """The one that runs Paddock, or another. Raises InvalidInput."""
    chosen = Path(sys.executable) if path is None else path
    if not os.access(chosen, os.X_OK) or chosen.is_dir():
        raise InvalidInput(f"{chosen} is no Python that can be executed")
    reads: dict[Path, None] = {}
    links: dict[Path, str] = {}
    for name in _names(chosen):
        prefix = name.parent.parent
        if _has_python(prefix):
            reads[prefix] = None
        elif name.is_symlink():  # beside others in a bin: the link, without its neighbours
            links[name] = os.readlink(name)
        else:  # a directory on the way to it is a link
            links[name] = str(name.resolve())
    reads.update(dict.fromkeys(_packages(chosen.parent.parent)))
    shown = tuple(tree for tree in reads if not is_visible(tree) and tree.is_dir())
    missing = ((n, t) for n, t in links.items() if not is_visible(n) and n != n.resolve())
    return Interpreter(chosen, shown, tuple(missing))


def _names(path: Path) -> list[Path]:
    """The program from link to link to the real one; of an environment also the Python that it
    says it was made from, which a copy does not lead to."""
    names: list[Path] = []
    waiting = [path]
    while waiting and len(names) < _MAX_LINKS:
        name = waiting.pop(0)
        if name in names or not name.exists():
            continue
        names.append(name)
        if name.is_symlink():
            target = os.readlink(name)
            # The kernel goes up from where a directory really is.
            place = name.parent.resolve() if ".." in target.split("/") else name.parent
            waiting.append(Path(os.path.normpath(place / target)))
        else:
            waiting.append(name.resolve())
        waiting += _bases(name.parent.parent)
    return names


def _bases(prefix: Path) -> Iterator[Path]:
    try:
        lines = (prefix / "pyvenv.cfg").read_text("utf-8", "replace")[:_MAX_TEXT].splitlines()
    except OSError:
        return
    for line in lines:
        key, _, value = (part.strip() for part in line.partition("="))
        if key == "home" and value.startswith("/"):
            yield Path(os.path.normpath(value)) / "python3"


def _has_python(prefix: Path) -> bool:
    """Return whether a directory is an environment or one Python, and not what many programs
    share."""
    if (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir():
        return True
    return any(prefix.glob("lib/python3*/os.py"))


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
