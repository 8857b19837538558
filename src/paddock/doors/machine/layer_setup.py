"""The files of a sandbox on the host: where they lie, and what they begin as."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.doors.machine.engine import Engine
from paddock.fence.base import Place
from paddock.fence.container.keeper_protocol import LAYER_OWNER
from paddock.model.spec import Spec
from paddock.state.home import Home, remove_tree
from paddock.state.layers.layers import Layers
from paddock.state.privilege import is_privileged

if TYPE_CHECKING:
    from paddock.state.snapshots.store import SnapshotStore


def place(home: Home, name: str, spec: Spec, base: str | None = None) -> Place:
    """Where a new sandbox's files lie."""
    return Place(
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
    """What was saved in this home."""
    from paddock.state.snapshots.store import SnapshotStore  # loaded when the first one is made

    return SnapshotStore(home.snapshots)


def stamps_of(layer: Path) -> dict[str, Any]:
    """What a later look tells changes by."""
    from paddock.state.changes.tree_scan import scan

    return dict(scan(layer / "home"))


def renew_work(layer: Path) -> None:
    """An overlay's work directory belongs to one mount: a fork starts with an empty one."""
    overlays = layer / "overlays"
    for directory in overlays.iterdir() if overlays.is_dir() else ():
        work = directory / "work"
        if work.exists():
            remove_tree(work)


def restore(engine: Engine, snapshot: str, layers: Layers, name: str) -> None:
    """Fills a new layer with what was saved."""
    path = layers.path(name)
    for part in list(path.iterdir()):
        part.rmdir()
    owner = LAYER_OWNER if is_privileged() else None
    store = snapshots_of(engine.home)
    store.restore(store.find(snapshot), path, owner=owner)
    renew_work(path)
