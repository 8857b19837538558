"""What a stand-in is handed: its store, and time and chance that are the same in every run."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.world.store import Store

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z, unless the file sets the clock
_TICK_S = 1.0
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Context:
    """One service of one world. It has nothing from outside."""

    name: str  # of the service, unique in its world
    host: str  # that it stands in for
    port: int
    store: Store
    seed: int = 0
    start: float = START
    options: Mapping[str, Any] = field(default_factory=dict)  # the words of the file
    project: Path = field(default_factory=Path.cwd)  # that relative paths of the file start from
    directory: Path = field(default_factory=Path.cwd)  # of this service's own files, in the world

    def now(self) -> float:
        """The world's time: it stands still between writes, and each `tick` moves it on."""
        counted = self.store.get_counter("clock")
        return self.start + counted * _TICK_S

    def tick(self) -> float:
        """A moment later. Whoever creates or changes something calls it once."""
        return self.start + self.store.next("clock") * _TICK_S

    def new_id(self, prefix: str, length: int = 24) -> str:
        """An id that looks like chance and is the same in every run: `ch_3PqX...`."""
        count = self.store.next(f"id:{prefix}")
        return prefix + token(f"{self.seed}/{self.name}/{prefix}/{count}", length)

    def chance(self, what: str) -> random.Random:
        """Chance of its own for `what`, always the same."""
        return random.Random(f"{self.seed}/{self.name}/{what}")  # noqa: S311

    def path(self, text: str) -> Path:
        """A path of the file: relative ones start from the project."""
        return (self.project / os.path.expanduser(text)).absolute()


def token(text: str, length: int) -> str:
    """Letters and digits that follow from a text."""
    number = int.from_bytes(hashlib.shake_256(text.encode()).digest(length), "big")
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[at])
    return "".join(letters)
