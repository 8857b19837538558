"""Values that a replay needs and nobody may read in a journal, encrypted for this home
(AES-256-GCM).

A seal holds for one run: copied into another journal it does not open. `cryptography` is loaded
when something is sealed or opened.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paddock.journal.secrets.value_hmac import derived
from paddock.model.errors import IntegrityError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# Headers of an answer are bounded by the door long before; what is read back is bounded here.
MAX_SEALED = 1 << 20
_NONCE = 12
_VERSION = "1."
_PURPOSE = b"paddock: sealed headers"


class Sealer:
    """Seals and opens with the key of one home."""

    def __init__(self, key: bytes) -> None:
        self._key = derived(key, _PURPOSE)
        self._cipher: AESGCM | None = None

    def seal(self, pairs: Sequence[tuple[bytes, bytes]], run: str) -> str:
        """Return names and values as text that only `unseal` of the same run reads."""
        decoded = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in pairs]
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._ready().encrypt(nonce, json.dumps(decoded).encode(), run.encode())
        return _VERSION + base64.b64encode(nonce + sealed).decode()

    def unseal(self, text: str, run: str) -> list[tuple[bytes, bytes]]:
        """Return what was sealed. Raises IntegrityError for what was not sealed here, for this
        run."""
        from cryptography.exceptions import InvalidTag

        if not text.startswith(_VERSION) or len(text) > MAX_SEALED:
            raise IntegrityError("this is no seal that is known here")
        try:
            raw = base64.b64decode(text.removeprefix(_VERSION), validate=True)
            decrypted = self._ready().decrypt(raw[:_NONCE], raw[_NONCE:], run.encode())
        except (InvalidTag, binascii.Error, ValueError):
            why = "the seal does not open: it is of another run or home, or was changed"
            raise IntegrityError(why) from None
        pairs = json.loads(decrypted)
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]

    def _ready(self) -> AESGCM:
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._cipher = AESGCM(self._key)
        return self._cipher
