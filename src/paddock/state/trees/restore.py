"""A stored state written over directories that hold nearly the same: only what differs is touched.

What a process holds open stays as it is (`held_files`), and is named in the result. Every other
file whose bytes differ is written in place. The directories are an agent's and may hold anything,
so nothing is followed and every change goes through the descriptor of its directory. Nobody else
may write meanwhile; if somebody did, the state is not what it should be at the end, and that is an
error.
"""

from __future__ import annotations

import errno
import functools
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec.structs import replace

from paddock.model.errors import Conflict, HostCannot
from paddock.model.space import is_out_of_space
from paddock.objects.file_bytes import digest_of
from paddock.state.changes.target_directory import Owner
from paddock.state.disk_space import full_disk
from paddock.state.files.descent import FILE_FLAGS, Descent, open_file, shown
from paddock.state.files.tree_walk import remove
from paddock.state.trees._plan import (
    Creation,
    DirectoryMode,
    Operation,
    Removal,
    Rewrite,
    full_path,
    plan,
)
from paddock.state.trees.held_files import (
    NOTHING_HELD,
    HeldFiles,
    HeldFilter,
    NotWrittenByAgent,
    is_unwritten,
)
from paddock.state.trees.known_states import node_at
from paddock.state.trees.large_files import SPLIT_ABOVE
from paddock.state.trees.node_files import NodeFiles, set_opaque
from paddock.state.trees.nodes import Node, NodeKind, StoredTree
from paddock.state.trees.reader import TreeReader
from paddock.state.trees.recorder import Recorder
from paddock.state.trees.scan import find_seen

_IN_PLACE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# It cannot be written where it is: its mode denies it, it runs, or it is no file any more.
_NOT_IN_PLACE = frozenset({errno.EACCES, errno.ETXTBSY, errno.ELOOP, errno.ENXIO, errno.ENOENT})
_NAMED = 5


class Restored(msgspec.Struct, frozen=True):
    """The paths that were changed; each begins with the name of its root. `written`: files that got
    other bytes or another mode where they are; `made` and `removed`: names that came and went;
    `sealed`: directories that got another mode or mark. `kept`: what stays different from the
    record, because processes hold it or may still be at work on it."""

    written: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()  # that should be there, but whose bytes were not stored
    kept: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.removed, *self.made, *self.written, *self.sealed)))


