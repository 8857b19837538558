"""The past of a run read again from its journal alone, step by step: what was proposed, decided and
done, and what files and world were like. The chain and the signed heads are checked before the
first step is given, and every line is held against them once more when it is used: nobody sees
a step that was not verified.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from paddock.journal.canonical import canonical
from paddock.journal.heads import Head
from paddock.journal.keys import PUBLIC_NAME, PublicKey
from paddock.journal.reader import Covered, Reader, Spot
from paddock.journal.records import Chain, ChainBroken, Record, Type
from paddock.journal.segments import OpenSegments
from paddock.journal.traffic import mapping
from paddock.journal.verify import verify
from paddock.model.errors import IntegrityError, InvalidInput
from paddock.model.values import dataclass

if TYPE_CHECKING:
    from paddock.model.action import Decision
    from paddock.policy.compare import Change
    from paddock.policy.decide import Policy

T = TypeVar("T")
MAX_OBSERVED = 1000  # of one step; the agent's own step may have any number
_DIGEST = 16  # bytes of a line's hash that are remembered: more than anybody can forge
_STATE = (b'"what":"files"', b'"what":"world moved"')


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of the past. Bodies are as in the journal; what did not happen is None or empty."""

    step: int
    at: int  # microseconds since 1970
    proposed: Mapping[str, Any]
    decided: Mapping[str, Any] | None = None
    asked: Mapping[str, Any] | None = None
    answered: Mapping[str, Any] | None = None
    settled: Mapping[str, Any] | None = None
    observed: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[Mapping[str, Any], ...] = ()
    is_cut: bool = False  # whether more was observed
    duration_us: int | None = None
    tree: str | None = None  # of the files, when it was proposed
    positions: Mapping[str, int] = field(default_factory=dict)  # of the stand-ins, after it
    has_moved_files: bool = False  # they are other than at the step before
    has_moved_world: bool = False

    @property
    def verdict(self) -> str | None:
        """The decision in a word."""
        found = None if self.decided is None else self.decided.get("verdict")
        return found if isinstance(found, str) else None

    def as_json(self) -> dict[str, Any]:
        """For programs. Keys may be added."""
        names = ("step", "at", "proposed", "decided", "asked", "answered", "settled",
                 "observed", "notes", "is_cut", "duration_us", "tree", "positions")  # fmt: skip
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Redecided:
    """A step of the past, and what another policy would have decided. `after` is None where it
    decides as it was; `programs` are those that the step caused and that would be stopped."""

    frame: Frame
    after: Decision | None
    programs: tuple[Change, ...] = ()


def reread(directory: Path, *, key: PublicKey | None = None) -> Iterator[Frame]:
    """Every step, in the order of their numbers. `key` is whose signature is wanted; the journals
    of a home are signed with that home's key, and what comes after the last signature is left out.
    Raises IntegrityError where the journal breaks, or is not signed at all."""
    return Past(directory, key, _covered(directory, key)).frames()


def redecide(
    directory: Path, policy: Policy, *, key: PublicKey | None = None
) -> Iterator[Redecided]:
    """Every step, with what this policy would have decided about it then."""
    from paddock.gate.recorded import recorded_events
    from paddock.policy.compare import replay

    covered = _covered(directory, key)
    frames = Past(directory, key, covered).frames()  # verified before anything is decided
    changed: dict[int, Decision] = {}
    programs: dict[int, list[Change]] = {}
    for one in replay(policy, recorded_events(directory, covered)):
        if one.before.decided_by == "observed":
            programs.setdefault(one.step, []).append(one)
        else:
            changed[one.step] = one.after
    for frame in frames:
        yield Redecided(frame, changed.get(frame.step), tuple(programs.get(frame.step, ())))


