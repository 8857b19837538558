"""The writable layer of a new sandbox: what the host sets aside for it, and what is in it first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.fence.driver import Allocation
from paddock.fence.uids import LAYER_OWNER
from paddock.model.spec import Spec
from paddock.state.home import Home, remove_tree
from paddock.state.layers.layers import Layers
from paddock.state.privilege import is_privileged

if TYPE_CHECKING:
    from paddock.state.snapshots.store import SnapshotStore


def allocate(home: Home, name: str, spec: Spec, base: str | None = None) -> Allocation:
    """Return what the host sets aside for a new sandbox."""
    return Allocation(
        machine_id=name,
        layer=name,
        hostname=name,
        metadata=dict(spec.metadata),
        quotas=_quotas(home, [m.volume for m in spec.mounts if m.volume]),
        base=base,
    )


def _quotas(home: Home, names: list[str]) -> dict[str, int]:
    if not names:
        return {}
    from paddock.doors.machine.volumes import quotas

    return quotas(home, names)


def snapshots_of(home: Home) -> SnapshotStore:
    """Return the snapshots that were saved in this home."""
    from paddock.state.snapshots.store import SnapshotStore  # loaded when the first one is made

    return SnapshotStore(home.snapshots)


def stamps_of(layer: Path) -> dict[str, Any]:
    """Return the stamps of a layer's files, by which a later look tells what has changed."""
    from paddock.state.changes.tree_scan import scan

    return dict(scan(layer / "home"))


def renew_work(layer: Path) -> None:
    """Remove the work directories of overlays: each belongs to one mount, and a fork starts with an
    empty one."""
    overlays = layer / "overlays"
    for directory in overlays.iterdir() if overlays.is_dir() else ():
        work = directory / "work"
        if work.exists():
            remove_tree(work)


def restore(home: Home, snapshot: str, layers: Layers, name: str) -> None:
    """Fill a new layer with a snapshot."""
    path = layers.path(name)
    for part in list(path.iterdir()):
        part.rmdir()
    owner = LAYER_OWNER if is_privileged() else None
    store = snapshots_of(home)
    store.restore(store.find(snapshot), path, owner=owner)
    renew_work(path)
