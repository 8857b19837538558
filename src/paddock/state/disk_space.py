"""The room that the disk of a home has left, and the reserve below which runs end.

A run that fills its disk takes from everything else on it, so runs end before that. What is left
then is enough to close their journals and for the rest of the machine to go on. A disk can still be
full in between two looks: whatever is written to it says so by `is_out_of_space`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from paddock.model.errors import OutOfSpace
from paddock.model.sizes import format_size
from paddock.model.space import is_out_of_space

# Runs end when less than this is free, or less than a twentieth of a small file system.
RESERVED_BYTES = 256 << 20
RESERVED_FILES = 1000
_SHARE = 20
_HINT = "remove what you do not need (paddock runs remove), or set PADDOCK_HOME to another disk"


def check_space(home: Path) -> None:
    """Raise OutOfSpace when the file system of a home is full, or nearly so."""
    status = os.statvfs(home)
    free, total = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    reserved = min(RESERVED_BYTES, total // _SHARE)
    if free < reserved:
        raise OutOfSpace(
            f"the disk of {home} is nearly full: {format_size(free)} are free, and runs end"
            f" below {format_size(reserved)}",
            hint=_HINT,
        )
    # Some file systems, such as btrfs, have no fixed number of files and say 0.
    if status.f_files and status.f_favail < min(RESERVED_FILES, status.f_files // _SHARE):
        raise OutOfSpace(
            f"the disk of {home} has room for {status.f_favail} more files only", hint=_HINT
        )


def files_bytes(directory: Path) -> int:
    """Return how many bytes the files below a directory have; those that go meanwhile have none."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{place}/{name}").st_size
    return total


def full_disk(home: Path, error: BaseException) -> OutOfSpace:
    """Return the error for a write to a home that failed because there is no room."""
    reason = getattr(error, "strerror", None) or str(error)
    return OutOfSpace(f"the disk of {home} is full: {reason}", hint=_HINT)


@contextlib.contextmanager
def telling_full_disk(home: Path) -> Iterator[None]:
    """Raise OutOfSpace in place of an error of the kernel or of SQLite that means it."""
    try:
        yield
    except OutOfSpace:
        raise
    except Exception as error:
        if is_out_of_space(error):
            raise full_disk(home, error) from error
        raise
