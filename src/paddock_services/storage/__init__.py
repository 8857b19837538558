"""An S3-shaped storage. Half of it runs in a pen, which loads nothing of the other half."""

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
