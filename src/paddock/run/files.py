"""The writable files of a run at its steps: recorded from its sandbox, put back into one, and found
again in its journal. How trees are stored lives in `state.trees`.

A tree's roots are named as the agent sees them: `/home/user` and the targets of overlay mounts; the
layer over a template's own files, which lies at `/`, has the empty name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.fence.container.agreed import LAYER_OWNER
from paddock.fence.container.open_files import held_files, shared_maps
from paddock.journal.reader import Covered, Reader, Spot
from paddock.journal.records import Record
from paddock.model.errors import Conflict, NotFound
from paddock.model.spec import HOME, MountMode
from paddock.model.values import dataclass
from paddock.run.refreshing import refresh_overlays
from paddock.state.home import Home
from paddock.state.privilege import is_privileged
from paddock.state.trees.store import TreeStore

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.state.trees.recorder import Recorder
    from paddock.state.trees.restoring import Restored

_FILES, _UNRECORDED = b'"what":"files"', b'"what":"files not recorded"'


def home_of(directory: Path) -> Home:
    """The home that a run lies in: its trees are there. One that was copied elsewhere is looked up
    in the user's own."""
    place = Path(os.path.realpath(directory)).parent.parent
    return Home(place) if (place / "trees").is_dir() else Home.find()


def store_of(home: Home) -> TreeStore:
    return TreeStore(home.trees)


def roots_of(box: Box) -> dict[str, Path]:
    """Where the writable files of a sandbox lie, by the path at which the agent sees them. What is
    in /tmp is not recorded, and what a `write` mount has is not the sandbox's own."""
    layer = box.layers.path(box.machine.layer)
    roots = {HOME: layer / "home"}
    if (layer / "overlays/root/upper").is_dir():
        roots[""] = layer / "overlays/root/upper"
    for number, mount in enumerate(box.spec.mounts):
        if mount.mode is MountMode.OVERLAY:
            roots[mount.target] = layer / f"overlays/{number}/upper"
    return roots


def recorder_of(box: Box, may_store: Callable[[int], bool] | None = None) -> Recorder:
    """A recorder of a sandbox's files. Until the sandbox ends nothing is swept from the store.
    `may_store` is asked before earlier versions of files are stored; the last one always is."""
    store = store_of(box.engine.home)
    held = contextlib.ExitStack()
    held.enter_context(store.in_use())
    box.machine.on_end.append(lambda reason: held.close())
    mapped = partial(shared_maps, box.machine.init_pid)
    return store.recorder(roots_of(box), mapped=mapped, may_store=may_store)


def restore_into(
    box: Box,
    tree: str,
    recorder: Recorder | None = None,
    *,
    is_fresh: bool = False,
    first: str | None = None,
) -> Restored:
    """Makes the files of a sandbox that stands still that tree, but for those that its processes
    hold open. `recorder` is the one that has recorded this sandbox so far, if there is one: it
    spares reading everything again. `is_fresh`: nothing has run in it yet, so nothing in it has
    looked at a file. `first` is the tree that its processes began with."""
    if not box.machine.is_frozen:
        raise Conflict(f"sandbox {box.sandbox_id} is running", hint="restore while it stands still")
    roots = roots_of(box)
    restored = store_of(box.engine.home).restore(
        tree,
        roots,
        owner=LAYER_OWNER if is_privileged() else None,
        recorder=recorder,
        keep=frozenset(mount.target for mount in box.spec.mounts),
        held=None if is_fresh else held_files(box.machine.init_pid),
        first=first,
    )
    # A file that was written in place shows at once; names that came or went do not.
    stale = (*restored.made, *restored.removed, *restored.sealed)
    overlays = [root or "/" for root in roots if root != HOME and _has_some(root, stale)]
    if overlays and not is_fresh:
        refresh_overlays(box.machine.init_pid, overlays)
    return restored


def _has_some(root: str, paths: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for path in paths)


@dataclass(frozen=True, slots=True)
class _FilesNote:
    """What a journal notes about the files before a step, or at the end without one. Without a tree
    they were not recorded, and there is an error."""

    step: int | None
    tree: str | None
    error: str = ""


def trees_of(directory: Path, covered: Covered | None = None) -> list[tuple[int | None, str]]:
    """The trees that a journal notes, in its order: the step before which it was so, None for the
    state at the end. With `covered` only those of records that are signed."""
    notes = _notes_of(directory, covered)
    return [(note.step, note.tree) for note in notes if note.tree is not None]


def tree_at(directory: Path, step: int | None = None, covered: Covered | None = None) -> str:
    """The tree as it was when a step was proposed; without a step, the last one that there is.
    NotFound when the journal has none so early, or when that state was not recorded."""
    notes = _notes_of(directory, covered)
    if not notes:
        raise NotFound("no files were recorded in this run", hint="paddock run records them")
    if step is None:
        note = notes[-1]
    else:
        last = max(Reader(directory, covered).step_numbers(), default=0)
        if step > last:
            raise NotFound(f"run {directory.name} has no step {step}", hint=f"its last is {last}")
        # Of actions in flight together a later one may have been noted first.
        earlier = [note for note in notes if note.step is not None and note.step <= step]
        if not earlier:
            raise NotFound(f"no files were recorded at step {step} or before")
        note = max(reversed(earlier), key=lambda note: note.step or 0)
    if note.tree is None:
        state = "at the end of this run" if note.step is None else f"at step {note.step}"
        raise NotFound(
            f"the files {state} were not recorded: {note.error}",
            hint="--step K shows those of an earlier step",
        )
    return note.tree


def _notes_of(directory: Path, covered: Covered | None) -> list[_FilesNote]:
    reader = Reader(directory, covered)
    found = []
    for _, line, (_, _, kind) in reader.scan(Spot(1, 0)):
        # Most lines are not parsed: a journal may be long, and its notes are few.
        if kind == b"noted" and (_FILES in line or _UNRECORDED in line):
            note = _files_note(Record.parse(line))
            if note is not None:
                found.append(note)
    return found


def _files_note(record: Record) -> _FilesNote | None:
    body = record.body
    if body.get("what") == "files not recorded":
        return _FilesNote(record.step, None, str(body.get("error"))[:200])
    if body.get("what") != "files" or not isinstance(body.get("tree"), str):
        return None
    return _FilesNote(record.step, body["tree"])
