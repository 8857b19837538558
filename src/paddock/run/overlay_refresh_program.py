"""A program of its own, standard library only: goes into a sandbox's mount namespace and makes its
overlays look again at what lies under them. For users who are not root; see `overlay_refresh`.

Arguments: the descriptor of the user namespace that owns the mounts, that of the mount namespace,
and the targets. Once inside nothing is loaded or opened any more: the files there are an agent's.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CLONE_NEWUSER, _CLONE_NEWNS = 0x10000000, 0x00020000
_NR_FSCONFIG, _NR_FSPICK = 431, 433
_FSPICK_CLOEXEC, _FSPICK_NO_SYMLINK = 1, 2
_AT_FDCWD = -100
_RECONFIGURE = 7


def main(arguments: list[str]) -> int:
    """Return 0, or the number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    owner, mounts, *targets = arguments
    paths = [os.fsencode(target) for target in targets]
    if libc.setns(int(owner), _CLONE_NEWUSER) or libc.setns(int(mounts), _CLONE_NEWNS):
        return ctypes.get_errno()
    for path in paths:
        flags = _FSPICK_CLOEXEC | _FSPICK_NO_SYMLINK
        picked = libc.syscall(ctypes.c_long(_NR_FSPICK), _AT_FDCWD, path, flags)
        if picked < 0:
            return ctypes.get_errno()
        if libc.syscall(ctypes.c_long(_NR_FSCONFIG), picked, _RECONFIGURE, None, None, 0) < 0:
            return ctypes.get_errno()
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