class NotStored(HostCannot):
    """A state needs versions of files of which only the digest or the size is known."""

    def __init__(self, paths: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        named = ", ".join(shown(full_path(*path)) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        super().__init__(
            f"the version that is needed of {named}{more} was not stored: it did not fit into the"
            " run's record budget",
            hint="choose another step, or record with a larger `record: {budget: ...}`",
        )
        self.paths = tuple(paths)


def lay_out(store: TreeReader, tree: str, roots: Mapping[str, Path]) -> Restored:
    """Fill new directories with what there is of a state, to look at it."""
    recorder = Recorder(None, roots)
    recorder.record()
    operations = _operations(store, store.tree(tree), recorder, frozenset())
    lost = [operation for operation in operations if _is_lost(store, operation)]
    possible = [operation for operation in operations if not _is_lost(store, operation)]
    _carry_out(store, recorder, possible, None)
    return replace(_summary(operations), lost=tuple(map(_shown, lost)))


def restore(
    store: TreeReader,
    tree: str,
    roots: Mapping[str, Path],
    *,
    owner: Owner | None,
    recorder: Recorder | None,
    keep: frozenset[str],
    held: HeldFiles = NOTHING_HELD,
    first: str | None = None,
) -> Restored:
    """Make directories a stored state. `recorder` is one that knows the roots already: what it has
    seen is not read again. `keep` are paths that stay whatever the state says, such as mount
    points. `held` is what processes have open; `first` is the state that they began with.

    Refused before anything is changed (`HostCannot`): a state that is not whole, one that needs
    bytes that were not stored, and one that needs bytes in an open file that its process did not
    write (`NotWrittenByAgent`). `Conflict` when somebody else wrote meanwhile.
    """
    recorder = recorder or Recorder(None, roots)
    if recorder.record().tree == tree:
        return Restored()
    wanted = store.tree(tree)
    every = _operations(store, wanted, recorder, keep)
    held_filter = HeldFilter(held, recorder.seen)
    operations, kept = held_filter.divide(every)
    _check_possible(store, wanted, recorder, operations)
    _check_own_work(store, first, recorder, every, frozenset(filter(held_filter.is_held, kept)))
    _carry_out(store, recorder, operations, owner)
    if recorder.record().tree != tree:
        now = _operations(store, wanted, recorder, keep)
        left, _ = HeldFilter(held, recorder.seen).divide(now)
        if left:
            path = shown("/".join(left[0].path) or "its top")
            raise Conflict(
                f"the files were changed while they were restored: {path}",
                hint="the sandbox must stand still",
            )
    return replace(_summary(operations), kept=tuple(map(shown, kept)))


def _check_own_work(
    store: TreeReader,
    first: str | None,
    recorder: Recorder,
    operations: list[Operation],
    held: frozenset[str],
) -> None:
    """Raise NotWrittenByAgent if a held file that is left alone is not the agent's own work."""
    if first is None:
        return
    for operation in operations:
        path = operation.full_path
        if path not in held or isinstance(operation, DirectoryMode):
            continue
        seen = find_seen(recorder.seen, path)
        now = None if seen is None else seen.node
        then = node_at(store, first, operation.root, operation.path)
        if is_unwritten(operation, now, then):
            raise NotWrittenByAgent(operation.root, operation.path, now)


def _operations(
    store: TreeReader, wanted: StoredTree, recorder: Recorder, keep: frozenset[str]
) -> list[Operation]:
    operations: list[Operation] = []
    for name, node in wanted.roots.items():
        prefix = f"{name}/"
        own = (path.removeprefix(prefix).split("/") for path in keep if path.startswith(prefix))
        for operation in plan(
            store, name, node, recorder.seen.get(name), frozenset(map(tuple, own))
        ):
            if not _is_same_unsplit(operation, recorder.roots.get(name)):
                operations.append(operation)
    return operations


def _is_same_unsplit(operation: Operation, root: Path | None) -> bool:
    """Return whether a large file has the bytes that it should have, by a digest from before such
    files were stored in parts: those had no more than the digest of their bytes."""
    if root is None or not isinstance(operation, Rewrite) or operation.has_same_bytes:
        return False
    node = operation.node
    if node.is_kept or node.is_split or not node.digest or node.size <= SPLIT_ABOVE:
        return False
    with Descent(root, lift=True) as descent:
        descent.go_to(operation.path[:-1])
        fd = open_file(node.name, descent.fd, lift=True)
        if fd is None:
            return False
        try:
            st = os.fstat(fd)
            is_like = (st.st_size, st.st_mode & 0o777) == (node.size, node.mode)
            return is_like and digest_of(fd, node.size) == node.digest
        finally:
            os.close(fd)


def _check_possible(
    store: TreeReader, wanted: StoredTree, recorder: Recorder, operations: list[Operation]
) -> None:
    if wanted.is_cut:
        raise HostCannot("the state is not whole: there were more files than are recorded")
    if wanted.roots.keys() != recorder.roots.keys():
        names = ", ".join(sorted(wanted.roots.keys() ^ recorder.roots.keys()))
        raise HostCannot(f"the state has other roots than the sandbox: {names}")
    lost = [operation for operation in operations if _is_lost(store, operation)]
    if lost:
        raise NotStored([(operation.root, operation.path) for operation in lost])


def _is_lost(store: TreeReader, operation: Operation) -> bool:
    """Return whether an operation needs bytes that were not stored."""
    match operation:
        case Creation(node=node):
            return node.kind is NodeKind.FILE and not store.is_kept(node)
        case Rewrite(node=node, has_same_bytes=False):
            return not store.is_kept(node)
        case _:
            return False


def _carry_out(
    store: TreeReader, recorder: Recorder, operations: list[Operation], owner: Owner | None
) -> None:
    files = NodeFiles(store.pieces, owner)
    for name, group in groupby(operations, key=lambda operation: operation.root):
        _RootRestorer(recorder.roots[name], files).run(list(group))


class _RootRestorer:
    def __init__(self, root: Path, files: NodeFiles) -> None:
        self._root = root
        self._files = files

    def run(self, operations: list[Operation]) -> None:
        with Descent(self._root, lift=True) as descent:
            for operation in operations:
                try:
                    self._do(descent, operation)
                except OSError as error:
                    if is_out_of_space(error):
                        raise full_disk(self._root, error) from None
                    path = shown("/".join(operation.path) or "its top")
                    raise HostCannot(f"cannot restore {path}: {error.strerror or error}") from None
        # Last, because leaving the root gives it back the mode that it had.
        if operations and isinstance(operations[-1], DirectoryMode) and not operations[-1].path:
            self._seal_root(operations[-1].node)

    def _do(self, descent: Descent, operation: Operation) -> None:
        if isinstance(operation, DirectoryMode):
            if operation.path:
                descent.go_to(operation.path)
                set_opaque(descent.fd, is_opaque=operation.node.is_opaque)
                descent.leave(functools.partial(os.fchmod, mode=operation.node.mode))
            return
        self._go(descent, operation.path[:-1])
        match operation:
            case Removal():
                remove(operation.path[-1], descent.fd)
            case Creation():
                self._make(descent.fd, operation)
            case Rewrite():
                self._write(descent.fd, operation)
            case _:
                assert_never(operation)

    def _go(self, descent: Descent, parents: tuple[str, ...]) -> None:
        if tuple(descent.parts) != parents or not parents:
            descent.go_to(parents)
            descent.make_writable()

    def _seal_root(self, node: Node) -> None:
        set_opaque(os.fspath(self._root), is_opaque=node.is_opaque)
        os.chmod(self._root, node.mode)

    def _make(self, fd: int, operation: Creation) -> None:
        if operation.has_other:
            remove(operation.node.name, fd)
        try:
            self._files.create(fd, operation.node)
        except FileExistsError:  # what is never recorded: a socket
            remove(operation.node.name, fd)
            self._files.create(fd, operation.node)

    def _write(self, dir_fd: int, operation: Rewrite) -> None:
        node = operation.node
        if operation.has_same_bytes:
            self._set_mode(dir_fd, node)
        elif not self._write_in_place(dir_fd, node):
            temporary = f".paddock-{secrets.token_hex(8)}"
            try:
                self._files.create_file(dir_fd, node, temporary)
                os.rename(temporary, node.name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
            except BaseException:
                remove(temporary, dir_fd)
                raise

    def _write_in_place(self, dir_fd: int, node: Node) -> bool:
        """Write a file where it is. Returns False where it must be replaced: it has other names, or
        cannot be opened."""
        try:
            fd = os.open(node.name, _IN_PLACE, dir_fd=dir_fd)
        except OSError as error:
            if error.errno in _NOT_IN_PLACE:
                return False
            raise
        try:
            st = os.fstat(fd)
            if not stat.S_ISREG(st.st_mode) or st.st_nlink != 1:
                return False
            self._files.fill(fd, node)
            os.fchmod(fd, node.mode)
            return True
        finally:
            os.close(fd)

    def _set_mode(self, dir_fd: int, node: Node) -> None:
        if node.kind is NodeKind.FIFO:
            fd = os.open(node.name, FILE_FLAGS, dir_fd=dir_fd)
        else:
            opened = open_file(node.name, dir_fd, lift=True)
            if opened is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            fd = opened
        try:
            os.fchmod(fd, node.mode)
        finally:
            os.close(fd)


def _shown(operation: Operation) -> str:
    root = (operation.root,) if operation.root else ()
    return shown("/".join((*root, *operation.path)) or "its top")


def _summary(operations: list[Operation]) -> Restored:
    def paths_of(kind: type[Operation]) -> tuple[str, ...]:
        return tuple(
            _shown(operation)
            for operation in operations
            if isinstance(operation, kind)
            and (not isinstance(operation, DirectoryMode) or operation.is_other)
        )

    return Restored(
        paths_of(Rewrite), paths_of(Creation), paths_of(Removal), paths_of(DirectoryMode)
    )
