"""Waiting for a descriptor. Not by select(), which knows none beyond 1023: a worker that has run
thousands of tests may have such. No test lives here."""

from __future__ import annotations

import select


def is_readable(fd: int, timeout_s: float) -> bool:
    """Return whether there is something to read, or an end, within the time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
