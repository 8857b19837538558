"""Checks a journal offline, with the public key only, and says exactly where it breaks.

`verify` follows the chain, recomputes the tree, checks every signed head and every blob. It trusts
nothing that it reads, and needs no index.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from paddock.journal.blobs import Blobs, put_back
from paddock.journal.canonical import canonical
from paddock.journal.codec import FORMAT, body_of, decode
from paddock.journal.conversations import ChainCheck
from paddock.journal.integrity.findings import JournalProblem, VerifyFinding, VerifyReport, diagnose
from paddock.journal.integrity.heads import is_signed_by, parse_head
from paddock.journal.integrity.keys import PublicKey
from paddock.journal.nodes import NodeReader
from paddock.journal.records import (
    Chain,
    ChainBroken,
    has_blobs,
    hash_before,
    line_end,
    may_call_model,
)
from paddock.journal.segments import segment_number, segments
from paddock.model.action import Kind
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.events import Head, Opened, Proposed, Record
from paddock.model.plural import many
from paddock.objects.line_file import batches

_MAX_BLOB_FINDINGS = 100
_HEAD_END = line_end(Head)


def verify(
    place: Path,
    public_key: PublicKey,
    *,
    expected_head: Head | None = None,
    expect_closed: bool = False,
    expected_run: str | None = None,
    reads_values: bool = True,
    leaves: bytearray | None = None,
) -> VerifyReport:
    """Verifies a journal's directory, or one file with all its records in order. Without
    `reads_values` what records name by its digest is left to whoever reads it, who checks it.

    A head that was saved elsewhere finds a journal that was replaced or shortened as a whole.
    Without one, `expect_closed` says that the run has ended, so that a cut-off end is found, and
    `expected_run` that it is this one and no other's. Into `leaves` go the hashes of all records.
    """
    paths = segments(place) if place.is_dir() else [place]
    check = _Check(paths, place.is_dir(), public_key, expected_head, reads_values=reads_values)
    check.expected_run, check.leaves = expected_run, leaves
    check.run(expect_closed=expect_closed)
    return check.report()


class _Stop(Exception):
    """The end of a check: what follows the first break of the chain cannot be checked."""


class _Check:
    def __init__(
        self,
        paths: list[Path],
        is_directory: bool,
        key: PublicKey,
        expected: Head | None,
        *,
        reads_values: bool,
    ) -> None:
        self._paths = paths
        self._is_directory = is_directory
        has_values = is_directory and reads_values
        self._blobs = Blobs(paths[0].parent) if has_values else None
        self._key = key
        self._expected = expected
        self._chain = Chain()
        self._run: str | None = None
        self._head: Head | None = None
        self._heads = 0
        self._blob_count = 0
        self._chains = ChainCheck(NodeReader(paths[0].parent)) if has_values else None
        self._last_type = self._type_before = b""
        self._signed = 0  # records that a head covers, and the head itself
        self._usable = 0
        self._torn_bytes = 0
        # Whether a writer went on after records that nobody had signed: its heads do not make them
        # more than what somebody had written there.
        self._has_gap = False
        self.expected_run: str | None = None
        self.leaves: bytearray | None = None
        self._path, self._line = paths[0], 0
        self._problems: list[JournalProblem] = []

    def run(self, *, expect_closed: bool) -> None:
        try:
            self._check_expected()
            for number, path in enumerate(self._paths, 1):
                if self._is_directory and segment_number(path) != number:
                    self._stop(VerifyFinding.MISSING, f"segment {number} is not there")
                self._segment(path)
            self._end(expect_closed)
        except _Stop:
            pass
        except OSError as error:
            self._note(VerifyFinding.UNREADABLE, f"cannot be read: {error.strerror}")
        except IntegrityError as error:
            self._note(VerifyFinding.MALFORMED, error.message)

    def report(self) -> VerifyReport:
        return VerifyReport(
            run=self._run,
            records=self._chain.size,
            segments=len(self._paths),
            heads=self._heads,
            head=self._head,
            signed=self._signed,
            usable=self._usable,
            blobs=self._blob_count + (self._chains.count if self._chains is not None else 0),
            are_blobs_checked=self._blobs is not None,
            is_closed=self._is_closed(),
            torn_bytes=self._torn_bytes,
            problems=tuple(self._problems),
        )

    def _segment(self, path: Path) -> None:
        self._path, self._line = path, 0
        follow, tree = self._chain.follow, self._chain.tree
        expected_size = -1 if self._expected is None else self._expected.size
        for batch in batches(path):
            for line in batch.lines:
                self._line += 1
                # The root that a head signs is that of the records before it.
                root = tree.root() if line.endswith(_HEAD_END) else b""
                is_behind_end = self._is_closed()
                try:
                    n, _, kind = follow(line)
                except ChainBroken as broken:
                    self._break(broken)
                if is_behind_end:
                    self._stop(VerifyFinding.INSERTED, "a record follows the signed end", n=n)
                if self.leaves is not None:
                    self.leaves += unhexlify(self._chain.last)
                self._type_before, self._last_type = self._last_type, kind
                if root:
                    self._check_head(line, root)
                elif n == 0:
                    self._check_opened(line)
                elif kind == b"recovered" and n != self._signed:
                    self._has_gap = True
                if has_blobs(line):
                    self._check_blobs(line)
                if kind == b"proposed" and may_call_model(line):
                    self._check_request(line)
                if expected_size == tree.size:
                    self._compare_expected()
            if batch.torn:
                self._check_torn(batch.torn)

    def _break(self, broken: ChainBroken) -> NoReturn:
        finding, text, n = diagnose(broken, self._chain, self._paths, self._path, self._line)
        claims = None
        if broken.n is not None:
            claims = f"record {broken.n} after {hash_before(broken.line)}"
        expected = f"record {self._chain.size} after {self._chain.last.decode()}"
        self._stop(finding, text, n=n, expected=expected, found=claims)

    def _check_torn(self, torn: bytes) -> None:
        """Accept a torn end. A writer that is killed leaves part of a record behind the last whole
        one, and nothing else: no further segment, and nothing behind an end."""
        self._line += 1
        if self._path != self._paths[-1] or self._is_closed():
            text = f"{many(len(torn), 'byte')}, which is no whole record"
            self._stop(VerifyFinding.TORN, text, n=self._chain.size)
        self._torn_bytes = len(torn)

    def _check_opened(self, line: bytes) -> None:
        opened = decode(line).event
        if not isinstance(opened, Opened):
            self._stop(VerifyFinding.MALFORMED, "the first record does not open a run", n=0)
        self._run = run = opened.run
        if self.expected_run not in (None, run):
            text = "this is the journal of another run than the one whose name it has"
            names = (f"run {self.expected_run}", f"run {run}")
            self._stop(VerifyFinding.REPLACED, text, n=0, expected=names[0], found=names[1])
        if not 1 <= (opened.format or 0) <= FORMAT:
            text = f"format {opened.format} is not known to this version"
            self._stop(VerifyFinding.MALFORMED, text, n=0)
        if opened.key_id != self._key.key_id:
            self._wrong_key("the run was opened with another key", n=0, found=opened.key_id)

    def _check_head(self, line: bytes, root: bytes) -> None:
        """Check a signed head. Every byte of its line follows from what is signed, so nothing in it
        can change."""
        record = decode(line)
        try:
            head = parse_head(body_of(record.event))
        except InvalidInput as error:
            self._stop(VerifyFinding.BAD_HEAD, error.message, n=record.n)
        if head.key_id != self._key.key_id:
            self._wrong_key("the head is signed with another key", n=record.n, found=head.key_id)
        if not is_signed_by(head, self._key):
            self._stop(VerifyFinding.BAD_HEAD, "the signature is not valid", n=record.n)
        if head.run != self._run or head.size != record.n or _head_line(record, head) != line:
            text = "the record around the signed head is not the one that was written"
            self._stop(VerifyFinding.BAD_HEAD, text, n=record.n)
        self._compare_root(head, record.n, root)
        self._compare_steps(head, record.n)
        self._head = head
        self._heads += 1
        self._signed = head.size + 1
        if not self._has_gap:
            self._usable = self._signed

    def _compare_root(self, head: Head, n: int, root: bytes) -> None:
        if head.root == root.hex():
            return
        first = self._head.size if self._head else 0
        text = f"one of the records {first} to {n - 1} was changed and the chain rewritten"
        self._stop(VerifyFinding.REWRITTEN, text, n=n, expected=head.root, found=root.hex())

    def _compare_steps(self, head: Head, n: int) -> None:
        steps = self._chain.steps
        if head.steps is None or (head.steps, head.steps_root) == (steps.size, steps.root().hex()):
            return
        text = "the signed counts of the steps' records are not those of the records"
        self._stop(VerifyFinding.BAD_HEAD, text, n=n)

    def _check_blobs(self, line: bytes) -> None:
        record = decode(line)
        for ref in record.blobs:
            if not ref.is_kept:
                continue  # beyond the budget of its run: digest and size are all there is
            self._blob_count += 1
            if self._blobs is None or len(self._problems) >= _MAX_BLOB_FINDINGS:
                continue
            try:
                if len(self._blobs.read(ref.sha256)) != ref.size_bytes:
                    raise IntegrityError(f"the blob {ref.sha256} has another size than recorded")
            except NotFound as error:
                self._note(VerifyFinding.BLOB_MISSING, error.message, record.n)
            except IntegrityError as error:
                self._note(VerifyFinding.BLOB_CHANGED, error.message, record.n)

    def _check_request(self, line: bytes) -> None:
        """Check what a request to a model names: its digests are in the chain and hold the rest."""
        if self._chains is None or self._blobs is None:
            return
        record = decode(line)
        proposed = record.event
        if not isinstance(proposed, Proposed) or proposed.kind is not Kind.MODEL:
            return
        if len(self._problems) >= _MAX_BLOB_FINDINGS:
            return
        try:
            self._chains.check(self._whole_arguments(record, proposed))
        except NotFound as error:
            self._note(VerifyFinding.BLOB_MISSING, error.message, record.n)
        except IntegrityError as error:
            self._note(VerifyFinding.BLOB_CHANGED, error.message, record.n)

    def _whole_arguments(self, record: Record, proposed: Proposed) -> Mapping[str, Any]:
        if record.encoded is None or self._blobs is None:
            return proposed.arguments
        arguments = put_back(record.encoded.body, record.blobs, self._blobs).get("arguments")
        return arguments if isinstance(arguments, dict) else {}

    def _check_expected(self) -> None:
        if self._expected is None:
            return
        if self._expected.key_id != self._key.key_id:
            self._wrong_key(
                "the saved head is signed with another key", found=self._expected.key_id
            )
        if not is_signed_by(self._expected, self._key):
            self._stop(VerifyFinding.BAD_HEAD, "the signature of the saved head is not valid")

    def _compare_expected(self) -> None:
        assert self._expected is not None
        root = self._chain.tree.root().hex()
        if self._expected.root != root or self._expected.run != self._run:
            text = f"the first {self._expected.size} records are not those of the saved head"
            self._stop(
                VerifyFinding.REPLACED,
                text,
                expected=f"run {self._expected.run}, root {self._expected.root}",
                found=f"run {self._run}, root {root}",
            )

    def _end(self, expect_closed: bool) -> None:
        size = self._chain.size
        if size == 0:
            self._stop(VerifyFinding.TRUNCATED, "there is no record at all")
        if self._head is None:
            text = "no record is signed: whoever can write the file could have written all of it"
            self._stop(VerifyFinding.UNSIGNED, text, n=0)
        if self._expected is not None and self._expected.run != self._run:
            text = "the saved head is of another run"
            expected, found = f"run {self._expected.run}", f"run {self._run}"
            self._stop(VerifyFinding.REPLACED, text, expected=expected, found=found)
        if self._expected is not None and self._expected.size > size:
            text = f"the saved head has {many(self._expected.size, 'record')}, the journal {size}"
            self._stop(VerifyFinding.TRUNCATED, text, n=size)
        if expect_closed and not self._is_closed():
            text = "the end is missing: no `closed` record and head"
            self._stop(VerifyFinding.TRUNCATED, text, n=size)

    def _is_closed(self) -> bool:
        return (self._type_before, self._last_type) == (b"closed", b"head")

    def _wrong_key(self, text: str, *, found: str, n: int | None = None) -> NoReturn:
        self._stop(VerifyFinding.WRONG_KEY, text, n=n, expected=self._key.key_id, found=found)

    def _stop(
        self,
        finding: VerifyFinding,
        text: str,
        *,
        n: int | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> NoReturn:
        where = (self._path.name, self._line or None)
        self._problems.append(JournalProblem(finding, text, *where, n, expected, found))
        raise _Stop

    def _note(self, finding: VerifyFinding, text: str, n: int | None = None) -> None:
        """Add a problem that does not keep the rest from being checked."""
        where = (self._path.name, self._line or None)
        self._problems.append(JournalProblem(finding, text, *where, n))


def _head_line(record: Record, head: Head) -> bytes:
    return canonical(
        {
            "after": record.after,
            "at": head.at,
            "body": body_of(head),
            "n": record.n,
            "type": Head.TYPE,
        }
    )
