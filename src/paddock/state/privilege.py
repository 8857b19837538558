"""A check whether this process may do what only a full root can, such as mount and map ids."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_CAP_CHOWN, _CAP_SETUID, _CAP_SYS_ADMIN = 0, 7, 21


@cache
def is_privileged() -> bool:
    """Return whether we are root with the capabilities that go with it. Root in an ordinary
    container is not."""
    if os.geteuid() != 0:
        return False
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return all(held >> cap & 1 for cap in (_CAP_CHOWN, _CAP_SETUID, _CAP_SYS_ADMIN))
    return False
