"""Node: where its installation begins, and the packages of the project and of its workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator

from paddock.run.surroundings.host import Host, names_in
from paddock.run.surroundings.mount_plan import MountPlan

_PACKAGES = "node_modules"
_MAX_LINKS = 2000


def is_installation(prefix: str) -> bool:
    """Return whether a directory is an installation of Node, as its archive or a version manager
    lays it out."""
    has_node = os.path.isfile(os.path.join(prefix, "bin", "node"))
    marks = ("include/node", "lib/node_modules")
    return has_node and any(os.path.isdir(os.path.join(prefix, mark)) for mark in marks)


def is_project(host: Host) -> bool:
    """Return whether the project, or one that contains it, is a Node project."""
    return any(os.path.isfile(os.path.join(d, "package.json")) for d in host.ancestors())


def add_packages(host: Host, places: MountPlan) -> None:
    """Add the packages that Node would find from the project, and the targets of those that are
    links."""
    for directory in host.ancestors():
        packages = os.path.join(directory, _PACKAGES)
        if not os.path.isdir(packages):
            continue
        places.need(packages, "packages of the project")
        for link in _links(packages):
            target = os.path.realpath(link)
            if places.is_visible(target) or not os.path.isdir(target):
                continue
            why = f"linked by {os.path.basename(link)}"
            # An agent may have made the link, and nothing but a package is to be had by it.
            if os.path.isfile(os.path.join(target, "package.json")):
                places.need(target, why, is_source=True)
            else:
                places.omit(target, why, "there is no package.json in it")


def bins(host: Host) -> list[str]:
    """Return the directories where npx looks before it would use the network."""
    candidates = (os.path.join(d, _PACKAGES, ".bin") for d in host.ancestors())
    return [directory for directory in candidates if os.path.isdir(directory)]


def _links(packages: str) -> Iterator[str]:
    """Yield the packages that are links: of a workspace, of pnpm, or made by hand."""
    count = 0
    for path in _package_paths(packages):
        if os.path.islink(path):
            count += 1
            if count > _MAX_LINKS:
                return
            yield path


def _package_paths(packages: str) -> Iterator[str]:
    for name in names_in(packages, limit=20_000):
        path = os.path.join(packages, name)
        if name.startswith("@") and not os.path.islink(path):
            yield from (os.path.join(path, inner) for inner in names_in(path))
        elif not name.startswith("."):
            yield path
