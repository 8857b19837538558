"""The marks of overlayfs in an upper layer, as the kernel writes them in a user namespace."""

from __future__ import annotations

import os
import stat

OPAQUE = "user.overlay.opaque"


def is_whiteout(st: os.stat_result) -> bool:
    """Return whether a file says that the lower file of its name is deleted: device 0:0."""
    return stat.S_ISCHR(st.st_mode) and st.st_rdev == 0


def has_opaque_mark(fd: int) -> bool:
    """Return whether a directory hides the lower one of its name."""
    try:
        return os.getxattr(fd, OPAQUE) == b"y"
    except OSError:
        return False
