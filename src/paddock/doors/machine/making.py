"""Sandboxes made and found, and the pool of those made ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.doors.machine.box import Box, Prepare
from paddock.doors.machine.control import Control
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.pool import Pool
from paddock.model.spec import Spec, identifier
from paddock.policy.decide import Policy

if TYPE_CHECKING:
    from paddock.doors.machine.remote import RemoteBox


async def create_box(
    engine: Engine, spec: Spec, policy: Policy, prepare: Prepare | None = None
) -> Box:
    """A new sandbox on this engine."""
    engine_pool(engine)
    await _open_control(engine)
    return await Box.create(engine, spec, policy, prepare)


async def connect_box(engine: Engine, sandbox_id: str) -> Box | RemoteBox:
    """A sandbox that exists: ours, or one of another process of the same user."""
    own: Box | None = engine.boxes.get(sandbox_id)
    if own is not None:
        return own
    from paddock.doors.machine.remote import RemoteBox  # most callers make their own

    return await RemoteBox.connect(engine, identifier(sandbox_id, "sandbox"))


async def _open_control(engine: Engine) -> None:
    if engine.control is None:
        engine.control = Control(engine)
        await engine.control.open()


def engine_pool(engine: Engine) -> Pool:
    """The engine's pool; empty until it is asked for or the process proves long-lived."""
    if engine.pool is None:
        engine.pool = Pool(engine)
    pool: Pool = engine.pool
    return pool


async def resize_pool(engine: Engine, size: int) -> None:
    await engine_pool(engine).resize(size)
