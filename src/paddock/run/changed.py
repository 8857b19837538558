"""What a recorded run changed, long after its sandbox is gone: its files at a step against the
sources that were mounted, and which of those have moved on since. Writes nothing outside scratch.

The layer of each overlay is laid out again in a scratch directory, so that what compares a living
sandbox with its sources, and what writes changes back, does the same work here.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from paddock.doors.terms import governing_file
from paddock.fence.container.kernel import open_without_links
from paddock.journal.reader import Covered, Reader, Spot
from paddock.journal.records import Record
from paddock.model.errors import InvalidInput
from paddock.model.results import FileType
from paddock.model.spec import HOME
from paddock.model.values import dataclass
from paddock.policy.problems import PolicyError
from paddock.run.files import home_of, store_of, tree_at, trees_of
from paddock.run.order import policy_in
from paddock.state.change import Change
from paddock.state.descent import Descent
from paddock.state.hiding import split_hidden
from paddock.state.home import Home
from paddock.state.obeyed import Governing
from paddock.state.overlay import overlay_changes
from paddock.state.trees.diffing import changes_between
from paddock.state.trees.nodes import Node, NodeKind, Tree
from paddock.state.trees.restoring import Restored, lay_out
from paddock.state.trees.store import TreeStore
from paddock.state.treewalk import remove, status, walk

_SETTING = b'"what":"setting"'
# Where a setting can be: it is the first note, and heads may stand before it.
_EARLY_RECORDS = 64
_TYPES = {NodeKind.FILE: FileType.FILE, NodeKind.DIR: FileType.DIR,
          NodeKind.SYMLINK: FileType.SYMLINK}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A root of the files: where the agent saw it, the source that was mounted there (None for the
    workspace), and where its files of that step are laid out now."""

    target: str
    files: Path
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """One changed path as the agent saw it. `conflict`: why the source is not what the agent saw;
    `refusal`: why it can never be written back."""

    path: str
    change: Change
    place: Place
    conflict: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class RunChanges:
    """The changes of one run at one step, and what is to be said about them."""

    run: str
    tree: str
    cwd: str
    changed: tuple[Changed, ...]
    remarks: tuple[str, ...] = field(default=())
    governing: Governing | None = None  # the paddock file that the agent ran under

    @property
    def project(self) -> Place | None:
        """The place that the agent ran in, or the only one that has a source; None if nothing is
        changed there."""
        places = list(dict.fromkeys(one.place for one in self.changed if one.place.source))
        for place in places:
            if f"{self.cwd}/".startswith(f"{place.target}/"):
                return place
        return places[0] if len(places) == 1 else None


def setting_in(directory: Path, covered: Covered | None = None) -> dict[str, Any]:
    """What the run began with; empty for a sandbox that was no run."""
    reader = Reader(directory, covered)
    for number, (_, line, _) in enumerate(reader.scan(Spot(1, 0))):
        if _SETTING in line:
            body = reader.body(Record.parse(line))
            if body.get("what") == "setting":
                return body
        if number >= _EARLY_RECORDS:
            break
    return {}


