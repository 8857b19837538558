"""The caller's own directories that are mounted: resolved once, and the same ever after.

An agent that can write to the parent of a source could put a link in its place before a fork or a
write-back. So a source is resolved when the sandbox is made, its device and inode are remembered,
and from then on it is opened by a path without links and compared.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.fence import syscalls
from paddock.model.errors import Conflict, InvalidInput
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.model.spec import Mount, Spec

# Not files of the caller's but windows into the kernel and into other processes.
_NEVER = ("/proc", "/sys", "/dev")


def resolved(home: Home, spec: Spec) -> Spec:
    """Return the spec with every source as a real path and an identity."""
    from msgspec.structs import replace  # not above: the keeper has the standard library alone

    own = os.path.realpath(home.root)
    return replace(spec, mounts=tuple(_resolve(m, own) for m in spec.mounts))


def open_source(path: str, identity: tuple[int, int]) -> int:
    """Return an O_PATH descriptor of a resolved source; refuse if anything else is there by now."""
    try:
        fd = syscalls.open_without_links(path)
    except OSError as error:
        raise Conflict(
            f"mounts.source: {path} cannot be opened any more: {error.strerror}"
        ) from None
    info = os.fstat(fd)
    if (info.st_dev, info.st_ino) == tuple(identity):
        return fd
    os.close(fd)
    raise Conflict(f"mounts.source: {path} is not the directory that it was when it was mounted")


def _resolve(mount: Mount, own: str) -> Mount:
    from msgspec.structs import replace

    if mount.source is None:
        return mount
    path = os.path.realpath(os.path.expanduser(mount.source))
    try:
        info = os.stat(path)
    except OSError as error:
        raise InvalidInput(
            f"mounts.source: {mount.source!r} cannot be mounted: {error.strerror}",
            hint=f"looked for {path}",
        ) from None
    _check_allowed(mount.source, path, own)
    return replace(mount, source=path, identity=(info.st_dev, info.st_ino))


def _check_allowed(written: str, path: str, own: str) -> None:
    if path == "/" or any(_is_within(path, top) for top in _NEVER):
        raise InvalidInput(
            f"mounts.source: {written!r} is a part of the system ({path})",
            hint="name a directory of your own",
        )
    if _is_within(path, own) or _is_within(own, path):
        raise InvalidInput(
            f"mounts.source: {written!r} holds Paddock's own state or lies in it ({own})",
            hint="mount a directory beside it, or set PADDOCK_HOME to another place",
        )


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
