"""What the first record of a journal says about the program and the machine that wrote it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

from paddock.journal.keys import PublicKey
from paddock.journal.records import FORMAT


def opening_facts(opened: Mapping[str, Any], key: PublicKey) -> dict[str, Any]:
    """What the caller says, and what only we may say."""
    return {
        "paddock": paddock_version(),
        "host": host_facts(),
        **opened,
        "format": FORMAT,
        "key_id": key.key_id,
        "public_key": key.hex,
    }


@cache
def host_facts() -> dict[str, Any]:
    return {
        "cores": os.cpu_count() or 0,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "name": platform.node(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


@cache
def paddock_version() -> str:
    try:
        return metadata.version("paddock")
    except metadata.PackageNotFoundError:
        return "unknown"
