"""Sizes and digests of request bodies, by which two of them are told apart."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from paddock.journal.secrets.value_hmac import ValueHmac

SPELLING = "body_spelling"  # among what is keyed: of a body whose numbers are not as they show
_STABLE = " without time and signature"  # of a credential that is computed for each request
_MAX_SPELLED = 1 << 20
# 1.0 and 1e2; in the journal they are 1 and 100. No part may run over digits from each of them on:
# a body of digits would take hours, and the whole process with it.
_WHOLE_FLOAT = re.compile(rb"[0-9](?:\.0*[,\]}\s]|\.?[eE][+-]?[0-9])")


def stable_place(place: str) -> str:
    """Return where the hash of a credential stands that leaves out what is new in it each time."""
    return place + _STABLE


def measure(raw: bytes | None) -> dict[str, Any]:
    """Return the size and the digest of a body."""
    if not raw:
        return {}
    return {"body_bytes": len(raw), "body_sha256": hashlib.sha256(raw).hexdigest()}


def spelling_hash(raw: bytes, parsed: Any, keyed: ValueHmac | None) -> dict[str, str]:
    """For JSON in which a number may stand that the journal spells otherwise: what tells it from
    one with other numbers, in whatever order its keys are."""
    if keyed is None or len(raw) > _MAX_SPELLED or _WHOLE_FLOAT.search(raw) is None:
        return {}
    try:
        return {SPELLING: keyed.of(json.dumps(parsed, sort_keys=True).encode())}
    except (ValueError, RecursionError):
        return {SPELLING: keyed.of(raw)}
