"""What a run changed in its project as one patch, which `git apply` takes.

Paths are those of the repository that the project lies in, so that the patch applies from anywhere
in it; without one they are relative to the project. What git takes from no patch is left out and
said: repositories, pipes, what was hidden from the agent, and files beyond a size.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from paddock.model.results import FileType
from paddock.run.changes import ChangedPath, ChangedRoot, RunChanges, open_source_directory
from paddock.state.changes.change import link_target
from paddock.state.changes.patch_format import Version, file_patch, git_mode
from paddock.state.files.descent import CHANGED_UNDERNEATH, Descent, open_file
from paddock.state.files.tree_walk import status, walk
from paddock.state.tool_config import git_root, is_in_repository, object_format, repository_path

MAX_FILE_BYTES = 64 << 20


class ProjectPatch:
    """The patch of one place of a run. Iterate over it once; `remarks` then says what is not in it
    or to be looked at, and `is_whole` whether nothing is missing that git would take."""

    def __init__(self, found: RunChanges) -> None:
        self.remarks: list[str] = []
        self.is_whole = True
        self._run = found.run
        self._place = found.project
        self._changed = [one for one in found.changed if one.place == self._place]
        self._tell_others(found)

    def __iter__(self) -> Iterator[bytes]:
        place = self._place
        if place is None or place.source is None:
            return
        prefix, algorithm = _repository_of(place.source)
        source = open_source_directory(place.source)
        try:
            for one in self._taken():
                for path, old, new in self._versions(one, place, source):
                    yield from file_patch(prefix + os.fsencode(path), old, new, algorithm)
        finally:
            os.close(source)

    def _tell_others(self, found: RunChanges) -> None:
        others = sorted({one.place.target for one in found.changed} - {_target(self._place)})
        for target in others:
            self.remarks.append(f"changes of {target} are not in the patch of the project")

    def _taken(self) -> Iterator[ChangedPath]:
        repositories: set[str] = set()
        for one in self._changed:
            if one.refusal:
                self.remarks.append(f"{one.path}: {one.refusal}")
            elif is_in_repository(one.change.path):
                repositories.add(repository_path(one.change.path))
            else:
                if one.conflict:
                    self.remarks.append(f"{one.path}: {one.conflict}, which the patch undoes")
                yield one
        for path in sorted(repositories):
            brings = f"; paddock apply {self._run} --branch NAME brings the agent's commits"
            self.remarks.append(f"{path} is in no patch{brings if path == '.git' else ''}")

    def _versions(
        self, one: ChangedPath, place: ChangedRoot, source: int
    ) -> Iterator[tuple[str, Version | None, Version | None]]:
        """Yield both versions of what changed: of a directory that is gone, of all that was in
        it."""
        path = one.change.path
        if one.change.kind == "added":
            old: dict[str, Version] = {}
        else:
            old = self._read_below(source, path, one)
        new = None
        if one.change.kind != "deleted" and one.change.type is not FileType.DIR:
            if one.change.type is FileType.OTHER:
                self._leave_out(one, "is no file")
                return
            new = self._read_one(place.files, path, one)
            if new is None:
                return
        elif one.change.kind == "modified" and path not in old:
            return  # a directory with another mode, of which git knows nothing
        before = old.pop(path, None)
        for inner, version in old.items():
            yield inner, version, None
        yield path, before, new

    def _read_below(self, root: int, path: str, one: ChangedPath) -> dict[str, Version]:
        """Read the old version of a path, or of all files in it if a directory was replaced."""
        found: dict[str, Version] = {}
        *parents, name = path.split("/")
        with Descent(root) as descent:
            try:
                descent.go_to(parents)
            except OSError as error:
                if error.errno in CHANGED_UNDERNEATH:
                    return {}
                raise
            st = status(name, descent.fd)
            if st is None:
                return {}
            if not stat.S_ISDIR(st.st_mode):
                version = self._read(descent, name, st, one)
                return {} if version is None else {path: version}
            if one.change.kind == "modified" and one.change.type is FileType.DIR:
                return {}
            descent.enter(name)
            depth = descent.depth
            for inner, at in walk(descent):
                if stat.S_ISDIR(at.st_mode):
                    continue
                version = self._read(descent, inner, at, one)
                if version is not None:
                    found["/".join([path, *descent.parts[depth:], inner])] = version
        return found

    def _read_one(self, root: Path, path: str, one: ChangedPath) -> Version | None:
        *parents, name = path.split("/")
        with Descent(root, lift=True) as descent:
            descent.go_to(parents)
            st = status(name, descent.fd)
            return None if st is None else self._read(descent, name, st, one)

    def _read(
        self, descent: Descent, name: str, st: os.stat_result, one: ChangedPath
    ) -> Version | None:
        if stat.S_ISLNK(st.st_mode):
            target = link_target(name, descent.fd)
            return None if target is None else Version(git_mode(st.st_mode), os.fsencode(target))
        fd = open_file(name, descent.fd, lift=True)
        if fd is None:
            self._leave_out(one, "is no file")
            return None
        with open(fd, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            self._leave_out(one, f"has more than {MAX_FILE_BYTES >> 20} MiB")
            return None
        return Version(git_mode(st.st_mode), data)

    def _leave_out(self, one: ChangedPath, why: str) -> None:
        self.is_whole = False
        self.remarks.append(f"{one.path} {why}, and is not in the patch")


def _target(place: ChangedRoot | None) -> str | None:
    return None if place is None else place.target


def _repository_of(source: str) -> tuple[bytes, str]:
    """Return what stands before a path of the source in its repository, and how that names
    objects."""
    root = git_root(source)
    if root is None:
        return b"", "sha1"
    prefix = os.path.relpath(source, root)
    return b"" if prefix == "." else os.fsencode(f"{prefix}/"), object_format(root)
