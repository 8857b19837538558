"""An S3-shaped storage, in two halves.

`service.py` is the half on the host: it seeds the store, and starts the other half in a pen.
`application.py` runs in the pen: moto (`backend.py`) answers requests, and `persistence.py` writes
each change to the store, as documents (`objects.py`). The pen loads nothing of the host's half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock_services.storage.service import Storage

__all__ = ["Storage"]


def __getattr__(name: str) -> Any:
    if name == "Storage":
        from paddock_services.storage.service import Storage

        return Storage
    raise AttributeError(name)
