"""What a command needs of the host to run as it does there: found, mounted read-only, explained.

Only looks: nothing is started and nothing is written. What is looked at belongs to the user, but an
agent may have written it, so every file is bounded before it is read.
"""

from __future__ import annotations

from paddock.run.surroundings.discovery import find, told_again
from paddock.run.surroundings.needed_mounts import NeededMount, Surroundings

__all__ = ["NeededMount", "Surroundings", "find", "told_again"]
