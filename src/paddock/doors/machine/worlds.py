"""A sandbox's world: made with it, forked with it, and its state written down when it ends."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.fence.offload import offload
from paddock.journal.errors import JournalBroken

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.world.world import World


async def open_world(box: Box, parent: Box | None) -> World | None:
    """The world that the policy wants, seeded, or that of the parent as it is at this moment.
    Raises InvalidInput for what the file says wrongly."""
    terms = box.passage.policy.world
    if terms is None or not terms.stand_ins:
        return None
    directory, run = box.engine.home.worlds / box.sandbox_id, box.sandbox_id
    if parent is not None and parent.world is not None:
        return await parent.world.fork(directory, run)
    from paddock.world.world import World

    project = Path(box.passage.policy.terms.base or Path.cwd())
    return await offload(World.open, directory, run, terms, project)


async def close_world(box: Box) -> None:
    """Its last state goes into the journal, with what is broken in it."""
    world = box.world
    if world is None:
        return
    with contextlib.suppress(JournalBroken, OSError):
        box.passage.gate.note({"what": "world", **await offload(world.summary)})
    await world.close()
