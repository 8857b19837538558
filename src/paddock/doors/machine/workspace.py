"""The changes that a sandbox made, and writing chosen ones back to the caller's own directories."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from paddock.doors.terms import governing_file
from paddock.fence.mount_sources import open_source
from paddock.model.errors import InvalidInput, SandboxDied
from paddock.model.spec import HOME, Mount, MountMode
from paddock.state.changes.change import FileChange
from paddock.state.changes.overlay import overlay_changes
from paddock.state.changes.tree_scan import Stamp, scan, scan_changes
from paddock.state.changes.write_back import Applied, Consent, apply_changes
from paddock.state.layers.hidden_files import split_hidden
from paddock.state.privilege import is_privileged

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box


class WorkspaceChange(msgspec.Struct, frozen=True):
    """One change, with the path as the sandbox sees it."""

    path: str
    kind: str  # added | modified | deleted
    change: FileChange
    tree: ChangedTree

    def __str__(self) -> str:
        return f"{self.kind:8} {self.path}"


class ChangedTree(msgspec.Struct, frozen=True):
    """An overlay mount or the workspace: where its changed files lie, and where they would go."""

    target: str
    files: Path
    source: Mount | None


class Changes:
    """The changes of one moment. `apply` reads the files as they are then."""

    def __init__(self, box: Box, changed: list[WorkspaceChange]) -> None:
        self._box = box
        self._all = changed

    def __iter__(self) -> Iterator[WorkspaceChange]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def added(self) -> list[str]:
        """Returns the paths that were added."""
        return self._of("added")

    @property
    def modified(self) -> list[str]:
        """Returns the paths that were modified."""
        return self._of("modified")

    @property
    def deleted(self) -> list[str]:
        """Returns the paths that were deleted."""
        return self._of("deleted")

    def apply(
        self, paths: Iterable[str] | None = None, *, to: str | os.PathLike[str] | None = None
    ) -> list[Applied]:
        """Writes the chosen changes (all by default) back to the mounts' sources.

        Changes of the workspace itself have no source: they are written below `to` when that is
        given, and are otherwise only written when named, which is an error. What would leave the
        tree (links, `..`) is refused and told in the result, never followed. Files that tools obey
        (`.git/config`, a Makefile, paddock files) are held back, and told as `held`, unless they
        are among `paths`.
        """
        named = None if paths is None else list(paths)
        chosen = self._chosen(named, has_target=to is not None)
        if self._box.machine.ended_by is not None:
            raise SandboxDied(self._box.sandbox_id, self._box.machine.ended_by)
        applied: list[Applied] = []
        governing = governing_file(self._box.actions.policy)
        for tree in dict.fromkeys(c.tree for c in chosen):
            own = [c.change for c in chosen if c.tree == tree]
            own, refused = split_hidden(own, tree.source.hidden if tree.source else ())
            applied += refused
            with _opened(tree.source, to) as target:
                info = os.fstat(target)
                owner = (info.st_uid, info.st_gid) if is_privileged() else None
                chosen_by_name = [change.path for change in own] if named else []
                consent = Consent(frozenset(chosen_by_name))
                applied += apply_changes(
                    tree.files,
                    target,
                    own,
                    owner=owner,
                    consent=consent,
                    governing=governing,
                )
        return applied

    def _chosen(self, paths: Iterable[str] | None, *, has_target: bool) -> list[WorkspaceChange]:
        if paths is None:
            return [c for c in self._all if c.tree.source is not None or has_target]
        by_path = {c.path: c for c in self._all}
        chosen = []
        for path in paths:
            if path not in by_path:
                raise InvalidInput(f"apply: {path!r} is not among the changes")
            if by_path[path].tree.source is None and not has_target:
                raise InvalidInput(
                    f"apply: {path!r} is in the sandbox's own workspace and has no source",
                    hint="give to=DIRECTORY",
                )
            chosen.append(by_path[path])
        return chosen

    def _of(self, kind: str) -> list[str]:
        return [c.path for c in self._all if c.kind == kind]


def changes_of(box: Box) -> Changes:
    """Compares every overlay with its source and the workspace with its start."""
    layer = box.layers.path(box.machine.layer)
    changed: list[WorkspaceChange] = []
    for number, mount in enumerate(box.spec.mounts):
        if mount.mode is MountMode.OVERLAY:
            tree = ChangedTree(mount.target, layer / f"overlays/{number}/upper", mount)
            with _opened(mount, None) as source:
                hidden = frozenset(mount.hidden)
                changed += _changed(tree, overlay_changes(tree.files, source, hidden=hidden))
    home = ChangedTree(HOME, layer / "home", None)
    mounted = {m.target for m in box.spec.mounts}
    own = _changed(home, scan_changes(_start_stamps(box), home.files))
    changed += [c for c in own if c.path not in mounted]  # a mount point is ours, not a change
    return Changes(box, changed)


@contextlib.contextmanager
def _opened(source: Mount | None, to: str | os.PathLike[str] | None) -> Iterator[int]:
    """Open the directory to compare with or to write to: a source by its checked descriptor."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    if source is None:
        assert to is not None
        fd = os.open(to, flags)
    else:
        assert source.source is not None and source.identity is not None
        checked = open_source(source.source, source.identity)
        fd = os.open(".", flags, dir_fd=checked)
        os.close(checked)
    try:
        yield fd
    finally:
        os.close(fd)


def _start_stamps(box: Box) -> Mapping[str, Stamp]:
    if box.start.base_layer is not None:
        return scan(box.layers.path(box.start.base_layer) / "home")
    return box.start.stamps


def _changed(tree: ChangedTree, changes: Iterable[FileChange]) -> list[WorkspaceChange]:
    return [WorkspaceChange(f"{tree.target}/{c.path}", c.kind, c, tree) for c in changes]