class Past:
    """The steps of a run, verified once, each to be had at any time. `covered` leaves out what is
    not signed."""

    def __init__(
        self, directory: Path, key: PublicKey | None = None, covered: Covered | None = None
    ) -> None:
        self.directory = directory
        self.reader = Reader(directory, covered)
        self.opened: Mapping[str, Any] = {}
        self._key = key or _key_of(directory)
        self._chain = Chain()
        self._spots: dict[int, list[tuple[Spot, bytes]]] = {}
        self._cut: set[int] = set()
        self._trees: list[tuple[int, str]] = []
        self._last_tree: str | None = None
        self._moved: list[tuple[int, dict[str, int]]] = []
        for spot, line, (_, step, kind) in self.reader.scan(Spot(1, 0)):
            self._follow(line, kind)
            self._remember(step, spot, line, kind)
        self._trees.sort(key=_number)
        self._positions = _summed(sorted(self._moved, key=_number))
        self.steps = sorted(self._spots)

    def frames(self) -> Iterator[Frame]:
        """All of them, in order."""
        with OpenSegments(self.directory) as files:
            for step in self.steps:
                yield self._frame(files, step)

    def frame(self, step: int) -> Frame:
        """One of `steps`."""
        with OpenSegments(self.directory) as files:
            return self._frame(files, step)

    def tree_after(self, step: int) -> str | None:
        """The files as they were when the next step was proposed, or at the end."""
        at = bisect_right(self._trees, step, key=_number)
        later = self.steps[bisect_right(self.steps, step) :]
        if at < len(self._trees) and later and self._trees[at][0] == later[0]:
            return self._trees[at][1]
        return _until(self._trees, step) if later else self._last_tree

    def _frame(self, files: OpenSegments, step: int) -> Frame:
        records = [self._record(files, *one) for one in self._spots[step]]
        last: dict[Type, Record] = {one.type: one for one in records}
        bodies = {kind: self.reader.body(one) for kind, one in last.items()}
        first, end = last.get(Type.PROPOSED, records[0]), last.get(Type.SETTLED)
        tree, positions = _until(self._trees, step), _until(self._positions, step) or {}
        before = self.steps[max(bisect_left(self.steps, step) - 1, 0)] if self.steps else step
        is_first = before == step
        return Frame(
            step=step,
            at=first.at,
            proposed=bodies.get(Type.PROPOSED, {}),
            decided=bodies.get(Type.DECIDED),
            asked=bodies.get(Type.ASKED),
            answered=bodies.get(Type.ANSWERED),
            settled=bodies.get(Type.SETTLED),
            observed=tuple(one.body for one in records if one.type is Type.OBSERVED),
            notes=tuple(one.body for one in records if one.type is Type.NOTED),
            is_cut=step in self._cut,
            duration_us=None if end is None else max(end.at - first.at, 0),
            tree=tree,
            positions=positions,
            has_moved_files=tree != (None if is_first else _until(self._trees, before)),
            has_moved_world=positions
            != ({} if is_first else _until(self._positions, before) or {}),
        )

    def _record(self, files: OpenSegments, spot: Spot, digest: bytes) -> Record:
        line = files.line(spot.segment, spot.offset)
        if sha256(line).digest()[:_DIGEST] != digest:
            raise IntegrityError("the journal was changed while it was read")
        return Record.parse(line)

    def _follow(self, line: bytes, kind: bytes) -> None:
        chain = self._chain
        root = chain.tree.root() if kind == b"head" else b""
        try:
            chain.follow(line)
        except ChainBroken:
            said = f"record {chain.size} does not follow the one before it"
            raise IntegrityError(f"{said}: paddock verify says what is wrong") from None
        if kind == b"head":
            self._check_head(line, root)
        elif chain.size == 1:
            self.opened = Record.parse(line).body

    def _check_head(self, line: bytes, root: bytes) -> None:
        record = Record.parse(line)
        try:
            head = Head.parse(record.body)
        except InvalidInput as error:
            raise IntegrityError(f"record {record.n}: {error.message}") from None
        is_of_it = (
            head.run == self.opened.get("run") and head.size == record.n and head.root == root.hex()
        )
        is_of_it = is_of_it and line == _head_line(record, head)
        is_signed = self._key is None or head.is_signed_by(self._key)
        if not is_of_it or not is_signed:
            what = "the signed head does not fit" if not is_of_it else "the signature is not valid"
            raise IntegrityError(f"record {record.n}: {what}: paddock verify says more")

    def _remember(self, step: int | None, spot: Spot, line: bytes, kind: bytes) -> None:
        if kind == b"noted" and any(what in line for what in _STATE):
            self._note(step, Record.parse(line).body)
        if step is None:
            return
        spots = self._spots.setdefault(step, [])
        if kind == b"observed" and len(spots) >= MAX_OBSERVED:
            self._cut.add(step)
            return
        spots.append((spot, sha256(line).digest()[:_DIGEST]))

    def _note(self, step: int | None, body: Mapping[str, Any]) -> None:
        if body.get("what") == "files" and isinstance(body.get("tree"), str):
            self._last_tree = str(body["tree"])
            if step is not None:
                self._trees.append((step, self._last_tree))
        elif body.get("what") == "world moved" and step is not None:
            positions = mapping(body.get("positions"))
            said = {str(name): one for name, one in positions.items() if type(one) is int}
            self._moved.append((step, said))


def _until(values: list[tuple[int, T]], step: int) -> T | None:
    """The last value that is not later than the step."""
    at = bisect_right(values, step, key=_number)
    return values[at - 1][1] if at else None


def _summed(moved: list[tuple[int, dict[str, int]]]) -> list[tuple[int, dict[str, int]]]:
    """All positions at each of these steps, of which each note may have some."""
    found: list[tuple[int, dict[str, int]]] = []
    now: dict[str, int] = {}
    for step, said in moved:
        now = {**now, **said}
        found.append((step, now))
    return found


def _covered(directory: Path, key: PublicKey | None) -> Covered | None:
    """The records that are signed; None for a journal from elsewhere, whose key nobody knows."""
    key = key or _key_of(directory)
    if key is None:
        return None
    leaves = bytearray()
    report = verify(directory, key, reads_values=False, leaves=leaves)
    if report.problems:
        first = str(report.problems[0]).partition("\n")[0]
        raise IntegrityError(f"{first}: paddock verify says more")
    return Covered(bytes(leaves), report.usable)


def _key_of(directory: Path) -> PublicKey | None:
    """Of a journal in its home, the home's own; of one from elsewhere nobody here can say."""
    from paddock.state.home import Home

    home = Home.find()
    ours = home.keys / PUBLIC_NAME
    if directory.absolute().parent.resolve() != home.runs.resolve() or not ours.exists():
        return None
    return PublicKey.load(ours)


def _head_line(record: Record, head: Head) -> bytes:
    """After the last head nothing follows that would notice a change of its line."""
    words = {"after": record.after, "at": head.at, "body": head.as_body(), "n": record.n}
    return canonical({**words, "type": Type.HEAD.value})


def _number(value: tuple[int, Any]) -> int:
    return value[0]
