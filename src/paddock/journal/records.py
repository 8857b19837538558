"""One record: a canonical JSON line that begins with the hash of the line before it.

The hash is that of a leaf of the tree, so one SHA-256 a record is both the chain and the tree, and
following the chain needs no JSON parser: the hash stands at a fixed place at the front, the number
and the type at the back.
"""

from __future__ import annotations

import enum
import re
from binascii import hexlify
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from paddock.journal.canonical import canonical_text, encoded
from paddock.journal.merkle import Tree
from paddock.journal.step_counts import StepCounts
from paddock.journal.strict_json import parse_json
from paddock.model.errors import IntegrityError
from paddock.model.values import dataclass

FORMAT = 1
# What "after" says in the first record.
NOTHING_BEFORE = b"0" * 64
# A line is bounded before it is parsed. Large values are blobs, so honest lines are far shorter.
MAX_LINE_BYTES = 2 << 20
_MAX_NUMBER = 1 << 53
_MAX_AT = 253_402_300_799_999_999  # the last microsecond of the year 9999

_FRONT = b'{"after":"'
_HASH = slice(len(_FRONT), len(_FRONT) + 64)
_NUMBER = b',"n":'
_BACK = re.compile(rb',"n":(\d{1,16})(?:,"step":(\d{1,16}))?,"type":"([a-z]{1,16})"\}')


class Type(enum.StrEnum):
    """What a record tells."""

    OPENED = "opened"
    PROPOSED = "proposed"
    DECIDED = "decided"
    ASKED = "asked"
    ANSWERED = "answered"
    SETTLED = "settled"
    OBSERVED = "observed"
    NOTED = "noted"
    HEAD = "head"
    RECOVERED = "recovered"
    CLOSED = "closed"


# Fields that every reader takes for texts, where a record has them.
_TEXTS = {
    Type.PROPOSED: ("kind", "name", "effect"),
    Type.DECIDED: ("verdict", "decided_by", "effect"),
    Type.SETTLED: ("outcome",),
    Type.OBSERVED: ("what",),
    Type.NOTED: ("what",),
}


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Where in a body (a JSON pointer) a preview stands for a large value, and which."""

    path: str
    sha256: str
    size_bytes: int
    form: str  # "text", "json" for a value that is not one string, "bytes" for a piece of a body
    is_kept: bool = True  # False: beyond the run's budget, only digest and size were kept

    @classmethod
    def parse(cls, fields: Any) -> BlobRef:
        """`ValueError`, `TypeError` or `KeyError` for what refers to no blob."""
        if set(fields) - {"is_kept"} != {"form", "path", "sha256", "size_bytes"}:
            raise ValueError("the reference to a blob has other fields")
        path, digest = _text(fields["path"]), _text(fields["sha256"])
        if fields["form"] not in ("text", "json", "bytes"):
            raise ValueError(f"{fields['form']!r:.40} is no form of a blob")
        is_kept = fields.get("is_kept", True) is not False
        return cls(path, digest, _natural(fields["size_bytes"]), fields["form"], is_kept)

    def as_json(self) -> dict[str, Any]:
        plain = {
            "form": self.form,
            "path": self.path,
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
        }
        return plain if self.is_kept else {**plain, "is_kept": False}


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is read back. `body` has previews where `blobs` says so."""

    n: int
    at: int  # microseconds since 1970
    type: Type
    step: int | None
    body: dict[str, Any]
    after: str
    blobs: tuple[BlobRef, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Return whether all of its values were kept."""
        return all(ref.is_kept for ref in self.blobs)

    @classmethod
    def parse(cls, line: bytes) -> Record:
        """`IntegrityError` for a line that no journal of this format contains."""
        try:
            fields = parse_json(line.decode())
            blobs = tuple(map(BlobRef.parse, fields.get("blobs", ())))
            kind, body = Type(fields["type"]), _object(fields["body"])
            for name in _TEXTS.get(kind, ()):
                _text(body.get(name, ""))
            return cls(
                n=_natural(fields["n"]),
                at=_natural(fields["at"], _MAX_AT),
                type=kind,
                step=_natural(fields["step"]) if "step" in fields else None,
                body=body,
                after=_text(fields["after"]),
                blobs=blobs,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            said = f"{type(error).__name__}: {error}"
            raise IntegrityError(f"not a record of a journal ({said:.200})") from None


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
        self.tree = Tree()
        self.steps = StepCounts()

    @property
    def size(self) -> int:
        return self.tree.size

    def link(
        self, kind: str, body: str, *, at: int, step: int | None, blobs: Sequence[BlobRef] = ()
    ) -> bytes:
        """The next line, without its end, for a body that is canonical text already."""
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
    """Number, step and type from the end of a line, without parsing what stands before."""
    found = _BACK.fullmatch(line, line.rfind(_NUMBER))
    if found is None or line[:10] != _FRONT:
        return None
    n, step, kind = found.groups()
    return int(n), None if step is None else int(step), kind


def hash_before(line: bytes) -> str:
    """The hash that a record claims for the one before it."""
    return line[_HASH].decode("ascii", "replace")


def has_blobs(line: bytes) -> bool:
    """Whether a record refers to blobs. Only its time stands between the hash and that list."""
    return line.find(b',"blobs":[', 75, 75 + 40) >= 0


def _blob_list(blobs: Sequence[BlobRef]) -> str:
    return canonical_text([blob.as_json() for blob in blobs])


def _natural(value: Any, most: int = _MAX_NUMBER) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is not a count")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r:.40} is not a text")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the body is not an object")
    return value
