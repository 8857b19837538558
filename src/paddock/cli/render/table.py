"""Plain tables: aligned columns, no box drawing, the same in a terminal and in a pipe, but that in
a terminal no line is wider than it is.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

from paddock.cli.render.cells import cells, cut, cut_middle, fit

_GAP = "  "
_LEAST = 8  # columns that a flexible column keeps, if it has so many
_LEAST_FIRST = 16  # the first of them is the one that tells most


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    width: int | None = None,
    flexible: Sequence[str] = (),
    spared: Sequence[str] = (),
    with_ends: Sequence[str] = (),
) -> str:
    """Return lines with columns as wide as they need to be.

    With a width, what does not fit gives way in this order: the flexible columns are cut (the last
    one, if none is named) as far as they keep some columns each; where that is not enough the
    spared ones are left out, one after the other; and in the end every line is cut. The columns
    `with_ends` lose their middle: of a call, path and amount come last."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    needed = [max(cells(line[at]) for line in lines) for at in range(len(header))]
    shown = list(range(len(header)))
    if width is None:
        return "\n".join(_line(line, needed, shown) for line in lines)
    order = [header.index(name) for name in flexible or header[-1:]]
    least = {at: min(needed[at], _LEAST if at != order[0] else _LEAST_FIRST) for at in order}
    for name in (name for name in spared if name in header):
        if _total([least.get(at, needed[at]) for at in shown]) <= width:
            break
        shown.remove(header.index(name))
    widths = list(needed)
    for at in order:
        excess = _total([widths[column] for column in shown]) - width
        widths[at] = max(widths[at] - max(excess, 0), least[at])
    for line in lines:
        for at in (header.index(name) for name in with_ends):
            line[at] = cut_middle(line[at], widths[at])
    return "\n".join(cut(_line(line, widths, shown), width) for line in lines)


def terminal_table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    flexible: Sequence[str] = (),
    spared: Sequence[str] = (),
    with_ends: Sequence[str] = (),
) -> str:
    """Return a table that is as wide as a line of the output may be."""
    return table(
        header, rows, width=line_width(), flexible=flexible, spared=spared, with_ends=with_ends
    )


def line_width() -> int | None:
    """Return how wide a line of the output may be; None where nobody minds, as in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _line(line: Sequence[str], widths: Sequence[int], shown: Iterable[int]) -> str:
    return _GAP.join(fit(line[at], widths[at]) for at in shown).rstrip()


def age(seconds: float) -> str:
    """Return 12s, 3m, 2h, 5d."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
