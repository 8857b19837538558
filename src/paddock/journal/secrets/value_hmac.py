"""HMACs of values that the journal does not show, with a key of this home: two runs can be
compared, and whoever reads a journal cannot try out what the value may have been.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.journal.canonical import canonical
from paddock.journal.plain_values import as_json

FILE_NAME = "journal.seal"  # beside the key that signs; seals are made with it too
MAX_LEAVES = 256  # of one value; where more are masked, one hash is of all of it
_HEX = 32  # characters of a hash that are kept: 128 bits
_PURPOSE = b"paddock: keyed hashes of values that are not shown"


class ValueHmac:
    """Makes the HMACs."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = derived(key, _PURPOSE)

    def of(self, value: str | bytes) -> str:
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return hmac.digest(self._key, data, "sha256").hex()[:_HEX]


def hmac_leaves(keyed: ValueHmac, value: Any, masked: Any) -> dict[str, str]:
    """Return where `masked` differs from `value`, as JSON pointers, with the HMAC of what stood
    there.

    Pointers have the masked names. A name that was masked itself has a pointer that
    ends in `#`.
    """
    leaves: dict[str, str] = {}
    for pointer, raw in _changed(as_json(value), as_json(masked), ""):
        if len(leaves) >= MAX_LEAVES:
            return {"": keyed.of(canonical(as_json(value)))}
        leaves[pointer] = keyed.of(raw if isinstance(raw, str) else canonical(raw))
    return leaves


def derived(key: bytes, purpose: bytes) -> bytes:
    """Return a key for one purpose (HKDF-Expand, RFC 5869; the key is random, so nothing is
    extracted)."""
    return hmac.digest(key, purpose + b"\x01", "sha256")


def _changed(value: Any, masked: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and isinstance(masked, Mapping) and len(value) == len(masked):
        # In the same order: masking changes names and keeps their places.
        for (name, item), (shown, below) in zip(value.items(), masked.items(), strict=True):
            step = f"{pointer}/{shown.replace('~', '~0').replace('/', '~1')}"
            if name != shown:
                yield f"{step}#", name
            yield from _changed(item, below, step)
    elif isinstance(value, list) and isinstance(masked, list) and len(value) == len(masked):
        for at, (item, below) in enumerate(zip(value, masked, strict=True)):
            yield from _changed(item, below, f"{pointer}/{at}")
    elif type(value) is not type(masked) or value != masked:
        yield pointer, value
