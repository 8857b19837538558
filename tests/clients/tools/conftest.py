"""The gates of the unit tests, for the vendors' own packages."""

from __future__ import annotations

from unit.doors.tools.conftest import gate, key, opener

__all__ = ["gate", "key", "opener"]
