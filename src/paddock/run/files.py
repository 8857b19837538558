"""The writable files of a run at its steps: recorded from its sandbox, put back into one, and found
again in its journal. How trees are stored lives in `state.trees`.

A tree's roots are named as the agent sees them: `/home/user` and the targets of overlay mounts; the
layer over a template's own files, which lies at `/`, has the empty name.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.fence.container.agreed import LAYER_OWNER
from paddock.journal.reader import Reader, Spot
from paddock.journal.records import Record
from paddock.model.errors import Conflict, NotFound
from paddock.model.spec import HOME, MountMode
from paddock.run.refreshing import refresh_overlays
from paddock.state.home import Home
from paddock.state.privilege import is_privileged
from paddock.state.trees.store import TreeStore

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.state.trees.finished import Around
    from paddock.state.trees.recorder import Recorder
    from paddock.state.trees.restoring import Restored

_FILES = b'"what":"files"'


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


def recorder_of(box: Box) -> Recorder:
    """A recorder of a sandbox's files. Until the sandbox ends nothing is swept from the store."""
    store = store_of(box.engine.home)
    held = contextlib.ExitStack()
    held.enter_context(store.in_use())
    box.machine.on_end.append(lambda reason: held.close())
    return store.recorder(roots_of(box))


def restore_into(
    box: Box,
    tree: str,
    recorder: Recorder | None = None,
    *,
    is_fresh: bool = False,
    around: Around | None = None,
) -> Restored:
    """Makes the files of a sandbox that stands still exactly that tree. `recorder` is the one that
    has recorded this sandbox so far, if there is one: it spares reading everything again.
    `is_fresh`: nothing has run in it yet, so nothing in it has looked at a file. `around`: several
    are at work in it, and what they have under way is left to them."""
    if not box.machine.is_frozen:
        raise Conflict(f"sandbox {box.sandbox_id} is running", hint="restore while it stands still")
    roots = roots_of(box)
    restored = store_of(box.engine.home).restore(
        tree,
        roots,
        owner=LAYER_OWNER if is_privileged() else None,
        recorder=recorder,
        keep=frozenset(mount.target for mount in box.spec.mounts),
        around=around,
    )
    # A file that was written in place shows at once; names that came or went do not.
    stale = (*restored.made, *restored.removed, *restored.sealed)
    overlays = [root or "/" for root in roots if root != HOME and _has_some(root, stale)]
    if overlays and not is_fresh:
        refresh_overlays(box.machine.init_pid, overlays)
    return restored


def _has_some(root: str, paths: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for path in paths)


def trees_of(directory: Path) -> list[tuple[int | None, str]]:
    """The trees that a journal notes, in its order: the step before which it was so, None for the
    state at the end."""
    reader = Reader(directory)
    found = []
    for _, line, (_, _, kind) in reader.scan(Spot(1, 0)):
        # Most lines are not parsed: a journal may be long, and its notes are few.
        if kind == b"noted" and _FILES in line:
            noted = _tree_noted(Record.parse(line))
            if noted is not None:
                found.append(noted)
    return found


def tree_at(directory: Path, step: int | None = None) -> str:
    """The tree as it was when a step was proposed; without a step, the last one that there is.
    NotFound when the journal has none so early."""
    found = trees_of(directory)
    if step is None:
        chosen = [tree for _, tree in found]
    else:
        # Of actions in flight together a later one may have been noted first.
        known = [(at, tree) for at, tree in found if at is not None and at <= step]
        chosen = [tree for at, tree in known if at == max(known)[0]]
    if chosen:
        return chosen[-1]
    if found:
        raise NotFound(f"no files were recorded at step {step} or before")
    raise NotFound("no files were recorded in this run", hint="paddock run records them")


def _tree_noted(record: Record) -> tuple[int | None, str] | None:
    body = record.body
    if body.get("what") != "files" or not isinstance(body.get("tree"), str):
        return None
    return record.step, body["tree"]
