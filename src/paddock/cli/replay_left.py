"""Where a run left its record, told to a person: the two sides of it, and what can be done next."""

from __future__ import annotations

import shlex
import shutil
import sys
from typing import TYPE_CHECKING

from paddock.model.errors import InvalidInput
from paddock.run.matching.rules import vary_of
from paddock.run.matching.showing import side_by_side, visible

if TYPE_CHECKING:
    from paddock.run.again import Divergence

_MAX_PLACES = 3
_MEASURES = ("body_bytes", "body_sha256")  # of a body
_MAX_PLACE = 200


def tell_divergence(found: Divergence, before: str = "") -> None:
    """What is other than in the record. It names a place by keys that the agent chose."""
    print(f"paddock: {before}{visible(found.text)}", file=sys.stderr)
    if found.differences:
        width = shutil.get_terminal_size((100, 24)).columns
        print(side_by_side(found.differences, width=width), file=sys.stderr)


def tell_what_next(found: Divergence, *, is_fork: bool = False, mode: str = "stop") -> None:
    """How the same comes through another time."""
    hints = []
    if places := varied(found):
        hints.append(f"{' '.join(places)} lets this differ")
    if is_fork and found.step is not None:
        hints.append(f"--at {found.step} forks where they part")
    if not is_fork and mode == "stop":
        hints.append("--on-divergence live goes on for real from here, as a fork")
        hints.append("--on-divergence block refuses what is not in the record and goes on")
    for at, hint in enumerate(hints):
        print(f"{'next' if at == 0 else '':<10}{hint}", file=sys.stderr)


def varied(found: Divergence) -> list[str]:
    """What lets the places differ, as words for a shell; none where no rule could."""
    options = []
    # A body that rules cannot read is compared by what is known of it, and varies as a whole.
    places = ("body" if one.at in _MEASURES else one.at for one in found.differences)
    for place in dict.fromkeys(places):
        said = f"{place}=any"
        if not said.isprintable() or len(said) > _MAX_PLACE:
            return []
        try:
            vary_of(said)
        except InvalidInput:  # who is asked, and for what, never varies
            return []
        options.append(f"--vary {shlex.quote(said)}")
    return options if len(options) <= _MAX_PLACES else []
