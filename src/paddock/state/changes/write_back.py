"""The decision which of an agent's changes may be written back into the caller's own directory.

Both trees may be changing while this runs, so both are held by descriptors and a directory is
entered only as a directory, never through a link. What cannot be written back safely is refused,
with the reason, and the rest goes on. Files that tools obey are held back unless the caller says
otherwise for each (see `tool_config`). How something is written lives in `target_directory`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, assert_never

import msgspec

from paddock.model.errors import Conflict
from paddock.model.results import FileType
from paddock.objects.file_bytes import has_same_content
from paddock.state.changes.change import (
    FileChange,
    Kind,
    file_type,
    link_target,
    size_of,
    walk_order,
)
from paddock.state.changes.link_check import why_link_leaves
from paddock.state.changes.target_directory import ChangeRefused, Owner, TargetDirectory
from paddock.state.files.descent import Descent, open_file
from paddock.state.files.overlay_marks import is_whiteout
from paddock.state.files.tree_walk import remove, status
from paddock.state.tool_config import Governing, Obeyed, ObeyedFiles, Protection


class Applied(msgspec.Struct, frozen=True):
    """The outcome of one change. `held`: tools obey the file, and nobody asked for it by name;
    `refused`: not safe or not possible as it stands; `failed`: the host could not do it. `why`
    gives the reason."""

    path: str
    kind: Kind
    status: Literal["applied", "held", "refused", "failed"]
    why: str | None = None


class Consent(msgspec.Struct, frozen=True):
    """The consent of the caller, as paths relative to the tree: `named` are those that a person or
    a program named one by one, `agreed` those that a person was asked about."""

    named: frozenset[str] = frozenset()
    agreed: frozenset[str] = frozenset()

    def covers(self, path: str, judgement: Obeyed, obeyed: ObeyedFiles) -> bool:
        """Return whether a file that tools obey may be written. To name a directory that tools obey
        as a whole, such as `.vscode`, is to name what is in it."""
        if path in self.named or (judgement.protection is Protection.ASKED and path in self.agreed):
            return True
        parts = path.split("/")
        above = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
        return any(directory in self.named and obeyed.is_entry(directory) for directory in above)


NO_CONSENT = Consent()


def held_changes(
    upper: Path,
    target: Path | int,
    changes: Iterable[FileChange],
    *,
    consent: Consent = NO_CONSENT,
    governing: Governing | None = None,
) -> dict[str, Obeyed]:
    """Return which changes `apply_changes` would hold back, by path, and why."""
    listed = [change for change in changes if _is_plain(change.path)]  # others are refused
    with ObeyedFiles(upper, target, listed, governing) as obeyed:
        judged = ((change.path, obeyed.judge(change)) for change in listed)
        return {
            path: judgement
            for path, judgement in judged
            if judgement is not None and not consent.covers(path, judgement, obeyed)
        }


def apply_changes(
    upper: Path,
    target: Path | int,
    changes: Iterable[FileChange],
    *,
    owner: Owner | None = None,
    consent: Consent = NO_CONSENT,
    governing: Governing | None = None,
) -> list[Applied]:
    """Write changes found in `upper` (an overlay's layer, or a scanned tree) into `target`, in the
    order of a walk. What is created gets the owner, if there is one. `governing` is the paddock
    file that the agent ran under; it and what it names are held back like those in the tree."""
    ordered = sorted(changes, key=lambda change: walk_order(change.path))
    held = held_changes(upper, target, ordered, consent=consent, governing=governing)
    with Descent(upper, lift=True) as source, Descent(target) as place, Descent(target) as probe:
        writer = TargetDirectory(place, owner)
        applier = _Applier(source, writer, probe)
        results = [
            _held(change, held[change.path]) if change.path in held else applier.apply(change)
            for change in ordered
        ]
        writer.finish()
    return results


def _held(change: FileChange, judgement: Obeyed) -> Applied:
    return Applied(change.path, change.kind, "held", judgement.why)


class _Applier:
    def __init__(self, source: Descent, target: TargetDirectory, probe: Descent) -> None:
        self._source = source
        self._target = target
        self._probe = probe
        self._layer_modes: list[int] = []  # of the directories that `source` is in

    def apply(self, change: FileChange) -> Applied:
        try:
            *parents, name = _parts(change.path)
            if change.kind == "deleted":
                self._delete(change, parents, name)
            else:
                self._write(change, parents, name)
        except ChangeRefused as refusal:
            return Applied(change.path, change.kind, "refused", str(refusal))
        except Conflict as conflict:
            self._reset()
            return Applied(change.path, change.kind, "refused", conflict.message)
        except OSError as error:
            self._reset()
            return Applied(change.path, change.kind, "failed", error.strerror or str(error))
        return Applied(change.path, change.kind, "applied")

    def _reset(self) -> None:
        for descent in (self._source, self._target.descent, self._probe):
            descent.reset()

    def _delete(self, change: FileChange, parents: list[str], name: str) -> None:
        if self._find_source(parents):
            st = status(name, self._source.fd)
            if st is not None and not is_whiteout(st):
                raise ChangeRefused("it exists again since the changes were listed")
        if not self._find_place(parents):
            return
        st = status(name, self._target.fd)
        if st is None:
            return
        if file_type(st.st_mode) is not change.type:
            raise ChangeRefused("it is something else in the target by now")
        remove(name, self._target.fd)

    def _write(self, change: FileChange, parents: list[str], name: str) -> None:
        st = status(name, self._source.fd) if self._find_source(parents) else None
        if st is None or is_whiteout(st):
            raise ChangeRefused("it is gone since the changes were listed")
        if file_type(st.st_mode) is not change.type or size_of(st) != change.size:
            raise ChangeRefused("it has changed since the changes were listed")
        match change.type:
            case FileType.FILE:
                self._write_file(change, parents, name)
            case FileType.SYMLINK:
                self._write_link(change, parents, name)
            case FileType.DIR:
                self._write_dir(change, parents, name, st.st_mode & 0o777)
            case FileType.OTHER:
                raise ChangeRefused("it is neither a file nor a directory nor a link")
            case _:
                assert_never(change.type)

    def _write_file(self, change: FileChange, parents: list[str], name: str) -> None:
        fd = open_file(name, self._source.fd, lift=True)
        if fd is None:
            raise ChangeRefused("it has changed since the changes were listed")
        try:
            st = os.fstat(fd)
            if st.st_size != change.size:
                raise ChangeRefused("it has changed since the changes were listed")
            self._make_parents(parents)
            self._check_free(change, name, lambda: self._is_file_like(fd, st.st_size, name))
            self._target.put_file(name, fd, st)
        finally:
            os.close(fd)

    def _write_link(self, change: FileChange, parents: list[str], name: str) -> None:
        points_to = link_target(name, self._source.fd)
        if points_to is None:
            raise ChangeRefused("it has changed since the changes were listed")
        self._make_parents(parents)
        if reason := why_link_leaves(self._probe, parents, points_to):
            raise ChangeRefused(reason)
        self._check_free(change, name, lambda: link_target(name, self._target.fd) == points_to)
        self._target.put_link(name, points_to)

    def _write_dir(self, change: FileChange, parents: list[str], name: str, mode: int) -> None:
        self._make_parents(parents)
        st = status(name, self._target.fd)
        if st is not None and stat.S_ISDIR(st.st_mode):
            self._target.descent.enter(name)
            self._target.set_mode(mode)
            return
        self._check_free(change, name, lambda: False)
        remove(name, self._target.fd)
        self._target.make_dir(name, mode)

    def _make_parents(self, parents: list[str]) -> None:
        """Go to the directory in the target; make what is missing as it is in the layer."""
        while not self._find_place(parents):
            depth = self._target.descent.depth
            self._target.make_dir(parents[depth], self._layer_modes[depth])

    def _check_free(self, change: FileChange, name: str, is_same: Callable[[], bool]) -> None:
        """Refuse a new file that would take the place of what the user has made there meanwhile."""
        if change.kind == "added" and status(name, self._target.fd) is not None and not is_same():
            raise ChangeRefused("something else is there in the target by now")

    def _is_file_like(self, source: int, size: int, name: str) -> bool:
        fd = open_file(name, self._target.fd)
        if fd is None:
            return False
        try:
            return os.fstat(fd).st_size == size and has_same_content(fd, source, size)
        finally:
            os.close(fd)

    def _find_source(self, parents: list[str]) -> bool:
        """Go to a directory of the layer, and note the modes of all on the way."""
        self._source.rise_towards(parents)
        del self._layer_modes[self._source.depth :]
        for name in parents[self._source.depth :]:
            st = _enter(self._source, name, "the layer")
            if st is None:
                return False
            self._layer_modes.append(st.st_mode & 0o777)
        return True

    def _find_place(self, parents: list[str]) -> bool:
        """Go to a directory of the target, or as far towards it as there is one."""
        place = self._target.descent
        place.rise_towards(parents)
        return all(_enter(place, name, "the target") for name in parents[place.depth :])


def _parts(path: str) -> list[str]:
    if not _is_plain(path):
        raise ChangeRefused("it is no path inside the tree")
    return path.split("/")


def _is_plain(path: str) -> bool:
    return not any(part in ("", ".", "..") or "\0" in part for part in path.split("/"))


def _enter(descent: Descent, name: str, where: str) -> os.stat_result | None:
    """Enter a real directory. Returns None if there is nothing of that name."""
    try:
        return descent.enter(name)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
    st = status(name, descent.fd)
    what = "a link" if st is not None and stat.S_ISLNK(st.st_mode) else "a file"
    raise ChangeRefused(f"its path passes through {what} in {where}")
