"""Which errors of the host say that a disk is full. Looks at errors only; nothing is read here."""

from __future__ import annotations

import errno

_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
# SQLITE_FULL, and SQLITE_IOERR_SHMSIZE: there is no room for the shared memory file that every
# reader of a database in WAL mode needs.
_SQLITE_CODES = frozenset({13, 4874})


def is_out_of_space(error: BaseException) -> bool:
    """Return whether an error of the kernel or of SQLite means that there is no room left."""
    if getattr(error, "sqlite_errorcode", None) in _SQLITE_CODES:
        return True
    return isinstance(error, OSError) and error.errno in _ERRNOS
