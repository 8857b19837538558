"""Sandboxes of this user: made, found and listed; their snapshots; the pool of machines."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from paddock.doors.machine.box import DEFAULT_OPENING, DEFAULT_SOURCES, Box
from paddock.doors.machine.control import Control
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.layer_setup import snapshots_of
from paddock.doors.machine.sandbox_gate import Opening
from paddock.doors.machine.sources import BoxSources
from paddock.fence.offload import offload
from paddock.model.errors import OutOfSpace, SandboxError
from paddock.model.results import SandboxInfo
from paddock.model.spec import Spec, identifier
from paddock.policy.decide import Policy
from paddock.state.disk_space import check_space, telling_full_disk

if TYPE_CHECKING:
    from paddock.doors.machine.remote import RemoteBox
    from paddock.state.snapshots.store import SnapshotInfo


async def create_box(
    engine: Engine,
    spec: Spec,
    policy: Policy,
    sources: BoxSources = DEFAULT_SOURCES,
    opening: Opening = DEFAULT_OPENING,
) -> Box:
    """Create a sandbox on this engine. Raises OutOfSpace when its home is full, or nearly so."""
    home = engine.home.root
    check_space(home)
    try:
        with telling_full_disk(home):
            await _open_control(engine)
            return await Box.create(engine, spec, policy, sources, opening)
    except (OutOfSpace, asyncio.CancelledError):
        raise
    except Exception:
        check_space(home)  # a disk that filled up meanwhile breaks in many ways; this says which
        raise


async def connect_box(engine: Engine, sandbox_id: str) -> Box | RemoteBox:
    """Return a sandbox that exists: ours, or one of another process of the same user."""
    own: Box | None = engine.boxes.get(sandbox_id)
    if own is not None:
        return own
    from paddock.doors.machine.remote import RemoteBox  # most callers make their own

    return await RemoteBox.connect(engine, identifier(sandbox_id, "sandbox"))


async def list_boxes(engine: Engine) -> list[SandboxInfo]:
    """Return all sandboxes of the user that run or are paused, of any process, oldest first."""
    from paddock.doors.machine.remote import RemoteBox, living

    infos = [box.info() for box in list(engine.boxes.values())]
    for record in await offload(living, engine.home):
        if (record.info or {}).get("host_pid", os.getpid()) == os.getpid():
            continue  # it is among ours, or waits in the pool
        try:
            remote = await RemoteBox.connect(engine, record.sandbox_id)
        except SandboxError:
            continue  # it has just ended, or waits in the pool of its process
        try:
            infos.append(await remote.fetch_info())
        except SandboxError:
            continue
        finally:
            remote.close()
    return sorted(infos, key=lambda info: info.started_at)


async def list_snapshots(engine: Engine) -> list[SnapshotInfo]:
    """Return what was saved in this home, oldest first."""
    return await offload(snapshots_of(engine.home).list)


async def delete_snapshot(engine: Engine, snapshot: str) -> int:
    """Remove a snapshot by name or id; return how many bytes that freed."""

    def delete() -> int:
        store = snapshots_of(engine.home)
        store.delete(store.find(snapshot))
        return store.gc()

    return await offload(delete)


async def _open_control(engine: Engine) -> None:
    if engine.control is None:
        engine.control = Control(engine)
        await engine.control.open()


async def resize_pool(engine: Engine, size: int) -> None:
    """Keep so many machines ready on this engine."""
    await engine.pool.resize(size)
