"""Walking and removing trees of untrusted files, one entry at a time, without recursion.

How a directory is opened and left safely lives in `descent`; what is done with an entry, elsewhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from paddock.model.errors import HostCannot, SandboxError
from paddock.state.files.descent import CHANGED_UNDERNEATH, Descent, shown

# Past this a tree is an attack or a mistake: the listing alone would not fit in memory.
MAX_TREE_ENTRIES = 5_000_000


def listing(dir_fd: int) -> list[str]:
    """Return the names in a directory, in byte order, so that two walks of one tree agree."""
    return sorted(os.listdir(dir_fd), key=os.fsencode)


def status(name: str, dir_fd: int) -> os.stat_result | None:
    """Return the status of a name, without following it, or None when it is gone."""
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError as error:
        if error.errno in CHANGED_UNDERNEATH:
            return None
        raise


def walk(descent: Descent) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every entry below, parents first. For a directory, `descent` is already inside it when
    it is yielded; for anything else `descent` is in its directory. What vanishes is left out."""
    pending = [iter(listing(descent.fd))]
    seen = 0
    while pending:
        name = next(pending[-1], None)
        if name is None:
            pending.pop()
            if pending:
                descent.leave()
            continue
        st = _visit(descent, name)
        if st is None:
            continue
        seen += 1
        if seen > MAX_TREE_ENTRIES:
            raise SandboxError(f"the tree has more than {MAX_TREE_ENTRIES} entries")
        if stat.S_ISDIR(st.st_mode):
            pending.append(iter(listing(descent.fd)))
        yield name, st


def remove(name: str, dir_fd: int) -> None:
    """Remove whatever has this name, directories with all that is in them. It may be gone
    already."""
    try:
        os.unlink(name, dir_fd=dir_fd)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        with Descent(dir_fd, lift=True) as descent:
            descent.enter(name)
            empty(descent)
        os.rmdir(name, dir_fd=dir_fd)


def empty(descent: Descent) -> None:
    """Remove everything in the current directory, and leave `descent` where it was."""
    descent.make_writable()
    pending = [listing(descent.fd)]
    while pending:
        if not pending[-1]:
            pending.pop()
            if pending:
                name = descent.parts[-1]
                descent.leave()
                os.rmdir(name, dir_fd=descent.fd)
            continue
        name = pending[-1].pop()
        try:
            os.unlink(name, dir_fd=descent.fd)
        except FileNotFoundError:
            continue
        except IsADirectoryError:
            descent.enter(name)
            descent.make_writable()
            pending.append(listing(descent.fd))


def _visit(descent: Descent, name: str) -> os.stat_result | None:
    st = status(name, descent.fd)
    if st is None or not stat.S_ISDIR(st.st_mode):
        return st
    try:
        return descent.enter(name)
    except PermissionError as error:
        raise HostCannot(
            f"cannot read the directory {shown(descent.path_of(name))}: {error.strerror}",
            hint="it belongs to another user; run as root or as its owner",
        ) from None
    except OSError as error:
        if error.errno in CHANGED_UNDERNEATH:
            return None
        raise
