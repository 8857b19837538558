"""What a recorded run changed, long after its sandbox is gone: its files at a step against the
sources that were mounted, and which of those have moved on since. Writes nothing outside scratch.

The layer of each overlay is laid out again in a scratch directory, so that what compares a living
sandbox with its sources, and what writes changes back, does the same work here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from paddock.doors.terms import governing_file
from paddock.fence.syscalls import open_without_links
from paddock.journal.log import Covered, RunLog
from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.events import Configured, MountRecorded
from paddock.model.results import FileType
from paddock.model.spec import HOME, MountMode
from paddock.policy.problems import PolicyError
from paddock.run.files import home_of, store_of, tree_at, trees_of
from paddock.run.order import load_policy
from paddock.run.report import FilesChanged, RunReport, report_of
from paddock.run.surroundings.host import names_in
from paddock.state.changes.change import FileChange
from paddock.state.changes.overlay import overlay_changes
from paddock.state.files.descent import Descent
from paddock.state.files.tree_walk import remove, status, walk
from paddock.state.home import Home
from paddock.state.layers.hidden_files import split_hidden
from paddock.state.tool_config import Governing
from paddock.state.trees.comparison import TreeChange, changes_between
from paddock.state.trees.nodes import Node, NodeKind, StoredTree
from paddock.state.trees.restore import Restored, lay_out
from paddock.state.trees.store import TreeStore

# Where the configuration can be: right after the opening, but for heads.
_EARLY_RECORDS = 64
_MAX_COVERED = 10_000
_MAX_COMPARED = 64 << 20  # of a larger file it is not found out whether it is only a copy
_TYPES = {NodeKind.FILE: FileType.FILE, NodeKind.DIR: FileType.DIR,
          NodeKind.SYMLINK: FileType.SYMLINK}  # fmt: skip


class ChangedRoot(msgspec.Struct, frozen=True):
    """A root of the files: where the agent saw it, the source that was mounted there (None for the
    workspace), and where its files of that step are laid out now."""

    target: str
    files: Path
    source: str | None = None


class ChangedPath(msgspec.Struct, frozen=True):
    """One changed path as the agent saw it. `conflict`: why the source is not what the agent saw;
    `refusal`: why it can never be written back."""

    path: str
    change: FileChange
    place: ChangedRoot
    conflict: str | None = None
    refusal: str | None = None


class RunChanges(msgspec.Struct, frozen=True):
    """The changes of one run at one step, and what is to be said about them."""

    run: str
    tree: str
    cwd: str
    changed: tuple[ChangedPath, ...]
    remarks: tuple[str, ...] = ()
    governing: Governing | None = None  # the paddock file that the agent ran under

    @property
    def project(self) -> ChangedRoot | None:
        """The place that the agent ran in, or the only one that has a source; None if nothing is
        changed there."""
        places = list(
            dict.fromkeys(changed.place for changed in self.changed if changed.place.source)
        )
        for place in places:
            if f"{self.cwd}/".startswith(f"{place.target}/"):
                return place
        return places[0] if len(places) == 1 else None


def configuration_of(directory: Path, covered: Covered | None = None) -> Configured:
    """Return the conditions under which the agent of a run started; empty for a sandbox that was no
    run."""
    log = RunLog(directory, covered)
    for record in islice(log.events(), _EARLY_RECORDS):
        if isinstance(record.event, Configured):
            configured = log.whole(record).event
            return configured if isinstance(configured, Configured) else Configured()
    return Configured()


@contextlib.contextmanager
def changes_of_run(
    directory: Path, step: int | None = None, covered: Covered | None = None
) -> Iterator[RunChanges]:
    """Lay out the changed files of a run for as long as the context lasts, and yield the changes.
    The journal names the sources: a caller that writes to them passes `covered`, so that only
    signed records count."""
    home = home_of(directory)
    store, tree = store_of(home), tree_at(directory, step, covered)
    scratch = Path(tempfile.mkdtemp(prefix="changes-", dir=scratch_home(home)))
    try:
        with store.in_use():
            yield _Comparison(RunLog(directory, covered), store, tree, scratch).run()
    finally:
        fd = os.open(scratch.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove(scratch.name, fd)
        finally:
            os.close(fd)


class _Comparison:
    def __init__(self, log: RunLog, store: TreeStore, tree: str, scratch: Path) -> None:
        self._log = log
        self._store = store
        self._tree = tree
        self._scratch = scratch
        self._began_ns = log.opening.at * 1000
        self._configured = configuration_of(log.directory, log.covered)
        self._remarks: list[str] = []

    def run(self) -> RunChanges:
        tree = self._store.tree(self._tree)
        roots = {name: self._scratch / str(n) for n, name in enumerate(tree.roots)}
        for place in roots.values():
            place.mkdir()
        self._remark(tree, lay_out(self._store, self._tree, roots))
        changed: list[ChangedPath] = []
        for name, files in roots.items():
            if name == HOME:
                changed += self._of_workspace(files)
            elif name:
                changed += self._of_overlay(name, files)
        opened = self._log.opened
        return RunChanges(
            opened.run,
            self._tree,
            opened.cwd or self._configured.cwd or HOME,
            tuple(changed),
            tuple(self._remarks),
            self._governing(),
        )

    def _governing(self) -> Governing | None:
        policy = self._configured.policy
        if not policy.text:
            return None
        try:
            return governing_file(load_policy(policy))
        except PolicyError:  # of a version that said things otherwise
            return Governing(policy.file, policy.base, None)

    def _remark(self, tree: StoredTree, laid_out: Restored) -> None:
        for path in laid_out.lost:
            self._remarks.append(f"{path}: this version was not stored")
        if tree.is_cut:
            self._remarks.append("there were more files than are recorded")

    def _of_overlay(self, target: str, files: Path) -> Iterator[ChangedPath]:
        source = self._source_of(target)
        if source is None:
            self._remarks.append(f"the journal does not say what was mounted at {target}")
            return
        try:
            fd = open_source_directory(source)
        except OSError as error:
            self._remarks.append(f"{source} cannot be compared with any more: {error.strerror}")
            return
        place = ChangedRoot(target, files, source)
        try:
            changes = overlay_changes(files, fd)
            _, refused = split_hidden(changes, self._hidden_in(target))
            refusals = {refusal.path: refusal.why for refusal in refused}
            for change in changes:
                conflict = moved_since(fd, change, self._began_ns)
                path = f"{target}/{change.path}"
                yield ChangedPath(path, change, place, conflict, refusals.get(change.path))
        finally:
            os.close(fd)

    def _of_workspace(self, files: Path) -> Iterator[ChangedPath]:
        """Compare with the first recorded state, in which the agent had done nothing yet."""
        place = ChangedRoot(HOME, files)
        mounted = {mount.target for mount in self._configured.mounts}
        first = trees_of(self._log.directory, self._log.covered)[0][1]
        for change in changes_between(self._store, first, self._tree):
            path = change.path.removeprefix(f"{HOME}/")
            if path == change.path or change.path in mounted:
                continue
            node = change.after if change.kind != "deleted" else change.before
            assert node is not None
            yield ChangedPath(
                change.path, FileChange(path, change.kind, _type(node), node.size), place
            )

    def _source_of(self, target: str) -> str | None:
        for mount in self._configured.mounts:
            if mount.target == target and mount.mode == MountMode.OVERLAY.value:
                return mount.source or None
        return None

    def _hidden_in(self, target: str) -> list[str]:
        hidden = self._configured.hidden
        return [path.removeprefix(f"{target}/") for path in hidden if path.startswith(f"{target}/")]


def open_source_directory(source: str) -> int:
    """Open a source by its real path: a link that somebody put in its place is not followed."""
    if not os.path.isabs(source):
        raise InvalidInput(f"the journal names a source that is no absolute path: {source[:200]!r}")
    return open_without_links(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def moved_since(source: int, change: FileChange, began_ns: int) -> str | None:
    """Return why the source's own file is not what the agent saw, judged by its change time in the
    kernel; None if it is."""
    *parents, name = change.path.split("/")
    with Descent(source) as descent:
        try:
            descent.go_to(parents)
        except OSError:
            return None  # there is nothing in the source yet
        st = status(name, descent.fd)
        if st is None:
            return None
        if not stat.S_ISDIR(st.st_mode):
            return "the source's own was changed since" if st.st_ctime_ns > began_ns else None
        if change.kind != "deleted" and change.type is FileType.DIR:
            return None  # only its mode would be set
        return _moved_below(descent, name, began_ns)


def _moved_below(descent: Descent, name: str, began_ns: int) -> str | None:
    descent.enter(name)
    with Descent(descent.fd) as inner:
        latest = max((st.st_ctime_ns for _, st in walk(inner)), default=0)
    return "something in the source's own was changed since" if latest > began_ns else None


def _type(node: Node) -> FileType:
    return _TYPES.get(node.kind, FileType.OTHER)


def scratch_home(home: Home) -> Path:
    """Return the scratch directory, on the disk of the home: a memory file system may not support
    the extended attributes of layers."""
    place = home.cache / "changes"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return place


def files_touched(directory: Path, mounts: Sequence[MountRecorded]) -> FilesChanged | None:
    """Return which files a run touched, by name: the first tree of its journal against the last.
    None where no files were recorded, or their trees are gone. It is quick, so that it can be said
    at the end of every run; it does not look at what is in the files."""
    try:
        first, last = trees_of(directory)[0][1], tree_at(directory)
        store = store_of(home_of(directory))
        changes = store.diff(first, last)
        touched = list(_touched(store, changes, mounts))
        unstored = sum(change.after is not None and not change.after.is_kept for change in changes)
        is_cut = store.tree(last).is_cut
    except (PaddockError, OSError, IndexError):
        return None
    names: dict[str, list[str]] = {"added": [], "modified": [], "deleted": []}
    for kind, path in touched:
        names[kind].append(path)
    return FilesChanged(
        last,
        len(touched),
        unstored,
        is_cut,
        added=tuple(names["added"]),
        modified=tuple(names["modified"]),
        deleted=tuple(names["deleted"]),
    )


def report_with_files(directory: Path) -> RunReport:
    """Return the report of a run with the names of its files, counted as at its end."""
    mounts = configuration_of(directory).mounts
    report = report_of(directory)
    return replace(report, files=files_touched(directory, mounts) or report.files)


def _touched(
    store: TreeStore, changes: Iterable[TreeChange], mounts: Sequence[MountRecorded]
) -> Iterator[tuple[str, str]]:
    """Yield the changed files. Directories are not counted, except that a deleted one is one
    deletion."""
    for change in changes:
        after, source = change.after, _source(change.path, mounts)
        if after is not None and after.kind is NodeKind.DIR:
            if after.is_opaque and not getattr(change.before, "is_opaque", False):
                gone = islice(_covered(store, after, source), _MAX_COVERED)
                yield from (("deleted", f"{change.path}/{path}") for path in gone)
        elif (kind := _kind(change, source)) is not None:
            yield kind, change.path


def _covered(store: TreeStore, node: Node, source: str) -> Iterator[str]:
    """Yield what was in a directory of the source that another one has taken the place of."""
    pending = [("", node)]
    while pending:
        below, node = pending.pop()
        there = {child.name: child for child in store.nodes(node)}
        for name in names_in(os.path.join(source, below)):
            child, path = there.get(name), f"{below}{name}"
            if child is None or child.kind is NodeKind.WHITEOUT:
                yield path
            elif child.kind is NodeKind.DIR:
                pending.append((f"{path}/", child))


def _kind(change: TreeChange, source: str) -> str | None:
    """Return what a change did to the source: what covers a file modifies or deletes that, and a
    copy of it changes nothing."""
    before, after = change.before, change.after
    if after is None or after.kind is NodeKind.WHITEOUT:
        is_directory = getattr(before, "kind", None) is NodeKind.DIR
        return None if is_directory and after is None else "deleted"
    if before is None and not os.path.lexists(source):
        return "added"
    return None if before is None and _is_copy(after, source) else "modified"


def _is_copy(node: Node, source: str) -> bool:
    """Return whether the file equals its source: it was opened for writing and nothing was
    written."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(fd, "rb") as file:
        st = os.fstat(fd)
        is_like = stat.S_ISREG(st.st_mode) and node.kind is NodeKind.FILE
        is_like = is_like and (st.st_size, st.st_mode & 0o777) == (node.size, node.mode & 0o777)
        if not is_like or st.st_size > _MAX_COMPARED:
            return False
        return hashlib.file_digest(file, "sha256").hexdigest() == node.digest


def _source(path: str, mounts: Sequence[MountRecorded]) -> str:
    for mount in mounts:
        if path == mount.target or path.startswith(f"{mount.target}/"):
            return f"{mount.source}{path[len(mount.target) :]}"
    return "/nowhere"