@contextlib.contextmanager
def changes_of_run(
    directory: Path, step: int | None = None, covered: Covered | None = None
) -> Iterator[RunChanges]:
    """The changes; their files are laid out for as long as this lasts. The journal names the
    sources: whoever writes to these gives `covered`, so that only signed records count."""
    home = home_of(directory)
    store, tree = store_of(home), tree_at(directory, step, covered)
    scratch = Path(tempfile.mkdtemp(prefix="changes-", dir=scratch_home(home)))
    try:
        with store.in_use():
            yield _Comparison(Reader(directory, covered), store, tree, scratch).run()
    finally:
        fd = os.open(scratch.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove(scratch.name, fd)
        finally:
            os.close(fd)


class _Comparison:
    def __init__(self, reader: Reader, store: TreeStore, tree: str, scratch: Path) -> None:
        self._directory, self._covered = reader.directory, reader.covered
        self._store = store
        self._tree = tree
        self._scratch = scratch
        self._opened = reader.opened()
        self._setting = setting_in(reader.directory, reader.covered)
        self._remarks: list[str] = []

    def run(self) -> RunChanges:
        wanted = self._store.tree(self._tree)
        roots = {name: self._scratch / str(n) for n, name in enumerate(wanted.roots)}
        for place in roots.values():
            place.mkdir()
        self._remark(wanted, lay_out(self._store, self._tree, roots))
        found: list[Changed] = []
        for name, files in roots.items():
            if name == HOME:
                found += self._of_workspace(files)
            elif name:
                found += self._of_overlay(name, files)
        body = self._opened.body
        cwd = str(body.get("cwd") or self._setting.get("cwd") or HOME)
        return RunChanges(
            str(body.get("run")),
            self._tree,
            cwd,
            tuple(found),
            tuple(self._remarks),
            self._governing(),
        )

    def _governing(self) -> Governing | None:
        words = self._setting.get("policy")
        if not isinstance(words, dict) or not words.get("text"):
            return None
        try:
            return governing_file(policy_in(words))
        except PolicyError:  # of a version that said things otherwise
            return Governing(words.get("file"), words.get("base"), None)

    def _remark(self, wanted: Tree, laid_out: Restored) -> None:
        for path in laid_out.lost:
            self._remarks.append(f"{path}: this version was not stored")
        if wanted.is_cut:
            self._remarks.append("there were more files than are recorded")

    def _of_overlay(self, target: str, files: Path) -> Iterator[Changed]:
        source = self._source_of(target)
        if source is None:
            self._remarks.append(f"the journal does not say what was mounted at {target}")
            return
        try:
            fd = open_source_directory(source)
        except OSError as error:
            self._remarks.append(f"{source} cannot be compared with any more: {error.strerror}")
            return
        place = Place(target, files, source)
        try:
            changes = overlay_changes(files, fd)
            _, refused = split_hidden(changes, self._hidden_in(target))
            refusals = {one.path: one.why for one in refused}
            for change in changes:
                conflict = moved_since(fd, change, self._opened.at * 1000)
                path = f"{target}/{change.path}"
                yield Changed(path, change, place, conflict, refusals.get(change.path))
        finally:
            os.close(fd)

    def _of_workspace(self, files: Path) -> Iterator[Changed]:
        """Against the first state that was recorded: the agent had done nothing then."""
        place = Place(HOME, files)
        mounted = {str(one.get("target")) for one in self._mounts()}
        first = trees_of(self._directory, self._covered)[0][1]
        for one in changes_between(self._store, first, self._tree):
            path = one.path.removeprefix(f"{HOME}/")
            if path == one.path or one.path in mounted:
                continue
            node = one.after if one.kind != "deleted" else one.before
            assert node is not None
            yield Changed(one.path, Change(path, one.kind, _type(node), node.size), place)

    def _mounts(self) -> list[dict[str, Any]]:
        mounts = self._setting.get("mounts")
        return [one for one in mounts if isinstance(one, dict)] if isinstance(mounts, list) else []

    def _source_of(self, target: str) -> str | None:
        for one in self._mounts():
            if one.get("target") == target and one.get("mode") == "overlay":
                return str(one["source"]) if one.get("source") else None
        return None

    def _hidden_in(self, target: str) -> list[str]:
        hidden = [str(one) for one in self._setting.get("hidden") or ()]
        return [one.removeprefix(f"{target}/") for one in hidden if one.startswith(f"{target}/")]


def open_source_directory(source: str) -> int:
    """A source by its real path: a link that somebody put in its place is not followed."""
    if not os.path.isabs(source):
        raise InvalidInput(f"the journal names a source that is no absolute path: {source[:200]!r}")
    return open_without_links(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def moved_since(source: int, change: Change, began_ns: int) -> str | None:
    """Why the source's own file is not what the agent saw; the kernel keeps its time of change."""
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
    """On the disk of the home: a memory file system may not keep the marks of layers."""
    place = home.cache / "changes"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return place
