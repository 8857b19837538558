"""The surroundings of a stand-in: its store, and a clock and randomness that are the same in every
run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from paddock.world.store import Store

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z, unless the file sets the clock
_TICK_S = 1.0
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one service of one world. Nothing in it depends on the host."""

    name: str  # unique in its world
    host: str  # that it stands in for
    port: int
    store: Store
    seed: int = 0
    start: float = START
    options: Mapping[str, Any] = field(default_factory=dict)  # from the paddock file
    project: Path = field(default_factory=Path.cwd)  # base of relative paths in the file
    directory: Path = field(default_factory=Path.cwd)  # for the service's own files

    def now(self) -> float:
        """Return the world's time, which moves only with `tick`."""
        return self.start + self.store.get_counter("clock") * _TICK_S

    def tick(self) -> float:
        """Advance the clock by a second. Call it once for each thing created or changed."""
        return self.start + self.store.next("clock") * _TICK_S

    def new_id(self, prefix: str, length: int = 24) -> str:
        """Return an id that looks random and is the same in every run: `ch_3PqX...`."""
        count = self.store.next(f"id:{prefix}")
        return prefix + token(f"{self.seed}/{self.name}/{prefix}/{count}", length)

    def random(self, purpose: str) -> Random:
        """Return a generator that is seeded for this purpose, so it is the same in every run."""
        return Random(f"{self.seed}/{self.name}/{purpose}")  # noqa: S311

    def path(self, text: str) -> Path:
        """Resolve a path of the paddock file; relative ones start from the project."""
        return (self.project / os.path.expanduser(text)).absolute()


def token(text: str, length: int) -> str:
    """Derive letters and digits from a text."""
    number = int.from_bytes(hashlib.shake_256(text.encode()).digest(length), "big")
    letters = []
    for _ in range(length):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)
