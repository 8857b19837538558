"""The fields of /proc/PID/stat. A name with spaces or brackets is no trouble."""

from __future__ import annotations

STATE, PARENT, TERMINAL, FLAGS, STARTED = 0, 1, 4, 6, 19  # places in what `fields` gives


def fields(pid: int | str) -> list[bytes]:
    """Return the fields after the name; `self` is a pid too. Raises OSError when there is no
    process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
