"""The world of a sandbox: forked with it, and its state recorded when it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.fence.offload import offload
from paddock.journal.errors import JournalBroken
from paddock.model.events import WorldEnded

if TYPE_CHECKING:
    from paddock.world.world import World


async def fork_worlds(
    world: World | None, directory: Path, names: Sequence[str]
) -> dict[str, World]:
    """Return a copy of the world, as it is at this moment, for each of the sandboxes to come."""
    worlds: dict[str, World] = {}
    if world is None:
        return worlds
    try:
        for name in names:
            worlds[name] = await world.fork(directory / name, name)
    except BaseException:
        await discard_worlds(worlds)
        raise
    return worlds


async def discard_worlds(worlds: Mapping[str, World]) -> None:
    """Remove the worlds of sandboxes that did not come to be."""
    for world in worlds.values():
        await world.discard()


async def close_world(world: World, record: Callable[[WorldEnded], object]) -> None:
    """Record the last state of a world, with what is broken in it, and close it."""
    try:
        ended = await offload(world.summary)
    except Exception as error:
        # Its files are gone, or a service is wrong: the journal ends all the same.
        ended = WorldEnded(error=f"{type(error).__name__}: {error}")
    with contextlib.suppress(JournalBroken, OSError):
        record(ended)
    await world.close()
