"""Signing and checking tree heads.

A head says: the first `size` records of this run have this root. Saved elsewhere, it proves later
that a journal was not rewritten as a whole. It also signs how many records each step has, as the
root of a second tree (see `step_counts`); heads of earlier versions do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.journal.canonical import canonical
from paddock.journal.codec import body_of
from paddock.journal.integrity.keys import PublicKey, SigningKey
from paddock.journal.integrity.step_counts import StepCounts
from paddock.model.errors import InvalidInput
from paddock.model.events import Head

# Signed along, so that a signature over anything else can never pass for one over a head.
_PURPOSE = "paddock journal head v1"
_HASH = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")
_FIELDS = {"run", "size", "root", "at", "key_id", "signature"}
_STEP_FIELDS = {"steps", "steps_root"}


def sign_head(
    key: SigningKey, *, run: str, size: int, root: bytes, at: int, steps: StepCounts
) -> Head:
    """Return a signed head. `steps` counts the records of each step."""
    unsigned = Head(
        run, size, root.hex(), at, key.public.key_id, "", steps.size, steps.root().hex()
    )
    return msgspec.structs.replace(unsigned, signature=key.sign(_message(unsigned)).hex())


def parse_head(body: Any) -> Head:
    """Return the head in a record's body or a saved file. Raises InvalidInput for anything else:
    a head is evidence, so a field too many or too few is not overlooked."""
    if not isinstance(body, Mapping) or set(body) not in (_FIELDS, _FIELDS | _STEP_FIELDS):
        raise InvalidInput(f"a tree head has exactly the fields {', '.join(sorted(_FIELDS))}")
    try:
        head = msgspec.convert(dict(body), Head)
    except msgspec.ValidationError:
        raise InvalidInput("a field of the tree head is malformed") from None
    if not _is_well_formed(head):
        raise InvalidInput("a field of the tree head is malformed")
    return head


def _is_well_formed(head: Head) -> bool:
    hashes = (head.root, head.key_id, head.steps_root or head.root)
    return (
        min(head.size, head.at, head.steps or 0) >= 0
        and all(_HASH.fullmatch(text) for text in hashes)
        and _SIGNATURE.fullmatch(head.signature) is not None
    )


def is_signed_by(head: Head, key: PublicKey) -> bool:
    """Return whether the head was signed with this key."""
    if head.key_id != key.key_id:
        return False
    return key.is_signed(_message(head), bytes.fromhex(head.signature))


def _message(head: Head) -> bytes:
    claims = {name: value for name, value in body_of(head).items() if name != "signature"}
    return canonical({**claims, "purpose": _PURPOSE})
