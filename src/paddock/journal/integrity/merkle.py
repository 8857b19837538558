"""The hash tree of RFC 9162: roots, proofs, and checks of proofs. Hashes in, hashes out.

`Tree` grows leaf by leaf and keeps only the roots of its full subtrees. `Leaves` has all hashes and
makes proofs. Checking a proof needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """A tree that only grows. Its state is one hash for each bit set in its size."""

    __slots__ = ("_peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add a leaf's hash; for every trailing one in the old size, two subtrees become one."""
        size = self.size
        while size & 1:
            leaf = sha256(b"\x01" + self._peaks.pop() + leaf).digest()
            size >>= 1
        self._peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY_ROOT
        root = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            root = node_hash(peak, root)
        return root


class Leaves:
    """All leaf hashes of a tree, with every full subtree hashed once, to make many proofs."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels: list[Sequence[bytes]] = [leaves]
        while len(below := self._levels[-1]) > 1:
            pairs = zip(below[::2], below[1::2], strict=False)
            self._levels.append([node_hash(left, right) for left, right in pairs])

    def __len__(self) -> int:
        return len(self._levels[0])

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the first `size` leaves."""
        size = self._bounded(len(self) if size is None else size)
        return self._range(0, size) if size else EMPTY_ROOT

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """Return the proof that leaf `index` is in the tree of the first `size` leaves."""
        if not 0 <= index < self._bounded(size):
            raise IndexError(f"leaf {index} is not in a tree of {size}")
        proof: list[bytes] = []
        start, end = 0, size
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                proof.append(self._range(middle, end))
                end = middle
            else:
                proof.append(self._range(start, middle))
                start = middle
        return proof[::-1]

    def _bounded(self, size: int) -> int:
        if size > len(self):
            raise IndexError(f"there are {len(self)} leaves, not {size}")
        return size

    def _range(self, start: int, end: int) -> bytes:
        count = end - start
        if count & (count - 1) == 0:  # a full subtree, and every caller's ranges are aligned
            level = count.bit_length() - 1
            return self._levels[level][start >> level]
        middle = start + _split(count)
        return node_hash(self._range(start, middle), self._range(middle, end))


def check_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Return whether the proof leads from the leaf at `index` to the root of a tree of `size`."""
    if not 0 <= index < size or len(leaf) != HASH_BYTES:
        return False
    node, last, current = index, size - 1, leaf
    for hashed in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            current = node_hash(hashed, current)
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            current = node_hash(current, hashed)
        node, last = node >> 1, last >> 1
    return last == 0 and current == root


def _split(count: int) -> int:
    """Return the largest power of two that is smaller than `count`."""
    return 1 << (count - 1).bit_length() - 1
