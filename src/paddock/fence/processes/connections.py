"""The ends of connections that programs inside a sandbox still hold. A program that will write
no more and waits for an answer looks, from the other end, like one that has gone.
"""

from __future__ import annotations

_MAX_BYTES = 4 << 20  # of a table: some 25000 connections
_PORT, _INODE = 1, 9  # fields of a line


def is_open(init_pid: int, port: int) -> bool:
    """Return whether anybody inside has a socket with this port; False where nobody can tell."""
    return any(_has(f"/proc/{init_pid}/net/{name}", port) for name in ("tcp", "tcp6"))


def _has(path: str, port: int) -> bool:
    wanted = f":{port:04X}".encode()
    try:
        with open(path, "rb") as file:
            lines = file.read(_MAX_BYTES).splitlines()[1:]
    except OSError:
        return False
    # A socket that no program has any more has no inode.
    return any(
        len(fields) > _INODE and fields[_PORT].endswith(wanted) and fields[_INODE] != b"0"
        for fields in map(bytes.split, lines)
    )
