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
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import msgspec
from msgspec.structs import replace

from paddock.model.errors import Conflict, HostCannot
from paddock.model.space import is_out_of_space
from paddock.objects.file_bytes import digest_of
from paddock.state.changes.target_directory import Owner
from paddock.state.disk_space import full_disk
from paddock.state.files.descent import FILE_FLAGS, Descent, open_file, shown
from paddock.state.files.tree_walk import remove
from paddock.state.trees.held_files import (
    NOTHING_HELD,
    HeldFiles,
    HeldFilter,
    NotWrittenByAgent,
    full_path,
    is_unwritten,
)
from paddock.state.trees.known_states import node_at
from paddock.state.trees.large_files import SPLIT_ABOVE
from paddock.state.trees.node_files import NodeFiles, set_opaque
from paddock.state.trees.nodes import Node, NodeKind, Tree
from paddock.state.trees.plan import (
    Deed,
    Making,
    Removal,
    Sealing,
    Writing,
    deed_parts,
    plan,
)
from paddock.state.trees.recorder import Recorder
from paddock.state.trees.scan import find_seen

if TYPE_CHECKING:
    from paddock.state.trees.store import TreeStore

_IN_PLACE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# It cannot be written where it is: its mode denies it, it runs, or it is no file any more.
_NOT_IN_PLACE = frozenset({errno.EACCES, errno.ETXTBSY, errno.ELOOP, errno.ENXIO, errno.ENOENT})
_NAMED = 5


class Restored(msgspec.Struct, frozen=True):
    """What was changed, by path; each begins with the name of its root. `written`: files that got
    other bytes or another mode where they are; `made` and `removed`: names that came and went;
    `sealed`: directories that got another mode or mark. `kept`: what stays other than it was
    recorded, because processes hold it or may still be at work on it."""

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
        named = ", ".join(shown(full_path(*one)) for one in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        super().__init__(
            f"the version that is needed of {named}{more} was not stored: it did not fit into the"
            " run's record budget",
            hint="choose another step, or record with a larger `record: {budget: ...}`",
        )
        self.paths = tuple(paths)


def lay_out(store: TreeStore, tree: str, roots: Mapping[str, Path]) -> Restored:
    """Fills new directories with what there is of a state, to look at it."""
    recorder = Recorder(None, roots)
    recorder.record()
    deeds = _deeds(store, store.tree(tree), recorder, frozenset())
    lost = [
        _path(name, one) for name, some in deeds.items() for one in some if _is_lost(store, one)
    ]
    for name, some in deeds.items():
        kept = [one for one in some if not _is_lost(store, one)]
        _Restorer(store, recorder.roots[name], None).run(kept)
    return replace(_told(deeds), lost=tuple(lost))


def restore(
    store: TreeStore,
    tree: str,
    roots: Mapping[str, Path],
    *,
    owner: Owner | None,
    recorder: Recorder | None,
    keep: frozenset[str],
    held: HeldFiles = NOTHING_HELD,
    first: str | None = None,
) -> Restored:
    """`recorder` is one that knows the roots already: what it has seen is not read again. `keep`
    are paths that stay whatever the state says, such as mount points. `held` is what processes
    have open; `first` is the state that they began with.

    Refused before anything is changed (`HostCannot`): a state that is not whole, one that needs
    bytes that were not stored, and one that needs bytes in an open file that its process did not
    write (`NotWrittenByAgent`). `Conflict` when somebody else wrote meanwhile.
    """
    recorder = recorder or Recorder(None, roots)
    now = recorder.record().tree
    if now == tree:
        return Restored()
    wanted = store.tree(tree)
    every = _deeds(store, wanted, recorder, keep)
    chooser = HeldFilter(held, recorder.seen)
    deeds, kept = chooser.divide(every)
    _check_possible(store, wanted, recorder, deeds)
    _check_own_work(store, first, recorder, every, frozenset(filter(chooser.is_held, kept)))
    for name, some in deeds.items():
        _Restorer(store, recorder.roots[name], owner).run(some)
    if recorder.record().tree != tree:
        again = HeldFilter(held, recorder.seen).divide(_deeds(store, wanted, recorder, keep))[0]
        left = [one for some in again.values() for one in some]
        if left:
            raise Conflict(
                f"the files were changed while they were restored: {_path('', left[0])}",
                hint="the sandbox must stand still",
            )
    return replace(_told(deeds), kept=tuple(map(shown, kept)))


def _check_own_work(
    store: TreeStore,
    first: str | None,
    recorder: Recorder,
    deeds: Mapping[str, list[Deed]],
    held: frozenset[str],
) -> None:
    """A held file that is left alone must be the agent's own work."""
    if first is None or not held:
        return
    for root, some in deeds.items():
        for deed in some:
            parts = deed_parts(deed)
            path = full_path(root, parts)
            if path not in held or isinstance(deed, Sealing):
                continue
            seen = find_seen(recorder.seen, path)
            now = None if seen is None else seen.node
            if is_unwritten(deed, now, node_at(store, first, root, parts)):
                raise NotWrittenByAgent(root, parts, now)


def _deeds(
    store: TreeStore, wanted: Tree, recorder: Recorder, keep: frozenset[str]
) -> dict[str, list[Deed]]:
    found = {}
    for name, node in wanted.roots.items():
        prefix = f"{name}/"
        own = (one.removeprefix(prefix).split("/") for one in keep if one.startswith(prefix))
        deeds = plan(store, node, recorder.seen.get(name), frozenset(map(tuple, own)))
        found[name] = [one for one in deeds if not _is_same_unsplit(one, recorder.roots[name])]
    return found


def _is_same_unsplit(deed: Deed, root: Path) -> bool:
    """Return whether a large file has the bytes that it should have, by a digest from before such
    files were stored in parts: those had no more than the digest of their bytes."""
    if not isinstance(deed, Writing) or deed.has_same_bytes:
        return False
    node = deed.node
    if node.is_kept or node.is_split or not node.digest or node.size <= SPLIT_ABOVE:
        return False
    with Descent(root, lift=True) as descent:
        descent.go_to(deed.parents)
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
    store: TreeStore, wanted: Tree, recorder: Recorder, deeds: Mapping[str, list[Deed]]
) -> None:
    if wanted.is_cut:
        raise HostCannot("the state is not whole: there were more files than are recorded")
    if wanted.roots.keys() != recorder.roots.keys():
        names = ", ".join(sorted(wanted.roots.keys() ^ recorder.roots.keys()))
        raise HostCannot(f"the state has other roots than the sandbox: {names}")
    lost = [
        (name, deed_parts(one))
        for name, some in deeds.items()
        for one in some
        if _is_lost(store, one)
    ]
    if lost:
        raise NotStored(lost)


