"""A sandbox's world: made with it, forked with it, and its state written down when it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paddock.fence.offload import offload
from paddock.journal.errors import JournalBroken
from paddock.model.events import WorldEnded

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.world.world import World


async def fork_worlds(parent: Box, names: Sequence[str]) -> dict[str, World]:
    """One for each of the sandboxes to come, as it is at this moment."""
    made: dict[str, World] = {}
    try:
        for name in names if parent.world is not None else ():
            assert parent.world is not None
            made[name] = await parent.world.fork(parent.engine.home.worlds / name, name)
    except BaseException:
        await discard_worlds(made)
        raise
    return made


async def discard_worlds(worlds: Mapping[str, World]) -> None:
    """Of sandboxes that did not come to be."""
    for world in worlds.values():
        await world.discard()


async def close_world(box: Box) -> None:
    """Its last state goes into the journal, with what is broken in it."""
    world = box.world
    if world is None:
        return
    try:
        ended = await offload(world.summary)
    except (
        Exception
    ) as error:  # its files are gone, or a service is wrong: the journal ends all the same
        ended = WorldEnded(error=f"{type(error).__name__}: {error}")
    with contextlib.suppress(JournalBroken, OSError):
        box.passage.gate.record(ended)
    await world.close()
