"""The libraries that a program outside of the system loads from outside of the system.

An agent may have written the program. What it names is believed only where a library really is:
else a program could name any file of the host to have it mounted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from paddock.fence.elf import Elf, read_elf
from paddock.run.surroundings.host import is_of_system

MAX_LIBRARIES = 200


def libraries_of(program: str) -> list[str]:
    """The paths at which the loader will find them, each once; also the loader itself."""
    found: dict[str, None] = {}
    waiting = [program]
    while waiting and len(found) < MAX_LIBRARIES:
        path = waiting.pop()
        elf = read_elf(path)
        if elf is None:
            continue
        if path != program:
            found[path] = None
        named = dict.fromkeys(_loaded(path, elf))
        waiting += [one for one in named if one not in found and not is_of_system(one)]
    return list(found)


def _loaded(path: str, elf: Elf) -> Iterator[str]:
    if elf.interpreter and os.path.isabs(elf.interpreter):
        yield os.path.normpath(elf.interpreter)
    origin = os.path.dirname(os.path.realpath(path))
    places = [_expanded(place, origin) for place in elf.search]
    for name in elf.needed:
        candidates = [name] if os.path.isabs(name) else [os.path.join(p, name) for p in places]
        # What is in none of these places is the system's.
        yield from (c for c in candidates[:50] if os.path.isfile(c))


def _expanded(place: str, origin: str) -> str:
    for word in ("${ORIGIN}", "$ORIGIN"):
        place = place.replace(word, origin)
    return os.path.normpath(place) if os.path.isabs(place) else origin
