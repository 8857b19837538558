"""Signs journals in which nothing is written any more: one thread serves all journals of a process.

A journal signs a head itself when it writes and one is due. An agent that waits for a model writes
nothing, and without this thread its latest records would stay unsigned until it goes on. The thread
ends when no journal has had unsigned records for a while, and is started again by the next one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Protocol

_INTERVAL_S = 0.1
_IDLE_S = 5.0


class Signed(Protocol):
    """The interface of a journal to the timer; a test may use another one."""

    def sign_when_due(self) -> bool: ...


class HeadTimer:
    """Calls `sign_when_due` of every journal that has unsigned records, until it has none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._journals: list[Signed] = []
        self._has_thread = False

    def watch(self, journal: Signed) -> None:
        """Take a journal on. It may hold its own lock: no lock of a journal is taken in here.

        Where no thread can be started (the process is about to end, or has too many), journals
        still sign when they write and when they are closed.
        """
        with self._changed:
            self._journals.append(journal)
            if self._has_thread:
                self._changed.notify()
                return
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._work, name="paddock-heads", daemon=True).start()
                self._has_thread = True

    def reset_after_fork(self) -> None:
        """Forget the parent's journals in a child process, where the thread does not exist."""
        self._changed = threading.Condition()
        self._journals = []
        self._has_thread = False

    def _work(self) -> None:
        while journals := self._take():
            time.sleep(_INTERVAL_S)
            left = [journal for journal in journals if _is_left(journal)]
            with self._changed:
                self._journals += left

    def _take(self) -> list[Signed]:
        """Return the journals with unsigned records; none when the thread is to end."""
        with self._changed:
            if not self._journals:
                self._changed.wait(_IDLE_S)
            taken, self._journals = self._journals, []
            self._has_thread = bool(taken)
            return taken


def _is_left(journal: Signed) -> bool:
    """Sign a journal if that is due, and return whether it has unsigned records. One that fails
    must not leave the others without signatures."""
    try:
        return journal.sign_when_due()
    except Exception:
        return False


HEAD_TIMER = HeadTimer()
os.register_at_fork(after_in_child=HEAD_TIMER.reset_after_fork)
