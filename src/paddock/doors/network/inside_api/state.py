"""What a run gives its programs to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class InsideState(msgspec.Struct, frozen=True):
    """What a run begins with. `run` is what its programs are told; else its own name."""

    memory: Mapping[str, Any] = {}
    run: str | None = None
