"""What the first record of a journal says about the program and the machine that wrote it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from paddock.journal.keys import PublicKey
from paddock.journal.records import FORMAT
from paddock.model.version import __version__


def opening_facts(opened: Mapping[str, Any], key: PublicKey) -> dict[str, Any]:
    """What the caller says, and what only we may say."""
    return {
        "paddock": __version__,
        "host": host_facts(),
        **opened,
        "format": FORMAT,
        "key_id": key.key_id,
        "public_key": key.hex,
    }


@cache
def host_facts() -> dict[str, Any]:
    system = os.uname()
    return {
        "cores": os.cpu_count() or 0,
        "kernel": system.release,
        "machine": system.machine,
        "name": system.nodename,
        "python": ".".join(map(str, sys.version_info[:3])),
        "system": system.sysname,
    }
