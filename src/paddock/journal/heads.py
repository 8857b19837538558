"""A signed tree head: so many records of that run have this root, said the holder of the key.

A head that was saved elsewhere proves later that a journal was not rewritten as a whole. It also
signs how many records each step has, as the root of a second tree (see `step_counts`); heads of
earlier versions do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paddock.journal.canonical import canonical
from paddock.journal.keys import PublicKey, SigningKey
from paddock.journal.step_counts import StepCounts
from paddock.model.errors import InvalidInput
from paddock.model.values import dataclass

# Signed along, so that a signature over anything else can never pass for one over a head.
_PURPOSE = "paddock journal head v1"
_HASH = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class Head:
    """The root of the first `size` records of a run, signed. Hashes and signature are hex. `steps`
    and `steps_root` are the number of its steps and the root over their counts of records; None in
    a head of an earlier version."""

    run: str
    size: int
    root: str
    at: int  # microseconds since 1970
    key_id: str
    signature: str
    steps: int | None = None
    steps_root: str | None = None

    @classmethod
    def sign(
        cls,
        key: SigningKey,
        *,
        run: str,
        size: int,
        root: bytes,
        at: int,
        steps: StepCounts | None = None,
    ) -> Head:
        unsigned = cls(run, size, root.hex(), at, key.public.key_id, "")
        if steps is not None:
            unsigned = replace(unsigned, steps=steps.size, steps_root=steps.root().hex())
        return replace(unsigned, signature=key.sign(unsigned._message()).hex())

    @classmethod
    def parse(cls, body: Any) -> Head:
        """From a record's body or a saved file; `InvalidInput` for anything that is not a head."""
        if not isinstance(body, Mapping) or set(body) not in (_FIELDS, _FIELDS | _STEP_FIELDS):
            raise InvalidInput(f"a tree head has exactly the fields {', '.join(sorted(_FIELDS))}")
        texts = [body[name] for name in ("run", "root", "key_id", "signature")]
        texts.append(body.get("steps_root", ""))
        counts = [body["size"], body["at"], body.get("steps", 0)]
        is_typed = all(type(text) is str for text in texts) and all(type(n) is int for n in counts)
        if not (
            is_typed
            and min(counts) >= 0
            and _HASH.fullmatch(body["root"])
            and _HASH.fullmatch(body.get("steps_root", body["root"]))
            and _HASH.fullmatch(body["key_id"])
            and _SIGNATURE.fullmatch(body["signature"])
        ):
            raise InvalidInput("a field of the tree head is malformed")
        return cls(**body)

    def as_body(self) -> dict[str, Any]:
        return {**self._claims(), "signature": self.signature}

    def is_signed_by(self, key: PublicKey) -> bool:
        return self.key_id == key.key_id and key.is_signed(
            self._message(), bytes.fromhex(self.signature)
        )

    def _claims(self) -> dict[str, Any]:
        claims: dict[str, Any] = {
            "at": self.at,
            "key_id": self.key_id,
            "root": self.root,
            "run": self.run,
            "size": self.size,
        }
        if self.steps is not None:
            claims |= {"steps": self.steps, "steps_root": self.steps_root}
        return claims

    def _message(self) -> bytes:
        return canonical({**self._claims(), "purpose": _PURPOSE})


_FIELDS = {"run", "size", "root", "at", "key_id", "signature"}
_STEP_FIELDS = {"steps", "steps_root"}
