"""The files of a saved image, in a directory or inside a tar, by their names. Knows no formats.

Nothing is unpacked: a file inside a tar is a range of the tar. Names come from untrusted manifests;
in a directory no link is followed, in a tar there is nothing to be led to but its own members.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from paddock.model.errors import InvalidInput
from paddock.state.files.descent import Descent, open_file
from paddock.state.templates._decompression import Window
from paddock.state.templates._tar_stream import TarStream

# A saved image has a few files for each layer; a tar with more is something else.
MAX_IMAGE_FILES = 100_000
_MAX_LINKS = 8
_TOP_NAMES = frozenset({"oci-layout", "index.json", "manifest.json", "repositories", "blobs"})
_LEGACY_NAME = re.compile(r"[0-9a-f]{64}(\.json|\.tar)?")


class ImageFiles(Protocol):
    """The place where the parts of an image are found."""

    def open(self, name: str) -> Window | None:
        """Return a file to read, or None where there is none of that name."""


class DirectoryFiles(msgspec.Struct, frozen=True):
    """An image laid out as a directory."""

    root: Path

    def open(self, name: str) -> Window | None:
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            return None
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            Descent(self.root) as descent,
        ):
            descent.go_to(parts[:-1])
            fd = open_file(parts[-1], descent.fd)
            if fd is not None:
                return Window(fd, 0, os.fstat(fd).st_size)
        return None


class TarFiles(msgspec.Struct):
    """An image inside an uncompressed tar: where each member's bytes lie, and which are links."""

    fd: int
    ranges: dict[str, tuple[int, int]] = {}
    links: dict[str, str] = {}

    @classmethod
    def index(cls, fd: int, what: str) -> TarFiles:
        """Read the headers only; `fd` stays the caller's."""
        size = os.fstat(fd).st_size
        files = cls(fd)
        with Window(os.dup(fd), 0, size, is_hashed=False) as window:
            for member in TarStream(window, what=what, max_bytes=size).members():
                files._add(member)
                if len(files.ranges) + len(files.links) > MAX_IMAGE_FILES:
                    raise InvalidInput(f"{what} has too many files for a saved image")
        return files

    def open(self, name: str) -> Window | None:
        name = posixpath.normpath(name)
        # Old versions of `docker save` store a layer once and link to it.
        for _ in range(_MAX_LINKS):
            if name not in self.links:
                break
            name = self.links[name]
        if name not in self.ranges:
            return None
        return Window(os.dup(self.fd), *self.ranges[name])

    def _add(self, member: tarfile.TarInfo) -> None:
        name = posixpath.normpath(member.name)
        self.ranges.pop(name, None)
        self.links.pop(name, None)
        if member.isreg() and not member.issparse():
            self.ranges[name] = (member.offset_data, member.size)
        elif member.issym():
            base = posixpath.dirname(name)
            self.links[name] = posixpath.normpath(posixpath.join(base, member.linkname))
        elif member.islnk():
            self.links[name] = posixpath.normpath(member.linkname)


def looks_like_image(names: Iterator[str]) -> bool:
    """Return whether an archive that begins with these names can be a saved image: those have
    nothing at the top but their own few names. The answer may be a wrong yes, never a wrong no."""
    for name in names:
        top = posixpath.normpath(name).lstrip("/").split("/")[0]
        if top not in ("", "."):
            return top in _TOP_NAMES or _LEGACY_NAME.fullmatch(top) is not None
    return False
