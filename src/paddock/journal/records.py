"""The chain of records: every line begins with the hash of the line before it.

The hash is that of a leaf of the tree, so one SHA-256 a record is both the chain and the tree, and
following the chain needs no JSON parser: the hash stands at a fixed place at the front, the number
and the type at the back. What is in a record is the business of `codec`.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Sequence
from hashlib import sha256

from paddock.journal.canonical import canonical_text, encoded
from paddock.journal.integrity.merkle import MerkleTree
from paddock.journal.integrity.step_counts import StepCounts
from paddock.journal.plain_values import as_json
from paddock.model.errors import IntegrityError
from paddock.model.events import BlobRef, Event

# What "after" says in the first record.
NOTHING_BEFORE = b"0" * 64

_FRONT = b'{"after":"'
_HASH = slice(len(_FRONT), len(_FRONT) + 64)
_NUMBER = b',"n":'
_BACK = re.compile(rb',"n":(\d{1,16})(?:,"step":(\d{1,16}))?,"type":"([a-z_]{1,32})"\}')


# What the end of a line says of its record: number, step, type. A plain tuple: there are millions.
Back = tuple[int, int | None, bytes]


class ChainBroken(IntegrityError):
    """A line does not continue the chain. `n` is what it says it is; None if it is no record."""

    def __init__(self, line: bytes, n: int | None) -> None:
        super().__init__("the line does not continue the chain")
        self.line = line
        self.n = n


class Chain:
    """The end of a journal: the last hash, the tree over all records so far, and how many records
    each step has."""

    __slots__ = ("last", "steps", "tree")

    def __init__(self) -> None:
        self.last = NOTHING_BEFORE
        self.tree = MerkleTree()
        self.steps = StepCounts()

    @property
    def size(self) -> int:
        return self.tree.size

    def link(
        self, kind: str, body: str, *, at: int, step: int | None, blobs: Sequence[BlobRef] = ()
    ) -> bytes:
        """Return the next line, without its end, for a body that is canonical text already."""
        referred = f'"blobs":{_blob_list(blobs)},' if blobs else ""
        where = "" if step is None else f',"step":{step}'
        line = encoded(
            f'{{"after":"{self.last.decode()}","at":{at},{referred}"body":{body},'
            f'"n":{self.tree.size}{where},"type":"{kind}"}}'
        )
        self._take(line, step)
        return line

    def follow(self, line: bytes) -> Back:
        """Takes the next line of a journal that is read; `ChainBroken` if it is not the next."""
        back = read_back(line)
        if back is None or line[_HASH] != self.last or back[0] != self.tree.size:
            raise ChainBroken(line, None if back is None else back[0])
        self._take(line, back[1])
        return back

    def _take(self, line: bytes, step: int | None) -> None:
        if step is not None:
            self.steps.add(step)
        leaf = sha256(b"\x00" + line).digest()
        self.tree.append(leaf)
        self.last = hexlify(leaf)


def read_back(line: bytes) -> Back | None:
    """Return number, step and type from the end of a line, without parsing what stands before."""
    match = _BACK.fullmatch(line, line.rfind(_NUMBER))
    if match is None or line[:10] != _FRONT:
        return None
    n, step, kind = match.groups()
    return int(n), None if step is None else int(step), kind


def line_end(event: type[Event]) -> bytes:
    """Return how the line of every record with that event ends, and no other."""
    return b'"type":"%b"}' % event.TYPE.encode()


def may_call_model(line: bytes) -> bool:
    """Return False for a proposed action that is certainly no call of a model. Most are none, and
    need not be parsed to know it."""
    return b'"kind":"model"' in line


def hash_before(line: bytes) -> str:
    """Return the hash that a record claims for the one before it."""
    return line[_HASH].decode("ascii", "replace")


def has_blobs(line: bytes) -> bool:
    """Return whether a record refers to blobs. Only its time stands between the hash and that
    list."""
    return line.find(b',"blobs":[', 75, 75 + 40) >= 0


def _blob_list(blobs: Sequence[BlobRef]) -> str:
    return canonical_text(as_json(blobs))
