"""A check that a symbolic link of an agent does not lead out of the tree that it is written to."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from paddock.state.files.descent import Descent
from paddock.state.files.tree_walk import status

# What the kernel itself allows on the way to a file.
_MAX_LINKS = 40


def why_link_leaves(place: Descent, parents: Sequence[str], target: str) -> str | None:
    """Return the reason to refuse a link in directory `parents` to `target`, or None if it stays
    inside.

    `..` is allowed at the beginning only. Behind a name it means the parent of whatever that name
    is by then, and a second link can make that a directory at the top. The links that are in the
    tree already are followed by hand, because they may lead outside for good reasons of the user's.
    """
    if target.startswith("/"):
        return "it is a link to an absolute path"
    names = _names(target)
    ups = next((n for n, name in enumerate(names) if name != ".."), len(names))
    if ups > len(parents):
        return "it is a link that leads out of the tree"
    if ".." in names[ups:]:
        return "it is a link whose path goes down and up again"
    place.reset()  # whatever it stood in may have been replaced by an earlier change
    place.go_to(parents)
    return _follow(place, names)


def _follow(place: Descent, names: list[str]) -> str | None:
    pending, links = names[::-1], 0
    while pending:
        name = pending.pop()
        if name == "..":
            if place.depth == 0:
                return "it is a link that leads out of the tree by way of another link"
            place.leave()
            continue
        st = status(name, place.fd)
        if st is not None and stat.S_ISDIR(st.st_mode):
            place.enter(name)
        elif st is not None and stat.S_ISLNK(st.st_mode):
            target = os.readlink(name, dir_fd=place.fd)
            links += 1
            if links > _MAX_LINKS:
                return None  # a loop: it leads nowhere
            if target.startswith("/"):
                return "it is a link that leads out of the tree by way of another link"
            pending.extend(reversed(_names(target)))
        else:
            # Nothing there to follow. It may come to be, so what is left must only go down.
            return "it is a link by way of another one to nothing" if ".." in pending else None
    return None


def _names(target: str) -> list[str]:
    return [name for name in target.split("/") if name not in ("", ".")]