def _is_lost(store: TreeStore, deed: Deed) -> bool:
    if isinstance(deed, Making):
        return deed.node.kind is NodeKind.FILE and not store.is_kept(deed.node)
    return isinstance(deed, Writing) and not deed.has_same_bytes and not store.is_kept(deed.node)


class _Restorer:
    def __init__(self, store: TreeStore, root: Path, owner: Owner | None) -> None:
        self._root = root
        self._files = NodeFiles(store.pieces, owner)

    def run(self, deeds: list[Deed]) -> None:
        with Descent(self._root, lift=True) as descent:
            for deed in deeds:
                try:
                    self._do(descent, deed)
                except OSError as error:
                    if is_out_of_space(error):
                        raise full_disk(self._root, error) from None
                    raise HostCannot(
                        f"cannot restore {_path('', deed)}: {error.strerror or error}"
                    ) from None
        # Last, because leaving the root gives it back the mode that it had.
        if deeds and isinstance(deeds[-1], Sealing) and not deeds[-1].path:
            self._seal_root(deeds[-1].node)

    def _do(self, descent: Descent, deed: Deed) -> None:
        match deed:
            case Removal():
                self._go(descent, deed.parents)
                remove(deed.name, descent.fd)
            case Making():
                self._go(descent, deed.parents)
                self._make(descent.fd, deed)
            case Writing():
                self._go(descent, deed.parents)
                self._write(descent.fd, deed)
            case Sealing():
                if deed.path:
                    descent.go_to(deed.path)
                    set_opaque(descent.fd, is_opaque=deed.node.is_opaque)
                    descent.leave(functools.partial(os.fchmod, mode=deed.node.mode))
            case _:
                assert_never(deed)

    def _go(self, descent: Descent, parents: tuple[str, ...]) -> None:
        if tuple(descent.parts) != parents or not parents:
            descent.go_to(parents)
            descent.make_writable()

    def _seal_root(self, node: Node) -> None:
        set_opaque(os.fspath(self._root), is_opaque=node.is_opaque)
        os.chmod(self._root, node.mode)

    def _make(self, fd: int, deed: Making) -> None:
        if deed.has_other:
            remove(deed.node.name, fd)
        try:
            self._files.create(fd, deed.node)
        except FileExistsError:  # what is never recorded: a socket
            remove(deed.node.name, fd)
            self._files.create(fd, deed.node)

    def _write(self, dir_fd: int, deed: Writing) -> None:
        node = deed.node
        if deed.has_same_bytes:
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
        """False where the file must be replaced: it has other names, or cannot be opened."""
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
            found = open_file(node.name, dir_fd, lift=True)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            fd = found
        try:
            os.fchmod(fd, node.mode)
        finally:
            os.close(fd)


def _path(root: str, deed: Deed) -> str:
    parts = deed_parts(deed)
    return shown("/".join((root, *parts) if root else parts) or "its top")


def _told(deeds: Mapping[str, list[Deed]]) -> Restored:
    def of(kind: type[Deed]) -> tuple[str, ...]:
        return tuple(
            _path(name, one)
            for name, some in deeds.items()
            for one in some
            if isinstance(one, kind) and (not isinstance(one, Sealing) or one.is_other)
        )

    return Restored(of(Writing), of(Making), of(Removal), of(Sealing))
