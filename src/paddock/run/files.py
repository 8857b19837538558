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

from paddock.fence.offload import offload
from paddock.fence.processes.open_files import held_files, shared_maps
from paddock.fence.uids import LAYER_OWNER
from paddock.journal.log import Covered, RunLog
from paddock.model.errors import Conflict, NotFound
from paddock.model.events import FilesNotRecorded, FilesRecorded, Record
from paddock.model.spec import HOME, MountMode
from paddock.run.overlay_refresh import refresh_overlays
from paddock.state.home import Home
from paddock.state.privilege import is_privileged
from paddock.state.trees.store import TreeStore

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.run.state_recorder import StateRecorder
    from paddock.state.trees.recorder import Recorder
    from paddock.state.trees.restore import Restored

_MAX_ERROR = 200


def home_of(directory: Path) -> Home:
    """Return the home that contains a run and its trees; for a run that was copied elsewhere, the
    user's own home."""
    root = Path(os.path.realpath(directory)).parent.parent
    return Home(root) if (root / "trees").is_dir() else Home.find()


def store_of(home: Home) -> TreeStore:
    return TreeStore(home.trees)


def roots_of(box: Box) -> dict[str, Path]:
    """Return where the writable files of a sandbox are, by the path at which the agent sees them.
    /tmp is not recorded, and a `write` mount is not the sandbox's own."""
    layer = box.layers.path(box.machine.layer)
    roots = {HOME: layer / "home"}
    if (layer / "overlays/root/upper").is_dir():
        roots[""] = layer / "overlays/root/upper"
    for number, mount in enumerate(box.spec.mounts):
        if mount.mode is MountMode.OVERLAY:
            roots[mount.target] = layer / f"overlays/{number}/upper"
    return roots


def recorder_of(box: Box, may_store: Callable[[int], bool] | None = None) -> Recorder:
    """Return a recorder of a sandbox's files. Until the sandbox ends, nothing is removed from the
    store. `may_store` is asked before earlier versions of files are stored; the last one always
    is."""
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
    """Restore a tree in a frozen sandbox, except for files that its processes hold open. `recorder`
    is the one that has recorded this sandbox so far, if there is one: it saves reading everything
    again. `is_fresh` says that nothing has run in it yet, so the kernel has cached no names.
    `first` is the tree that its processes began with."""
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


async def restore_files(
    box: Box,
    tree: str,
    recorder: StateRecorder,
    *,
    is_fresh: bool = False,
    first: str | None = None,
) -> Restored:
    """Hold the sandbox still and make its files that tree. `is_fresh` and `first` are those of
    `restore_into`. Raises HostCannot."""
    from paddock.state.trees.restore import Restored

    present = await recorder.look()
    if present is not None and present.tree == tree:
        return Restored()
    restore = partial(restore_into, box, tree, recorder.files, is_fresh=is_fresh, first=first)
    async with box.still():
        return await offload(restore)


def _has_some(root: str, paths: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for path in paths)


def trees_of(directory: Path, covered: Covered | None = None) -> list[tuple[int | None, str]]:
    """Return the trees that a journal names, in its order, each with the step before which it was
    so; None for the state at the end. With `covered` only those of records that are signed."""
    return [
        (record.step, record.event.tree)
        for record in RunLog(directory, covered).events(FilesRecorded)
        if isinstance(record.event, FilesRecorded)
    ]


def tree_at(directory: Path, step: int | None = None, covered: Covered | None = None) -> str:
    """Return the tree as it was when a step was proposed; without a step, the last one that there
    is. Raises NotFound when the journal has none so early, or when that state was not recorded."""
    log = RunLog(directory, covered)
    records = list(log.events(FilesRecorded, FilesNotRecorded))
    if not records:
        raise NotFound("no files were recorded in this run", hint="paddock run records them")
    record = records[-1] if step is None else _record_before(step, records, log)
    if isinstance(record.event, FilesNotRecorded):
        state = "at the end of this run" if record.step is None else f"at step {record.step}"
        raise NotFound(
            f"the files {state} were not recorded: {record.event.error[:_MAX_ERROR]}",
            hint="--step K shows those of an earlier step",
        )
    assert isinstance(record.event, FilesRecorded)
    return record.event.tree


def _record_before(step: int, records: list[Record], log: RunLog) -> Record:
    """Return what was recorded of the files when the step was proposed."""
    last = max(log.step_numbers(), default=0)
    if step > last:
        raise NotFound(f"run {log.directory.name} has no step {step}", hint=f"its last is {last}")
    # Of actions in flight together a later one may have been recorded first.
    earlier = [record for record in records if record.step is not None and record.step <= step]
    if not earlier:
        raise NotFound(f"no files were recorded at step {step} or before")
    return max(reversed(earlier), key=lambda record: record.step or 0)
