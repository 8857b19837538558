"""Which files of a `write` mount stay read-only: the paddock file that the sandbox runs under, one
at the top of the mount, and the files that they name.

An agent that could change them would decide what its successor may do, or which program of the host
tells the value of a secret. What else lies in a `write` mount is the agent's to change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from paddock.doors.terms import governing_file
from paddock.model.errors import CannotEnforce
from paddock.model.spec import Mount, MountMode, Spec
from paddock.policy.decide import Policy
from paddock.policy.file import DEFAULT_NAME
from paddock.state.obeyed import Governing, existing_files, read_content

# Each is a mount of its own, and each directory on the way to one.
MAX_FIXED = 100


def with_read_only_files(spec: Spec, policy: Policy) -> Spec:
    """Return the spec with these files noted in its `write` mounts. Raises CannotEnforce for a
    paddock file that has other ways to it, so that it could be changed all the same."""
    if not any(_is_writable(mount) for mount in spec.mounts):
        return spec
    own = governing_file(policy)
    return replace(spec, mounts=tuple(_with_files(mount, own) for mount in spec.mounts))


def _is_writable(mount: Mount) -> bool:
    return mount.mode is MountMode.WRITE and mount.source is not None


def _with_files(mount: Mount, own: Governing) -> Mount:
    if not _is_writable(mount):
        return mount
    assert mount.source is not None
    if not os.path.isdir(mount.source):
        if mount.source in set(_files(Path(mount.source).parent, own)):
            raise CannotEnforce(
                f"a write mount of {mount.source}: it is the paddock file, or one that it names",
                hint="mount it to read",
            )
        return mount
    found = sorted({path for path in _files(Path(mount.source), own) if _is_within(path, mount)})
    for path in found:
        _check(path)
    relative = tuple(os.path.relpath(path, mount.source) for path in found)
    fixed = replace(mount, read_only=relative)
    if len(fixed.fixed_paths) > MAX_FIXED:
        raise CannotEnforce(
            f"{len(fixed.fixed_paths)} files and directories of the write mount at {mount.target} "
            "would have to be read-only, because paddock files name them",
            hint="mount a directory that does not hold them",
        )
    return fixed


def _files(source: Path, own: Governing) -> Iterator[str]:
    """Absolute paths; a link is named together with what it leads to."""
    top = source / DEFAULT_NAME
    governing = [own]
    if os.path.lexists(top):
        governing.append(Governing(str(top), str(source), read_content(top)))
    for one in governing:
        for path in [*([one.file] if one.file else []), *existing_files(one)]:
            absolute = os.path.abspath(path)
            yield os.path.join(os.path.realpath(os.path.dirname(absolute)), os.path.basename(path))
            yield os.path.realpath(absolute)


def _is_within(path: str, mount: Mount) -> bool:
    return path.startswith(f"{mount.source}/") and os.path.lexists(path)


def _check(path: str) -> None:
    info = os.lstat(path)
    if stat.S_ISLNK(info.st_mode):
        raise CannotEnforce(
            f"a read-only {path} in a write mount: it is a link, which could be replaced",
            hint="put the file itself there, or mount the directory as an overlay",
        )
    if info.st_nlink > 1:
        raise CannotEnforce(
            f"a read-only {path} in a write mount: the file has another name (a hard link)",
            hint="make a copy of it, or mount the directory as an overlay",
        )
