"""The mounts of a sandbox, and whether its agent can write a file that it sees in them."""

from __future__ import annotations

import os
import re
import stat

import msgspec

_ESCAPE = re.compile(r"\\([0-7]{3})")


class MountEntry(msgspec.Struct, frozen=True):
    """One line of mountinfo: what part of which file system is where, and whether to be written."""

    number: int
    device: str
    root: str
    target: str
    is_readonly: bool


class MountTable(msgspec.Struct, frozen=True):
    """The mounts of one sandbox. They never change: nothing inside can mount."""

    mounts: tuple[MountEntry, ...]
    pid: int
    uid: int
    gid: int

    @classmethod
    def read(cls, pid: int) -> MountTable:
        """Read the mounts that a process sees, and as whom it would write. Raises OSError."""
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = tuple(_mount(line) for line in file)
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            ids = {name: words.split() for name, _, words in (line.partition(":") for line in file)}
        return cls(mounts, pid, uid=int(ids["Uid"][0]), gid=int(ids["Gid"][0]))

    def is_writable(self, fd: int) -> bool:
        """Return whether the agent could change or replace an open file.

        There are three cases. A file that is in none of these mounts (one without a name, a file
        of another file system) counts as the agent's own. On a mount for writing, owners and modes
        of the file and of the directories above it decide. On a read-only mount they decide, too,
        if the same files are mounted for writing somewhere else.
        """
        path = os.readlink(f"/proc/self/fd/{fd}")
        mount = self._mount_of(fd)
        if mount is None or not _is_below(path, mount.target):
            return True
        if mount.is_readonly:
            inner = _joined(mount.root, os.path.relpath(path, mount.target))
            if not any(
                other.device == mount.device
                and not other.is_readonly
                and _is_below(inner, other.root)
                for other in self.mounts
            ):
                return False
        return self._may_write(os.fstat(fd)) or self._may_replace(path, mount)

    def _mount_of(self, fd: int) -> MountEntry | None:
        number = mount_number(fd)
        return next((mount for mount in self.mounts if mount.number == number), None)

    def _may_write(self, info: os.stat_result) -> bool:
        if info.st_uid == self.uid:  # its owner can change the mode
            return True
        if info.st_gid == self.gid and info.st_mode & stat.S_IWGRP:
            return True
        return bool(info.st_mode & stat.S_IWOTH)

    def _may_replace(self, path: str, mount: MountEntry) -> bool:
        """Return whether a directory between the file and its mount point can be written."""
        while path != mount.target:
            path = os.path.dirname(path)
            if self._may_write(os.stat(f"/proc/{self.pid}/root{path}", follow_symlinks=False)):
                return True
        return False


def mount_number(fd: int) -> int:
    """Return the number of the mount that an open file was reached through."""
    with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        for line in file:
            if line.startswith(b"mnt_id:"):
                return int(line.split()[1])
    raise OSError("no mount number")


def _mount(line: str) -> MountEntry:
    number, _, device, root, target, options, *rest = line.split(" ")
    super_options = rest[-1].strip().split(",")
    is_readonly = "ro" in options.split(",") or "ro" in super_options
    return MountEntry(int(number), device, _unescaped(root), _unescaped(target), is_readonly)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _is_below(path: str, directory: str) -> bool:
    return directory == "/" or path == directory or path.startswith(directory + "/")


def _joined(root: str, relative: str) -> str:
    return os.path.normpath(os.path.join(root, relative))
