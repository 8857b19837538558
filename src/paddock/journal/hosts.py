"""The facts about the program and the machine that the first record of a journal states."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

import msgspec

from paddock.journal.codec import FORMAT
from paddock.journal.integrity.keys import PublicKey
from paddock.model.events import Opened
from paddock.model.version import __version__


def with_host_facts(opened: Opened, key: PublicKey) -> Opened:
    """Return the event with what only the journal may state: format, key, version and host."""
    return msgspec.structs.replace(
        opened,
        format=FORMAT,
        key_id=key.key_id,
        public_key=key.hex,
        paddock=__version__,
        host=host_facts(),
    )


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
