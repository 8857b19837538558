"""A root file system under construction: finding the directory of a path without leaving it.

Links in an image mean paths of the image. They are followed by hand here, from the root file
system's own top and never above it, so that the kernel never resolves one on the host. What is put
into the directories that are found is `unpack`'s business.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Sequence

from paddock.model.errors import InvalidInput
from paddock.state.files.descent import Descent, shown
from paddock.state.files.tree_walk import listing, remove, status

# What the kernel itself allows on the way to a file.
MAX_LINKS = 40
MAX_PATH_BYTES = 4096
MAX_DEPTH = 2048


def image_parts(name: str) -> list[str]:
    """Return a path of an archive as the names it consists of. `..` could only mean harm."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise InvalidInput(f"the archive has a forbidden path: {shown(name)}")
    if len(os.fsencode(name)) > MAX_PATH_BYTES:
        raise InvalidInput(f"the archive has a path that is too long: {shown(name)}")
    return parts


class Rootfs:
    """A position in a root file system, and what the current layer has put into it."""

    def __init__(self, descent: Descent) -> None:
        self.descent = descent
        self._here: list[str] | None = None  # the archive's name for the current directory
        self._layer: set[str] = set()
        self._modes: dict[tuple[str, ...], int] = {}

    @property
    def fd(self) -> int:
        return self.descent.fd

    def begin_layer(self) -> None:
        self._layer.clear()
        self._here = None

    def go_to(self, parts: Sequence[str], *, create: bool = True) -> bool:
        """Go to a directory of the image, through the image's own links. With `create`, make what
        is missing; without, return whether it is there."""
        if self._here == list(parts):
            return True
        self._here = None
        self.descent.go_to([])
        pending, links = list(reversed(parts)), 0
        while pending:
            target = self._step(pending.pop(), create=create)
            if target is None:
                return False
            if target:
                links += 1
                pending.extend(reversed(target.split("/")))
                if target.startswith("/"):
                    self.descent.go_to([])
            if links > MAX_LINKS or self.descent.depth > MAX_DEPTH:
                raise InvalidInput(f"the archive has too many links at {shown('/'.join(parts))}")
        if create:
            self._own_parents()
            self._here = list(parts)
        return True

    def make_dir(self, name: str, mode: int) -> None:
        """Make a directory, or take the one that is there, and give it the mode."""
        st = status(name, self.fd)
        if st is None or not stat.S_ISDIR(st.st_mode):
            self.clear(name)
            os.mkdir(name, 0o700, dir_fd=self.fd)
        self.descent.enter(name)
        self.set_mode(mode)
        self.descent.leave()
        self.own(name)

    def set_mode(self, mode: int) -> None:
        """Set the mode of the current directory. The owner keeps all rights until `finish`."""
        os.fchmod(self.fd, mode | 0o700)
        path = tuple(self.descent.parts)
        self._modes.pop(path, None)
        if mode & 0o700 != 0o700:
            self._modes[path] = mode

    def own(self, name: str) -> None:
        """Note that this layer has put `name` into the current directory."""
        self._layer.add(self.descent.path_of(name))

    def clear(self, name: str) -> None:
        """Make room for something new under this name."""
        remove(name, self.fd)

    def hide(self, name: str) -> None:
        """Apply a whiteout: what lower layers have under this name goes, what this one has
        stays."""
        st = status(name, self.fd)
        if st is None:
            return
        if self.descent.path_of(name) not in self._layer:
            remove(name, self.fd)
        elif stat.S_ISDIR(st.st_mode):
            self.descent.enter(name)
            self.hide_all()
            self.descent.leave()

    def hide_all(self) -> None:
        """Apply an opaque mark: all that lower layers have in the current directory goes."""
        pending = [listing(self.fd)]
        while pending:
            if not pending[-1]:
                pending.pop()
                if pending:
                    self.descent.leave()
                continue
            name = pending[-1].pop()
            if self.descent.path_of(name) not in self._layer:
                remove(name, self.fd)
                continue
            st = status(name, self.fd)
            if st is not None and stat.S_ISDIR(st.st_mode):
                self.descent.enter(name)
                pending.append(listing(self.fd))

    def finish(self) -> None:
        """Give directories that deny their owner something their real modes, inner ones first."""
        self._here = None
        for path in sorted(self._modes, reverse=True):
            mode = self._modes[path]
            if not path:
                self.descent.go_to([])
                os.fchmod(self.fd, mode)
            elif self._is_there(path):
                self.descent.leave(functools.partial(os.fchmod, mode=mode))

    def _is_there(self, path: Sequence[str]) -> bool:
        try:
            self.descent.go_to(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False
            raise
        return True

    def _step(self, name: str, *, create: bool) -> str | None:
        """Go one name further. Returns "" when we are there, the target of a link, None for a
        missing one."""
        if name in ("", "."):
            return ""
        if name == "..":
            if self.descent.depth:  # the parent of the top is the top, as in a chroot
                self.descent.leave()
            return ""
        st = status(name, self.fd)
        if st is not None and stat.S_ISLNK(st.st_mode):
            return os.readlink(name, dir_fd=self.fd)
        if st is None or not stat.S_ISDIR(st.st_mode):
            if not create:
                return None
            self.clear(name)
            os.mkdir(name, 0o700, dir_fd=self.fd)
            self.descent.enter(name)
            self.set_mode(0o755)
            return ""
        self.descent.enter(name)
        return ""

    def _own_parents(self) -> None:
        path = ""
        for part in self.descent.parts:
            path = f"{path}/{part}" if path else part
            self._layer.add(path)
