"""The number of records of each step of a run, as a hash tree whose root a head signs.

A proof of one step shows its records and, with this tree, that there are no others. The leaves are
the steps in the order of their first record; a leaf changes when its step gets another record. A
head is signed every few hundred records and most of them belong to the latest steps, so hashing
only the changed leaves and the nodes above them costs less than one hash a record.
"""

from __future__ import annotations

from paddock.journal.integrity.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    check_inclusion,
    leaf_hash,
    node_hash,
)


class StepCounts:
    """Counts the records of every step and gives the root of the tree over these counts."""

    __slots__ = ("_changed", "_counts", "_levels", "_positions")

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}  # by step: which leaf it is
        self._counts: list[int] = []
        self._changed: set[int] = set()  # steps whose leaf is not up to date
        # The nodes of each level, one hash after the other: a run may have a million steps.
        self._levels: list[bytearray] = [bytearray()]

    @property
    def size(self) -> int:
        """Return the number of steps."""
        return len(self._counts)

    def add(self, step: int) -> None:
        """Count one more record of a step."""
        position = self._positions.setdefault(step, len(self._counts))
        if position == len(self._counts):
            self._counts.append(1)
        else:
            self._counts[position] += 1
        self._changed.add(step)

    def count(self, step: int) -> int:
        """Return how many records the step has; 0 for one that the run does not have."""
        position = self._positions.get(step)
        return 0 if position is None else self._counts[position]

    def root(self) -> bytes:
        """Return the root over all steps so far, as RFC 9162 computes it."""
        self._update()
        top = self._levels[-1]
        return bytes(top) if top else EMPTY_ROOT

    def inclusion(self, step: int) -> tuple[int, list[bytes]]:
        """Return which leaf the step is and the path from it to the root."""
        self._update()
        position = index = self._positions[step]
        path = []
        for level in self._levels[:-1]:
            sibling = index ^ 1
            if sibling * HASH_BYTES < len(level):
                path.append(_node(level, sibling))
            index >>= 1
        return position, path

    def _update(self) -> None:
        """Hash what has changed, level by level up to the root.

        The last node of a level with an odd number of them has no sibling and goes up as it is:
        that gives the same root as splitting at the largest power of two.
        """
        changed = set()
        # In order, because a new leaf is written behind the one before it.
        for position, step in sorted((self._positions[step], step) for step in self._changed):
            _put(self._levels[0], position, _leaf(step, self._counts[position]))
            changed.add(position)
        number = 0
        while len(self._levels[number]) > HASH_BYTES:
            below, number = self._levels[number], number + 1
            if number == len(self._levels):
                self._levels.append(bytearray())
            changed = {index >> 1 for index in changed}
            for index in sorted(changed):
                left, right = _node(below, 2 * index), _node(below, 2 * index + 1)
                _put(self._levels[number], index, node_hash(left, right) if right else left)
        self._changed = set()


def is_count_of_step(
    step: int, count: int, position: int, path: list[bytes], *, size: int, root: bytes
) -> bool:
    """Return whether a tree of `size` steps with that root says `count` of the step."""
    return check_inclusion(_leaf(step, count), position, size, path, root)


def _leaf(step: int, count: int) -> bytes:
    return leaf_hash(b'{"count":%d,"step":%d}' % (count, step))


def _node(level: bytearray, index: int) -> bytes:
    return bytes(level[index * HASH_BYTES : (index + 1) * HASH_BYTES])


def _put(level: bytearray, index: int, value: bytes) -> None:
    level[index * HASH_BYTES : (index + 1) * HASH_BYTES] = value
