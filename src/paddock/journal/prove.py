"""A proof that stands alone: the records of one step, their paths to a signed root, the head.

Whoever has the public key checks it without the journal and without Paddock's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.journal.heads import Head
from paddock.journal.keys import PublicKey
from paddock.journal.merkle import Leaves, check_inclusion, leaf_hash
from paddock.journal.records import MAX_LINE_BYTES, Chain, ChainBroken, Record, read_back
from paddock.journal.segments import batches, segments
from paddock.model.errors import IntegrityError, InvalidInput, NotFound

PURPOSE = "paddock journal proof v1"
_FIELDS = {"purpose", "run", "step", "key_id", "head", "records"}
_MAX_RECORDS = 100_000
_MAX_PATH = 64


def prove(place: Path, step: int) -> dict[str, Any]:
    """All records of a step that a head covers, each with its path to the last head's root."""
    chain = Chain()
    leaves: list[bytes] = []
    found: list[tuple[int, bytes]] = []
    last_head = b""
    for path in segments(place) if place.is_dir() else [place]:
        for batch in batches(path):
            for line in batch.lines:
                try:
                    n, of_step, kind = chain.follow(line)
                except ChainBroken:
                    raise IntegrityError(
                        f"{path.name}: the chain breaks at record {chain.size}; verify the journal"
                    ) from None
                leaves.append(bytes.fromhex(chain.last.decode()))
                if of_step == step:
                    found.append((n, line))
                elif kind == b"head":
                    last_head = line
    if not found:
        raise NotFound(f"there is no step {step}")
    return _proof(step, found, Leaves(leaves), last_head)


def _proof(
    step: int, found: list[tuple[int, bytes]], leaves: Leaves, last_head: bytes
) -> dict[str, Any]:
    head = Head.parse(Record.parse(last_head).body) if last_head else None
    if head is None or found[-1][0] >= head.size:
        raise NotFound(
            f"no signed head covers all of step {step} yet", hint="sign or close the run"
        )
    return {
        "purpose": PURPOSE,
        "run": head.run,
        "step": step,
        "key_id": head.key_id,
        "head": head.as_body(),
        "records": [
            {"line": line.decode(), "path": [h.hex() for h in leaves.inclusion(n, head.size)]}
            for n, line in found
        ],
    }


def check_proof(proof: Any, public_key: PublicKey) -> list[Record]:
    """The records that a proof proves; `IntegrityError` says why it proves nothing."""
    if not isinstance(proof, Mapping) or set(proof) != _FIELDS or proof["purpose"] != PURPOSE:
        raise IntegrityError("this is not a proof from a journal")
    head = _checked_head(proof, public_key)
    records = proof["records"]
    if not isinstance(records, list) or not 0 < len(records) <= _MAX_RECORDS:
        raise IntegrityError("the proof has no records")
    proved = [_checked_record(one, proof["step"], head) for one in records]
    numbers = [record.n for record in proved]
    if numbers != sorted(set(numbers)):
        raise IntegrityError("the records of the proof are not in their order")
    return proved


def _checked_head(proof: Mapping[str, Any], key: PublicKey) -> Head:
    try:
        head = Head.parse(proof["head"])
    except InvalidInput as error:
        raise IntegrityError(f"the head of the proof is malformed: {error.message}") from None
    if head.key_id != key.key_id or proof["key_id"] != key.key_id:
        raise IntegrityError(
            f"the proof is signed with the key {head.key_id}, not with {key.key_id}"
        )
    if not head.is_signed_by(key):
        raise IntegrityError("the signature of the proof's head is not valid")
    if proof["run"] != head.run:
        raise IntegrityError(f"the proof is of run {head.run}, not of {proof['run']!r:.80}")
    return head


def _checked_record(one: Any, step: Any, head: Head) -> Record:
    try:
        line, path = one["line"].encode(), [bytes.fromhex(h) for h in one["path"]]
    except (TypeError, KeyError, AttributeError, ValueError):
        raise IntegrityError("a record of the proof is malformed") from None
    if len(line) > MAX_LINE_BYTES or len(path) > _MAX_PATH:
        raise IntegrityError("a record of the proof is too long")
    back = read_back(line)
    record = Record.parse(line)
    if back is None or record.n != back[0] or type(step) is not int or record.step != step:
        raise IntegrityError(f"a record of the proof does not belong to step {step!r:.40}")
    if not check_inclusion(leaf_hash(line), record.n, head.size, path, bytes.fromhex(head.root)):
        raise IntegrityError(f"record {record.n} is not among the records that were signed")
    return record
