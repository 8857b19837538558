"""A proof convinces whoever has the public key, and only of what was signed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cases import for_each
from paddock.journal.codec import encode
from paddock.journal.integrity.keys import PublicKey, SigningKey
from paddock.journal.integrity.proof import PURPOSE_WITHOUT_COUNT, check_proof, is_complete, prove
from paddock.journal.log import RunLog
from paddock.journal.records import Chain
from paddock.journal.writer import Rhythm
from paddock.model.errors import IntegrityError, NotFound
from unit.journal.conftest import Opener, settled, write_steps


def test_proof_of_each_step_stands_alone(closed_run: Path, key: SigningKey) -> None:
    for step in range(6):
        proof = json.loads(json.dumps(prove(closed_run, step)))
        records = check_proof(proof, key.public)
        assert [record.type for record in records] == [
            "proposed",
            "decided",
            "program_started",
            "settled",
        ]
        assert records[-1].event == settled({"number": step})


def test_step_that_no_head_covers_is_not_proved(opener: Opener, key: SigningKey) -> None:
    journal = opener(rhythm=Rhythm(head_records=1000))
    write_steps(journal, 1)
    with pytest.raises(NotFound, match="no signed head"):
        prove(journal.directory, 0)
    journal.sign()
    assert len(check_proof(prove(journal.directory, 0), key.public)) == 4


def test_step_that_is_not_there_is_not_proved(closed_run: Path) -> None:
    with pytest.raises(NotFound, match="no step 77"):
        prove(closed_run, 77)


def test_nothing_is_proved_from_a_journal_that_is_broken(closed_run: Path) -> None:
    path = closed_run / "000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b"ticket 0", b"ticket 9"))
    with pytest.raises(IntegrityError, match="chain breaks"):
        prove(closed_run, 3)


def _set(proof: dict[str, Any], key: str, value: Any) -> None:
    proof[key] = value


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "the words of a record": lambda p: p["records"][0].update(
        line=p["records"][0]["line"].replace("ticket", "TICKET")
    ),
    "the step": lambda p: _set(p, "step", 2),
    "the run": lambda p: _set(p, "run", "another"),
    "the key": lambda p: _set(p, "key_id", "0" * 64),
    "the purpose": lambda p: _set(p, "purpose", "another"),
    "the root": lambda p: p["head"].update(root="0" * 64),
    "the size": lambda p: p["head"].update(size=p["head"]["size"] + 1),
    "the signature": lambda p: p["head"].update(signature="0" * 128),
    "the time of the head": lambda p: p["head"].update(at=1),
    "a hash of the path": lambda p: p["records"][0]["path"].__setitem__(0, "0" * 64),
    "a shorter path": lambda p: p["records"][0]["path"].pop(),
    "a longer path": lambda p: p["records"][0]["path"].append("0" * 64),
    "the order": lambda p: p["records"].reverse(),
    "a record twice": lambda p: p["records"].append(p["records"][0]),
    "no records": lambda p: _set(p, "records", []),
    "records of another kind": lambda p: _set(p, "records", [1, None]),
    "a field too many": lambda p: _set(p, "extra", 1),
    "a head that is text": lambda p: _set(p, "head", "head"),
    "a path that is not hex": lambda p: p["records"][0].update(path=["zz"]),
}


@for_each("change", CHANGES)
def test_proof_with_a_change_proves_nothing(closed_run: Path, key: SigningKey, change: str) -> None:
    proof = copy.deepcopy(prove(closed_run, 1))
    CHANGES[change](proof)
    with pytest.raises(IntegrityError):
        check_proof(proof, key.public)


@pytest.mark.parametrize("proof", [None, [], {}, "proof", {"purpose": 1}])
def test_what_is_no_proof_is_refused(key: SigningKey, proof: Any) -> None:
    with pytest.raises(IntegrityError):
        check_proof(proof, key.public)


def test_proof_under_another_key_proves_nothing(closed_run: Path, tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="signed with the key"):
        check_proof(prove(closed_run, 1), SigningKey.open(tmp_path / "other").public)


def test_a_record_left_out_of_a_proof_is_found(closed_run: Path, key: SigningKey) -> None:
    whole = prove(closed_run, 1)
    for at in range(4):
        proof = copy.deepcopy(whole)
        del proof["records"][at]
        with pytest.raises(IntegrityError, match="has 4 records; the proof has 3"):
            check_proof(proof, key.public)
        proof["count"]["records"] = 3
        with pytest.raises(IntegrityError, match="is not the signed one"):
            check_proof(proof, key.public)
        # Nor does it help to call it a proof of a version that signed no counts.
        del proof["count"]
        proof["purpose"] = PURPOSE_WITHOUT_COUNT
        with pytest.raises(IntegrityError, match="does not say how many"):
            check_proof(proof, key.public)


def test_count_of_another_step_or_head_does_not_pass(closed_run: Path, key: SigningKey) -> None:
    proof, other = prove(closed_run, 1), prove(closed_run, 2)
    proof["count"] = other["count"]
    with pytest.raises(IntegrityError, match="is not the signed one"):
        check_proof(proof, key.public)


def test_an_unsigned_head_behind_the_last_signature_is_not_used(
    opener: Opener, key: SigningKey
) -> None:
    """Whoever can write the file can put a head there, and nobody gets a proof that fails."""
    journal = opener()
    write_steps(journal, 1)
    journal.sign()
    journal.abandon()
    path = journal.directory / "000001.jsonl"
    chain = Chain()
    for line in path.read_bytes().splitlines():
        chain.follow(line)
    head = RunLog(journal.directory).last_head()
    assert head is not None
    forged = msgspec.structs.replace(head, size=chain.size)
    with path.open("ab") as file:
        file.write(chain.link("head", encode(forged), at=1, step=None) + b"\n")
    assert len(check_proof(prove(journal.directory, 0), key.public)) == 4


def test_proof_from_an_older_run_does_not_claim_to_be_complete() -> None:
    journals = Path(__file__).parents[3] / "journals" / "v1"
    proof = prove(journals / "run", RunLog(journals / "run").step_numbers()[0])
    assert check_proof(proof, PublicKey.load(journals / "journal.pub"))
    assert not is_complete(proof)
