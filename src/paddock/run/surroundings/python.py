"""Python: environments, the interpreters behind them, and packages that are not copied into an
environment but linked to where they are worked on. These are read from what installers leave in
site-packages; nothing of it is executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import msgspec

from paddock.run.surroundings.host import Host, is_within, names_in, read_text
from paddock.run.surroundings.mount_plan import MountPlan

_NAMES = (".venv", "venv", "env", ".env")
_MARK = "pyvenv.cfg"
MAX_FILES = 500  # .pth files and finders that are read
_MAX_LINES = 1000
# Tables of a finder, as installers write them: one literal each, at the beginning of a line.
_TABLE = re.compile(r"^(?:MAPPING|NAMESPACES)\b[^=\n]*=\s*(\{.*?\})\s*$", re.M | re.S)
_TEXT = re.compile(r"""'([^'\n]*)'|"([^"\n]*)\"""")
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


def active_environment(host: Host) -> str | None:
    """Return the environment that the user has activated, or the project's own, or that of a parent
    directory."""
    for variable, mark in (("VIRTUAL_ENV", _MARK), ("CONDA_PREFIX", "conda-meta")):
        root = host.environ.get(variable)
        if root and os.path.isabs(root) and os.path.exists(os.path.join(root, mark)):
            return os.path.normpath(root)
    for directory in host.ancestors():
        for name in _NAMES:
            if os.path.isfile(os.path.join(directory, name, _MARK)):
                return os.path.join(directory, name)
    return None


def environment_of(program: str) -> str | None:
    """Return the virtual environment that has this program in its bin directory."""
    root = os.path.dirname(os.path.dirname(program))
    return root if os.path.isfile(os.path.join(root, _MARK)) else None


def base_programs(root: str) -> Iterator[str]:
    """Yield the interpreters that an environment is made from, as it names them."""
    for line in (read_text(os.path.join(root, _MARK)) or "").splitlines()[:100]:
        key, _, value = (part.strip() for part in line.partition("="))
        if key == "home" and os.path.isabs(value):
            for name in ("python3", "python"):
                if os.path.exists(os.path.join(value, name)):
                    yield os.path.join(value, name)
                    break
    for name in ("python3", "python"):
        if os.path.lexists(os.path.join(root, "bin", name)):
            yield os.path.join(root, "bin", name)


def is_installation(prefix: str) -> bool:
    """Return whether it is one Python with its library, and not what many programs share."""
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return True
    names = names_in(os.path.join(prefix, "lib"))
    has_library = any(
        os.path.isfile(os.path.join(prefix, "lib", name, "os.py"))
        for name in names
        if name.startswith(("python3", "pypy3"))
    )
    return has_library and os.path.exists(os.path.join(prefix, "bin"))


def add_library(prefix: str, places: MountPlan) -> None:
    """Add the standard library of an installation if it is a link to outside of it."""
    for name in names_in(os.path.join(prefix, "lib")):
        library = os.path.realpath(os.path.join(prefix, "lib", name))
        if name.startswith(("python3", "pypy3")) and os.path.isfile(f"{library}/os.py"):
            places.need(library, "Python's library")


def add_packages(prefix: str, places: MountPlan) -> None:
    """Ask for what the packages of an environment or installation lead to outside of it."""
    for name in names_in(os.path.join(prefix, "lib")):
        site = os.path.join(prefix, "lib", name, "site-packages")
        if name.startswith(("python3", "pypy3")) and os.path.isdir(site):
            _add_linked(Linked(os.path.realpath(site), "packages of an environment"), places)
            for source in _linked_sources(site):
                _add_linked(source, places)


def _add_linked(source: Linked, places: MountPlan) -> None:
    """Add a linked package. An agent may have written the link, so nothing but Python code is
    exposed by it."""
    if places.is_visible(os.path.realpath(source.path)):
        return
    if _has_python(source.path):
        places.need(source.path, source.why, is_source=True)
    else:
        places.omit(source.path, source.why, "there is no Python in it")


def user_site(host: Host, program: str) -> str | None:
    """Return the packages that `pip install --user` installed for a system's Python."""
    version = os.path.basename(os.path.realpath(program))
    base = host.environ.get("PYTHONUSERBASE") or os.path.join(host.home, ".local")
    site = os.path.join(base, "lib", version, "site-packages")
    return site if version.startswith("python3.") and os.path.isdir(site) else None


class Linked(msgspec.Struct, frozen=True):
    """A directory or file outside of an environment that its packages lead to."""

    path: str
    why: str


def _linked_sources(site: str) -> list[Linked]:
    """Return everything outside a site-packages directory that it refers to."""
    names = names_in(site, limit=20_000)
    sources = {source.path: source for name in _readable(names) for source in _of_file(site, name)}
    for name in names:
        project = _project(site, name) if name.endswith(".dist-info") else None
        # A loader of a kind that we do not read: then the whole of what it says it is.
        if project is not None and not any(is_within(path, project.path) for path in sources):
            sources[project.path] = project
    real_site = os.path.realpath(site)
    return [
        source
        for source in sources.values()
        if not is_within(os.path.realpath(source.path), real_site)
    ]


def _has_python(path: str) -> bool:
    """Return whether there is something to import in a directory, or a file is a module."""
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
    """Return the paths in a .pth file; its lines of code are not executed."""
    lines = (line.strip() for line in text.splitlines()[:_MAX_LINES])
    return [ln for ln in lines if ln and not ln.startswith(("#", "import ", "import\t"))]


def _mapped(text: str) -> list[str]:
    """Return the directories of an import finder: MAPPING from packages, NAMESPACES from names to
    lists."""
    # Not by `ast`: in CPython 3.11 two threads that parse at once get a SystemError.
    paths: list[str] = []
    for table in _TABLE.finditer(text):
        texts = (match[1] or match[2] for match in _TEXT.finditer(table[1]))
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
