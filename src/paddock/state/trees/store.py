"""The states of all runs' files: one store of trees, which is recorded to, restored from and swept.

How a state comes into the store lives in `recorder`, how it comes out in `restore`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.model.errors import Conflict
from paddock.objects.store import Framing, ObjectStore
from paddock.objects.store_lock import StoreLock
from paddock.state.trees.comparison import TreeChange, changes_between
from paddock.state.trees.reader import TreeReader

if TYPE_CHECKING:
    from paddock.state.changes.target_directory import Owner
    from paddock.state.trees.held_files import HeldFiles, MappedFiles
    from paddock.state.trees.recorder import Recorder
    from paddock.state.trees.restore import Restored

# A run whose journal is being closed does not hold the lock any more, and may not be listed yet.
_GRACE_S = 3600.0


class TreeStore(TreeReader):
    """The store below one directory, which is made when missing."""

    def __init__(self, root: Path) -> None:
        directory = root / "objects"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(ObjectStore(directory, framing=Framing.MARKED, staging=root / "tmp"))
        self._lock = StoreLock(root / "lock")

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the store from being swept, for as long as a run records or a tree is read."""
        with self._lock.shared():
            yield

    def recorder(
        self,
        roots: Mapping[str, Path],
        *,
        mapped: Callable[[], MappedFiles] | None = None,
        may_store: Callable[[int], bool] | None = None,
    ) -> Recorder:
        """Return a recorder of directories into this store; each root has a name, such as `home`.
        `mapped` gives the files that processes have mapped shared; `may_store` says whether so many
        bytes more fit into what may be stored."""
        from paddock.state.trees.recorder import Recorder

        return Recorder(self.objects, roots, mapped=mapped, may_store=may_store)

    def diff(self, before: str, after: str) -> list[TreeChange]:
        """Return what is different in the second state. Equal directories are not even read."""
        return changes_between(self, before, after)

    def restore(
        self,
        tree: str,
        roots: Mapping[str, Path],
        *,
        owner: Owner | None = None,
        recorder: Recorder | None = None,
        keep: frozenset[str] = frozenset(),
        held: HeldFiles | None = None,
        first: str | None = None,
    ) -> Restored:
        """Make the roots that state; change only what differs and is not held by a process. See
        `restore` and `held_files`."""
        from paddock.state.trees.held_files import NOTHING_HELD
        from paddock.state.trees.restore import restore

        return restore(
            self,
            tree,
            roots,
            owner=owner,
            recorder=recorder,
            keep=keep,
            held=held or NOTHING_HELD,
            first=first,
        )

    def gc(self, used: Iterable[str], *, older_than_s: float = _GRACE_S) -> int:
        """Remove all that none of these trees needs; return the bytes. The trees are asked for when
        nobody else uses the store. Raises Conflict when somebody does."""
        with self._lock.exclusive_if_free() as is_free:
            if not is_free:
                raise Conflict("the store of trees is in use", hint="try again when no run is left")
            return self.objects.sweep(self.needed(used), older_than_s=older_than_s)

    def unused_bytes(self, used: Iterable[str], *, older_than_s: float = _GRACE_S) -> int:
        """Return what `gc` would free if nobody used the store; others may use it meanwhile."""
        with self._lock.shared():
            unused = self.objects.unused(self.needed(used), older_than_s=older_than_s)
            return sum(size for _, size in unused)
