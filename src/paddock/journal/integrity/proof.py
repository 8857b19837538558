"""A proof that stands alone: the records of one step, their paths to a signed root, the head, and
the signed number of records that the step has, so that none can be left out.

Whoever has the public key checks it without the journal and without Paddock's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.journal.codec import body_of, decode
from paddock.journal.integrity.heads import is_signed_by, parse_head
from paddock.journal.integrity.keys import PublicKey
from paddock.journal.integrity.merkle import Leaves, check_inclusion, leaf_hash
from paddock.journal.integrity.step_counts import is_count_of_step
from paddock.journal.records import Chain, ChainBroken, line_end, read_back
from paddock.journal.segments import segments
from paddock.model.errors import IntegrityError, InvalidInput, NotFound
from paddock.model.events import Head, Record
from paddock.model.plural import many
from paddock.objects.line_file import MAX_LINE_BYTES, batches

PURPOSE = "paddock journal proof v2"
# Of a run whose heads do not sign how many records a step has: earlier versions recorded it.
PURPOSE_WITHOUT_COUNT = "paddock journal proof v1"
_FIELDS = {"purpose", "run", "step", "key_id", "head", "records"}
_MAX_RECORDS = 100_000
_MAX_PATH = 64


def prove(place: Path, step: int) -> dict[str, Any]:
    """Return all records of a step that a head covers, each with its path to the last head's
    root."""
    reading = _Reading(step)
    for path in segments(place) if place.is_dir() else [place]:
        for batch in batches(path):
            for line in batch.lines:
                try:
                    reading.take(line)
                except ChainBroken:
                    size = reading.chain.size
                    raise IntegrityError(
                        f"{path.name}: the chain breaks at record {size}; verify the journal"
                    ) from None
    if not reading.found:
        raise NotFound(f"there is no step {step}")
    return reading.proof()


class _Reading:
    """The records of one step, up to the last head that fits the records of the journal."""

    def __init__(self, step: int) -> None:
        self.chain = Chain()
        self.found: list[tuple[int, bytes]] = []
        self._step = step
        self._leaves: list[bytes] = []
        self._head: Head | None = None
        self._count: dict[str, Any] = {}

    def take(self, line: bytes) -> None:
        if line.endswith(line_end(Head)):
            self._take_head(line)
        n, of_step, _ = self.chain.follow(line)
        self._leaves.append(bytes.fromhex(self.chain.last.decode()))
        if of_step == self._step:
            self.found.append((n, line))

    def _take_head(self, line: bytes) -> None:
        """One that does not fit was put behind the last signature by somebody else."""
        try:
            head = parse_head(body_of(decode(line).event))
        except (InvalidInput, IntegrityError):
            return
        chain = self.chain
        if (head.size, head.root) != (chain.size, chain.tree.root().hex()):
            return
        self._head = head
        if self.found and head.steps is not None:
            position, path = chain.steps.inclusion(self._step)
            self._count = {
                "records": chain.steps.count(self._step),
                "position": position,
                "path": [hashed.hex() for hashed in path],
            }

    def proof(self) -> dict[str, Any]:
        head, leaves = self._head, Leaves(self._leaves)
        if head is None or self.found[-1][0] >= head.size:
            raise NotFound(
                f"no signed head covers all of step {self._step} yet", hint="sign or close the run"
            )
        proof = {
            "purpose": PURPOSE if self._count else PURPOSE_WITHOUT_COUNT,
            "run": head.run,
            "step": self._step,
            "key_id": head.key_id,
            "head": body_of(head),
            "records": [
                {"line": line.decode(), "path": [h.hex() for h in leaves.inclusion(n, head.size)]}
                for n, line in self.found
            ],
        }
        return {**proof, "count": self._count} if self._count else proof


def check_proof(proof: Any, public_key: PublicKey) -> list[Record]:
    """Return the records that a proof proves. Raises IntegrityError that says why it proves
    nothing."""
    is_proof = isinstance(proof, Mapping) and (
        (proof.get("purpose") == PURPOSE and set(proof) == _FIELDS | {"count"})
        or (proof.get("purpose") == PURPOSE_WITHOUT_COUNT and set(proof) == _FIELDS)
    )
    if not is_proof:
        raise IntegrityError("this is not a proof from a journal")
    head = _checked_head(proof, public_key)
    records = proof["records"]
    if not isinstance(records, list) or not 0 < len(records) <= _MAX_RECORDS:
        raise IntegrityError("the proof has no records")
    proved = [_checked_record(item, proof["step"], head) for item in records]
    numbers = [record.n for record in proved]
    if numbers != sorted(set(numbers)):
        raise IntegrityError("the records of the proof are not in their order")
    if head.steps is not None:
        _check_count(proof, head, len(proved))
    return proved


def is_complete(proof: Mapping[str, Any]) -> bool:
    """Return whether a proof that was checked shows all records of its step that were signed."""
    return bool(proof["purpose"] == PURPOSE)


def _check_count(proof: Mapping[str, Any], head: Head, shown: int) -> None:
    assert head.steps is not None and head.steps_root is not None
    try:
        count = proof["count"]
        records, position = count["records"], count["position"]
        path = [bytes.fromhex(text) for text in count["path"]]
        if type(records) is not int or type(position) is not int or len(path) > _MAX_PATH:
            raise ValueError
    except (TypeError, KeyError, ValueError):
        raise IntegrityError("the proof does not say how many records its step has") from None
    root = bytes.fromhex(head.steps_root)
    if not is_count_of_step(proof["step"], records, position, path, size=head.steps, root=root):
        raise IntegrityError(f"the number of records of step {proof['step']} is not the signed one")
    if records != shown:
        raise IntegrityError(
            f"step {proof['step']} has {many(records, 'record')}; the proof has {shown}"
        )


def _checked_head(proof: Mapping[str, Any], key: PublicKey) -> Head:
    try:
        head = parse_head(proof["head"])
    except InvalidInput as error:
        raise IntegrityError(f"the head of the proof is malformed: {error.message}") from None
    if head.key_id != key.key_id or proof["key_id"] != key.key_id:
        raise IntegrityError(
            f"the proof is signed with the key {head.key_id}, not with {key.key_id}"
        )
    if not is_signed_by(head, key):
        raise IntegrityError("the signature of the proof's head is not valid")
    if (head.steps is None) != (proof["purpose"] == PURPOSE_WITHOUT_COUNT):
        raise IntegrityError("the proof does not say how many records its step has")
    if proof["run"] != head.run:
        raise IntegrityError(f"the proof is of run {head.run}, not of {proof['run']!r:.80}")
    return head


def _checked_record(item: Any, step: Any, head: Head) -> Record:
    try:
        line, path = item["line"].encode(), [bytes.fromhex(text) for text in item["path"]]
    except (TypeError, KeyError, AttributeError, ValueError):
        raise IntegrityError("a record of the proof is malformed") from None
    if len(line) > MAX_LINE_BYTES or len(path) > _MAX_PATH:
        raise IntegrityError("a record of the proof is too long")
    back = read_back(line)
    record = decode(line)
    if back is None or record.n != back[0] or type(step) is not int or record.step != step:
        raise IntegrityError(f"a record of the proof does not belong to step {step!r:.40}")
    if not check_inclusion(leaf_hash(line), record.n, head.size, path, bytes.fromhex(head.root)):
        raise IntegrityError(f"record {record.n} is not among the records that were signed")
    return record
