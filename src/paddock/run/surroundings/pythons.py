"""Python: environments, the interpreters behind them, and packages that are installed by a link."""

from __future__ import annotations

import os
from collections.abc import Iterator

from paddock.run.surroundings.editables import Linked, has_python, linked_sources
from paddock.run.surroundings.host import Host, names_in, read_text
from paddock.run.surroundings.places import Places

_NAMES = (".venv", "venv", "env", ".env")
_MARK = "pyvenv.cfg"


def active_environment(host: Host) -> str | None:
    """The environment that the user has chosen, or the project's own, or that of a parent."""
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
    """The virtual environment that has this program in its bin."""
    root = os.path.dirname(os.path.dirname(program))
    return root if os.path.isfile(os.path.join(root, _MARK)) else None


def base_programs(root: str) -> Iterator[str]:
    """The interpreters that an environment is made from, as it names them."""
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
    """Whether a directory is one Python with its library, and not what many programs share."""
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return True
    names = names_in(os.path.join(prefix, "lib"))
    has_library = any(
        os.path.isfile(os.path.join(prefix, "lib", name, "os.py"))
        for name in names
        if name.startswith(("python3", "pypy3"))
    )
    return has_library and os.path.exists(os.path.join(prefix, "bin"))


def add_library(prefix: str, places: Places) -> None:
    """The standard library of an installation, where it is a link to outside of it."""
    for name in names_in(os.path.join(prefix, "lib")):
        library = os.path.realpath(os.path.join(prefix, "lib", name))
        if name.startswith(("python3", "pypy3")) and os.path.isfile(f"{library}/os.py"):
            places.need(library, "Python's library")


def add_packages(prefix: str, places: Places) -> None:
    """What the packages of an environment or installation lead to outside of it."""
    for name in names_in(os.path.join(prefix, "lib")):
        site = os.path.join(prefix, "lib", name, "site-packages")
        if name.startswith(("python3", "pypy3")) and os.path.isdir(site):
            _add_linked(Linked(os.path.realpath(site), "packages of an environment"), places)
            for source in linked_sources(site):
                _add_linked(source, places)


def _add_linked(source: Linked, places: Places) -> None:
    """An agent may have written what leads there, and nothing but Python is to be had by it."""
    if places.is_visible(os.path.realpath(source.path)):
        return
    if has_python(source.path):
        places.need(source.path, source.why, is_source=True)
    else:
        places.omit(source.path, source.why, "there is no Python in it")


def user_site(host: Host, program: str) -> str | None:
    """Packages that `pip install --user` put beside a system's Python."""
    version = os.path.basename(os.path.realpath(program))
    base = host.environ.get("PYTHONUSERBASE") or os.path.join(host.home, ".local")
    site = os.path.join(base, "lib", version, "site-packages")
    return site if version.startswith("python3.") and os.path.isdir(site) else None
