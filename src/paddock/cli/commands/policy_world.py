"""For `paddock policy check`: what only the stand-ins themselves know to be wrong."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from paddock.model.errors import HostCannot, PaddockError

if TYPE_CHECKING:
    from paddock.policy.analysis.lint import Finding


def world_findings(text: str, path: Path) -> Iterator[Finding]:
    """Makes each stand-in of a file that is well otherwise, with its seed, and forgets it."""
    from paddock.policy.analysis.lint import Finding
    from paddock.policy.analysis.review import Level
    from paddock.policy.file import read_draft
    from paddock.world.world import World

    draft = read_draft(text, path.name)
    world, project = draft.terms.world, path.absolute().parent
    for number, one in enumerate(world.stand_ins if world is not None else ()):
        assert world is not None
        with tempfile.TemporaryDirectory(prefix="paddock-check-") as scratch:
            alone = replace(world, stand_ins=(one,))
            try:
                made = World.open(Path(scratch) / str(number), "check", alone, project)
            except PaddockError as error:
                place = draft.document.place(("world", one.place))
                # What this machine lacks, another one may have.
                level = Level.WARNING if isinstance(error, HostCannot) else Level.ERROR
                yield Finding(level, None, "invalid", place.line, place.column, error.message,
                              error.hint)  # fmt: skip
            else:
                asyncio.run(made.close())
