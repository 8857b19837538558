"""Which files of a `write` mount stay read-only: the paddock file that the sandbox runs under, one
at the top of the mount, the files that they name, and the directories that their commands name.

An agent that could change them would decide what its successor may do, or which program of the host
tells the value of a secret. What else lies in a `write` mount is the agent's to change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from paddock.doors.terms import governing_file
from paddock.model.errors import CannotEnforce
from paddock.model.spec import Mount, MountMode, Spec
from paddock.policy.decide import Policy
from paddock.policy.file import DEFAULT_NAME
from paddock.state.tool_config import (
    MAX_FILES_IN_DIRECTORY,
    Governing,
    existing_directories,
    existing_files,
    files_below,
    links_on_the_way,
    read_content,
)

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
    is_directory = os.path.isdir(mount.source)
    top = Path(mount.source) if is_directory else Path(mount.source).parent
    governing = _governing(top, own)
    files = {path for file in governing for path in _files(file)}
    directories = {path for file in governing for path in existing_directories(file)}
    is_named = mount.source in files or any(
        f"{mount.source}/".startswith(f"{os.path.realpath(path)}/") for path in directories
    )
    if is_named:
        raise CannotEnforce(
            f"a write mount of {mount.source}: a paddock file names it, or is it",
            hint="mount it to read, or as an overlay",
        )
    return _with_fixed(mount, files, directories) if is_directory else mount


def _with_fixed(mount: Mount, files: set[str], directories: set[str]) -> Mount:
    whole, more = _whole_directories(mount, directories)
    inside = {path for path in (*files, *more) if _is_within(path, mount)}
    for path in sorted(inside):
        _check(path)
    # What lies in a read-only directory is read-only with it.
    fixed = [path for path in (*whole, *inside) if not whole & set(_above(path))]
    relative = tuple(sorted(os.path.relpath(path, mount.source) for path in fixed))
    mount = replace(mount, read_only=relative)
    if len(mount.fixed_paths) > MAX_FIXED:
        raise CannotEnforce(
            f"{len(mount.fixed_paths)} files and directories of the write mount at {mount.target} "
            "would have to be read-only, because paddock files name them",
            hint="mount a directory that does not hold them",
        )
    return mount


def _whole_directories(mount: Mount, named: set[str]) -> tuple[set[str], set[str]]:
    """Return the directories of a mount that are read-only as a whole, and the files that decide
    what is in them: links on the way, and what links in them lead to, which may be directories."""
    whole: set[str] = set()
    files: set[str] = set()
    pending = list(named)
    while pending:
        path = pending.pop()
        directory = os.path.realpath(path)
        files.update(links_on_the_way(path))
        if directory in whole or not _is_within(directory, mount):
            continue
        whole.add(directory)
        below = files_below(directory)
        if below is None:
            raise CannotEnforce(
                f"a read-only {directory} in a write mount: it has more than "
                f"{MAX_FILES_IN_DIRECTORY} files",
                hint="let the command name the program itself, or mount it as an overlay",
            )
        for real in {os.path.realpath(name) for name in below}:
            if os.path.isdir(real):
                pending.append(real)
            else:
                files.add(real)
    return whole, files


def _governing(source: Path, own: Governing) -> list[Governing]:
    """The file that the sandbox runs under, its words as the caller's own, which start from the
    current directory, and the file at the top of the mount."""
    files = [own, replace(own, base=os.getcwd())]
    top = source / DEFAULT_NAME
    if os.path.lexists(top):
        files.append(Governing(str(top), str(source), read_content(top)))
    return files


def _files(governing: Governing) -> Iterator[str]:
    """Yield absolute paths; each is named together with every link that leads to it."""
    for path in [*([governing.file] if governing.file else []), *existing_files(governing)]:
        yield from links_on_the_way(path)
        yield os.path.realpath(path)


def _above(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path


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
