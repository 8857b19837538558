"""The state with which the programs of a run begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class InsideState(msgspec.Struct, frozen=True):
    """The state with which a run begins. `run` is the name that its programs are told; else its
    own."""

    memory: Mapping[str, Any] = {}
    run: str | None = None
