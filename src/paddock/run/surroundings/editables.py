"""Packages that are not copied into an environment but linked to where they are worked on. Read
from what installers leave in site-packages; nothing of it is executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from paddock.model.values import dataclass
from paddock.run.surroundings.host import is_within, names_in, read_text

MAX_FILES = 500  # .pth files and finders that are read
_MAX_LINES = 1000
# Tables of a finder, as installers write them: one literal each, at the beginning of a line.
_TABLE = re.compile(r"^(?:MAPPING|NAMESPACES)\b[^=\n]*=\s*(\{.*?\})\s*$", re.M | re.S)
_TEXT = re.compile(r"""'([^'\n]*)'|"([^"\n]*)\"""")
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True, slots=True)
class Linked:
    """A directory or file outside of an environment that its packages lead to."""

    path: str
    why: str


def linked_sources(site: str) -> list[Linked]:
    """All that a site-packages directory leads to outside of itself."""
    names = names_in(site, limit=20_000)
    found = {one.path: one for name in _readable(names) for one in _of_file(site, name)}
    for name in names:
        project = _project(site, name) if name.endswith(".dist-info") else None
        # A loader of a kind that we do not read: then the whole of what it says it is.
        if project is not None and not any(is_within(path, project.path) for path in found):
            found[project.path] = project
    real_site = os.path.realpath(site)
    return [one for one in found.values() if not is_within(os.path.realpath(one.path), real_site)]


def has_python(path: str) -> bool:
    """Whether there is something to import in a directory, or a file is a module."""
    if not os.path.isdir(path):
        return path.endswith(".py")
    if any(os.path.isfile(os.path.join(path, name)) for name in _PROJECT_FILES):
        return True
    names = names_in(path)
    return any(n.endswith(".py") for n in names) or any(
        os.path.isfile(os.path.join(path, n, "__init__.py")) for n in names
    )


def _readable(names: list[str]) -> list[str]:
    wanted = [n for n in names if n.endswith(".pth") or _is_finder(n)]
    return wanted[:MAX_FILES]


def _is_finder(name: str) -> bool:
    return name.startswith("__editable__") and name.endswith("_finder.py")


def _of_file(site: str, name: str) -> Iterator[Linked]:
    text = read_text(os.path.join(site, name)) or ""
    paths = _mapped(text) if _is_finder(name) else _lines(text)
    package = name.removeprefix("__editable__").strip("_.").split("-")[0].split("_finder")[0]
    for path in paths:
        whole = os.path.normpath(os.path.join(site, path))
        if os.path.exists(whole):
            yield Linked(whole, f"linked by {package.removesuffix('.pth')}")


def _lines(text: str) -> list[str]:
    """The paths of a .pth file; its lines of code are not ours to run."""
    lines = (line.strip() for line in text.splitlines()[:_MAX_LINES])
    return [ln for ln in lines if ln and not ln.startswith(("#", "import ", "import\t"))]


def _mapped(text: str) -> list[str]:
    """The directories of a finder: MAPPING from packages, NAMESPACES from names to lists."""
    # Not by `ast`: in CPython 3.11 two threads that parse at once get a SystemError.
    paths: list[str] = []
    for found in _TABLE.finditer(text):
        texts = (one[1] or one[2] for one in _TEXT.finditer(found[1]))
        paths += [text for text in texts if "\\" not in text and os.path.isabs(text)]
    return [path if os.path.exists(path) else path + ".py" for path in paths]


def _project(site: str, name: str) -> Linked | None:
    text = read_text(os.path.join(site, name, "direct_url.json"))
    if text is None:
        return None
    from urllib.parse import unquote, urlsplit  # few need it

    try:
        value = json.loads(text)
        if not value["dir_info"]["editable"]:
            return None
        parts = urlsplit(value["url"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    path = os.path.normpath(unquote(parts.path))
    if parts.scheme != "file" or not os.path.isabs(path) or not os.path.isdir(path):
        return None
    return Linked(path, f"linked by {name.split('-')[0]}")
