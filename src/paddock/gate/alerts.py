"""Alerts: attempts that a fence or a rule stopped, and that somebody should look at.

An alert is written to the journal when it is raised. The same one again within a while is counted
with the next, so that an agent in a loop cannot bury the others.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from paddock.model.events import Alert

EGRESS_DENIED = "egress.denied"  # an attempt to reach what is not allowed
QUIET_S = 10.0
MAX_KEPT = 200  # of one name
_MAX_KNOWN = 1000


class RaisedAlert(msgspec.Struct, frozen=True):
    """An alert with the step that it is about, and the time in seconds since 1970."""

    event: Alert
    step: int | None
    at: float

    @property
    def name(self) -> str:
        """Return the name of the alert, e.g. egress.denied or secret.misplaced."""
        return self.event.alert

    @property
    def about(self) -> Mapping[str, Any]:
        return self.event.about

    @property
    def times(self) -> int:
        """Return how often it was raised since it was last reported."""
        return self.event.times


Listener = Callable[[RaisedAlert], None]


def _moment(alert: RaisedAlert) -> float:
    return alert.at


class Alerts:
    """The alerts of one run."""

    def __init__(self, write: Callable[[Alert, int | None], None]) -> None:
        self.listeners: list[Listener] = []
        self._write = write
        self._kept: dict[str, deque[RaisedAlert]] = {}  # by name: a flood of one hides no other
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    def all(self) -> list[RaisedAlert]:
        return sorted((alert for kept in self._kept.values() for alert in kept), key=_moment)

    def raised(self, name: str, about: Mapping[str, Any], step: int | None = None) -> None:
        """Record the alert and call the listeners. Raises JournalBroken."""
        times = self._count((name, repr(sorted(about.items()))))
        if not times:
            return
        alert = RaisedAlert(Alert(name, times, dict(about)), step, time.time())
        self._kept.setdefault(name, deque(maxlen=MAX_KEPT)).append(alert)
        self._write(alert.event, step)
        for listener in self.listeners:
            with contextlib.suppress(Exception):  # of whoever listens: the run goes on
                listener(alert)

    def _count(self, key: tuple[str, str]) -> int:
        now = time.monotonic()
        told_at, missed = self._known.get(key, (-QUIET_S, 0))
        if now - told_at < QUIET_S:
            self._known[key] = (told_at, missed + 1)
            return 0
        if len(self._known) >= _MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[key] = (now, 0)
        return missed + 1
