"""Makes a sandbox's overlays look again at what lies under them.

The kernel keeps the names that it has looked up in an overlay, and does not expect that its layers
change underneath. After a restore it would still show files that are gone and miss those that came.
To reconfigure the mounted file system, with nothing changed, drops every name that nobody holds.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence

from paddock.fence.syscalls import open_in_root
from paddock.model.errors import HostCannot
from paddock.run import overlay_refresh_program
from paddock.state.privilege import is_privileged

_NR_FSCONFIG, _NR_FSPICK = 431, 433
_FSPICK_CLOEXEC, _FSPICK_EMPTY_PATH = 1, 8
_RECONFIGURE = 7
_NS_GET_USERNS = 0xB701
_JOIN_TIMEOUT_S = 20.0

_libc = ctypes.CDLL(None, use_errno=True)


def refresh_overlays(init_pid: int, targets: Sequence[str]) -> None:
    """Drop the cached names of overlays. Raises HostCannot where it is not possible: the sandbox
    would see other files than it has."""
    try:
        if is_privileged():
            _refresh_from_here(init_pid, targets)
        else:
            _refresh_from_inside(init_pid, targets)
    except (OSError, subprocess.TimeoutExpired) as error:
        said = error.strerror if isinstance(error, OSError) else "it took too long"
        raise HostCannot(
            f"the sandbox would not see which files came and went: {said}",
            hint="nothing inside may forbid that it is looked at; root always may",
        ) from None


def _refresh_from_here(init_pid: int, targets: Sequence[str]) -> None:
    """Refresh as root. A target is resolved within the sandbox's own root, so a link that an agent
    put on the way leads nowhere else, and the kernel refuses a target that is no mount."""
    root = os.open(f"/proc/{init_pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for target in targets:
            _refresh(root, target)
    finally:
        os.close(root)


def _refresh(root: int, target: str) -> None:
    mount = open_in_root(root, os.fsencode(target), os.O_PATH | os.O_CLOEXEC)
    try:
        # Root has the right to mount here and in the sandbox's namespace, which is a child.
        picked = _call(_NR_FSPICK, mount, b"", _FSPICK_CLOEXEC | _FSPICK_EMPTY_PATH)
    finally:
        os.close(mount)
    try:
        _call(_NR_FSCONFIG, picked, _RECONFIGURE, None, None, 0)
    finally:
        os.close(picked)


def _refresh_from_inside(init_pid: int, targets: Sequence[str]) -> None:
    """Refresh as an ordinary user. The user made the sandbox's namespaces, so a process of the user
    may enter them. The guest itself cannot be inspected, but the processes that it has started
    can."""
    mounts = _open_mount_namespace(init_pid)
    try:
        owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
        try:
            command = [
                sys.executable,
                "-I",
                "-S",
                overlay_refresh_program.__file__,
                str(owner),
                str(mounts),
            ]
            done = subprocess.run(
                [*command, *targets],
                pass_fds=(owner, mounts),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_JOIN_TIMEOUT_S,
                check=False,
            )
        finally:
            os.close(owner)
    finally:
        os.close(mounts)
    if done.returncode:
        raise OSError(done.returncode, os.strerror(done.returncode))


def _open_mount_namespace(init_pid: int) -> int:
    with open(f"/proc/{init_pid}/task/{init_pid}/children") as file:
        children = file.read(1 << 20).split()
    for child in children:
        try:
            return os.open(f"/proc/{child}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # it has ended, or forbids it
    raise ProcessLookupError(0, "no program runs in it that could be looked at")


def _call(number: int, *arguments: int | bytes | None) -> int:
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    value: int = _libc.syscall(ctypes.c_long(number), *converted)
    if value < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return value
