"""Which steps of two runs belong together. Pure, and bounded: small stretches are aligned as well
as can be, large ones are first cut at steps that occur once on both sides.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

import msgspec

# Cells of a table that is filled in whole: 300 against 300 steps take about 50 ms.
MAX_CELLS = 90_000
# How often a stretch is cut inside of another. Runs that were made for it could go on for ever.
_MAX_CUTS = 12
# How much two steps have in common. Two pairs of the same sort are worth more than one equal pair.
_EQUAL, _ALIKE, _NEAR = 5, 4, 1

Row = tuple[int | None, int | None]  # places in the one and in the other


class Sign(msgspec.Struct, frozen=True):
    """A step for the purpose of alignment, from exact to vague."""

    exact: Hashable
    alike: Hashable
    near: Hashable


class _Stretch(msgspec.Struct, frozen=True):
    """Places from `a` to before `a_end`, and from `b` to before `b_end`."""

    a: int
    a_end: int
    b: int
    b_end: int

    @property
    def cells(self) -> int:
        return (self.a_end - self.a) * (self.b_end - self.b)


def align(here: Sequence[Sign], there: Sequence[Sign], known: Sequence[Row] = ()) -> list[Row]:
    """Return every position of both sequences, in order and once: pairs where steps correspond,
    single positions where not. `known` holds pairs that are certain."""
    certain = [(a, b) for a, b in known if a is not None and b is not None]
    whole = _Stretch(0, len(here), 0, len(there))
    return list(_Aligner(here, there).between(whole, _rising(sorted(certain)), 0))


class _Aligner:
    def __init__(self, here: Sequence[Sign], there: Sequence[Sign]) -> None:
        self.here = here
        self.there = there

    def between(self, on: _Stretch, anchors: Sequence[tuple[int, int]], cuts: int) -> Iterator[Row]:
        """Align the stretches between certain pairs, each by itself."""
        a, b = on.a, on.b
        for at_a, at_b in [*anchors, (on.a_end, on.b_end)]:
            yield from self._rows(_Stretch(a, at_a, b, at_b), cuts)
            if at_a < on.a_end and at_b < on.b_end:
                yield at_a, at_b
            a, b = at_a + 1, at_b + 1

    def _rows(self, on: _Stretch, cuts: int) -> Iterator[Row]:
        """Strip equal beginnings and ends, which are most of two runs, and align the rest."""
        front = self._equal_front(on)
        back = self._equal_back(on, front)
        inner = _Stretch(on.a + front, on.a_end - back, on.b + front, on.b_end - back)
        yield from ((on.a + i, on.b + i) for i in range(front))
        yield from self._middle(inner, cuts)
        yield from ((inner.a_end + i, inner.b_end + i) for i in range(back))

    def _equal_front(self, on: _Stretch) -> int:
        count, most = 0, min(on.a_end - on.a, on.b_end - on.b)
        while count < most and self.here[on.a + count].exact == self.there[on.b + count].exact:
            count += 1
        return count

    def _equal_back(self, on: _Stretch, front: int) -> int:
        count, most = 0, min(on.a_end - on.a, on.b_end - on.b) - front
        while (
            count < most
            and self.here[on.a_end - 1 - count].exact == self.there[on.b_end - 1 - count].exact
        ):
            count += 1
        return count

    def _middle(self, on: _Stretch, cuts: int) -> Iterator[Row]:
        if on.cells <= MAX_CELLS:
            yield from self._table(on)
            return
        if cuts > _MAX_CUTS:
            yield from _gap(on)
            return
        anchors = cuts < _MAX_CUTS and (self._anchors(on, "exact") or self._anchors(on, "alike"))
        # Nothing occurs once: the first of a sort belongs to the first, the second to the second.
        yield from self.between(
            on, anchors or self._counted(on), cuts + 1 if anchors else _MAX_CUTS + 1
        )

    def _anchors(self, on: _Stretch, name: str) -> list[tuple[int, int]]:
        mine = _once(
            range(on.a, on.a_end), [getattr(step, name) for step in self.here[on.a : on.a_end]]
        )
        yours = _once(
            range(on.b, on.b_end), [getattr(step, name) for step in self.there[on.b : on.b_end]]
        )
        return _rising([(at, yours[sign]) for sign, at in mine.items() if sign in yours])

    def _counted(self, on: _Stretch) -> list[tuple[int, int]]:
        places: defaultdict[Hashable, list[int]] = defaultdict(list)
        for b in range(on.b, on.b_end):
            places[self.there[b].alike].append(b)
        seen: Counter[Hashable] = Counter()
        pairs = []
        for a in range(on.a, on.a_end):
            sign = self.here[a].alike
            if seen[sign] < len(places[sign]):
                pairs.append((a, places[sign][seen[sign]]))
                seen[sign] += 1
        return _rising(pairs)

    def _table(self, on: _Stretch) -> Iterator[Row]:
        """Yield the alignment with the highest total similarity (Needleman and Wunsch; gaps are
        free)."""
        if not on.cells:
            yield from _gap(on)
            return
        best = self._filled(on)
        a, b, rows = on.a_end, on.b_end, list[Row]()
        while a > on.a and b > on.b:
            i, j = a - on.a, b - on.b
            common = _common(self.here[a - 1], self.there[b - 1])
            if common and best[i][j] == best[i - 1][j - 1] + common:
                a, b = a - 1, b - 1
                rows.append((a, b))
            elif best[i][j] == best[i][j - 1]:
                b -= 1
                rows.append((None, b))
            else:
                a -= 1
                rows.append((a, None))
        yield from _gap(_Stretch(on.a, a, on.b, b))
        yield from reversed(rows)

    def _filled(self, on: _Stretch) -> list[list[int]]:
        columns = self.there[on.b : on.b_end]
        best = [[0] * (len(columns) + 1)]
        for a in range(on.a, on.a_end):
            mine, above, line, left = self.here[a], best[-1], [0], 0
            for j, yours in enumerate(columns):
                most = above[j + 1] if above[j + 1] > left else left
                common = _common(mine, yours)
                if common and above[j] + common > most:
                    most = above[j] + common
                left = most
                line.append(most)
            best.append(line)
        return best


def _gap(on: _Stretch) -> Iterator[Row]:
    """Yield the positions of a stretch in which nothing corresponds."""
    yield from ((a, None) for a in range(on.a, on.a_end))
    yield from ((None, b) for b in range(on.b, on.b_end))


def _common(sign: Sign, other: Sign) -> int:
    if sign.exact == other.exact:
        return _EQUAL
    if sign.alike == other.alike:
        return _ALIKE
    return _NEAR if sign.near == other.near else 0


def _once(places: range, signs: list[Hashable]) -> dict[Hashable, int]:
    counts = Counter(signs)
    return {sign: at for at, sign in zip(places, signs, strict=True) if counts[sign] == 1}


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs, sorted by the first, in which the second rises
    too."""
    tails: list[int] = []  # the least last place of a choice of each length
    last: list[int] = []  # the pair that ends it
    before: list[int | None] = []
    for number, (_, b) in enumerate(pairs):
        length = bisect.bisect_left(tails, b)
        before.append(last[length - 1] if length else None)
        tails[length : length + 1] = [b]
        last[length : length + 1] = [number]
    chosen, at = [], last[-1] if last else None
    while at is not None:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]
