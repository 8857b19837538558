"""The journal of a run: what happened, as a record that nobody can edit unseen.

Writing. The gate gives events (`model.events`) to a `Journal`. The writer masks secrets, encodes
the event as canonical JSON (`codec`), stores large values as blobs of their own (`blobs`), links
the line to the hash of the line before it (`records`) and appends it to a segment (`segments`).
Every so often it signs the root of a Merkle tree over all records so far (`merkle`, `heads`). What
such a head covers can be proved to others, replayed and forked.

Reading. `RunLog` decodes lines into records with typed events, and groups those that belong to one
action into a `Step` (`model.steps`). Everything else reads through it: the `RunIndex`, the
exports, and the reports and replays of other packages. Reading checks no hashes: `verify.verify`
checks the chain, the signatures and the blobs, a log with `Covered` reads only what was checked,
and `prove.prove` makes a proof of one step for somebody who has the public key and nothing else.

Names are loaded when they are first used: many commands need only one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.journal.index.index import RunIndex
    from paddock.journal.integrity.keys import PublicKey, SigningKey
    from paddock.journal.log import RunLog
    from paddock.journal.secrets.mask import Masker
    from paddock.journal.traffic import Traffic
    from paddock.journal.writer import Journal, JournalEntry, Rhythm

_MODULES = {
    "JournalEntry": "writer",
    "RunIndex": "index.index",
    "Journal": "writer",
    "Masker": "secrets.mask",
    "PublicKey": "integrity.keys",
    "Rhythm": "writer",
    "RunLog": "log",
    "SigningKey": "integrity.keys",
    "Traffic": "traffic",
}

__all__ = [
    "Journal",
    "JournalEntry",
    "Masker",
    "PublicKey",
    "Rhythm",
    "RunIndex",
    "RunLog",
    "SigningKey",
    "Traffic",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'paddock.journal' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"paddock.journal.{_MODULES[name]}"), name)
