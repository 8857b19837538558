"""Refusals in a loop. An agent that tries the same thing without end must not fill the journal: the
first hundred are steps of their own, the rest is counted and written as one record.

Two refusals are identical if their actions are equal in every field that is recorded (without the
process id of a program, which is always another) and the same was decided, by the same rule, for
the same reason. Other actions may come in between. Each one is decided on; only the record is
short.

A count is written with the next thing that happens `WRITE_S` after its first refusal, and when the
journal is closed.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from paddock.journal.codec import encode
from paddock.model.action import Action, Decision, Kind
from paddock.model.events import Decided, Proposed, RefusedAgain

MAX_SINGLE = 100
WRITE_S = 10.0
_MAX_KNOWN = 4096  # kinds of refusals that are told apart; of the oldest the counting begins anew
Write = Callable[[RefusedAgain, int], None]


class _Group(msgspec.Struct):
    """Identical refusals: how many have steps of their own, the last of those, and the rest."""

    step: int
    singles: int = 1
    count: int = 0
    first_at: int = 0
    last_at: int = 0


class Refusals:
    """The refusals of one run. May be used from any thread."""

    def __init__(self, write: Write) -> None:
        """`write` records an event of a step."""
        self._write = write
        self._groups: OrderedDict[bytes, _Group] = OrderedDict()
        self._pending: dict[bytes, _Group] = {}  # those with a count that is not written
        self._due_s: float | None = None  # when the first of those has to be
        self._lock = threading.Lock()
        # What `count` has just looked at, for the `add` that mostly follows: arguments may have a
        # mebibyte. It is used once.
        self._last: tuple[Action, Decision, bytes] | None = None

    def count(self, action: Action, decision: Decision) -> int | None:
        """Count a refusal and return the step that stands for it; None for one that has to be a
        step of its own. Raises JournalBroken."""
        key = _identity(action, decision)
        with self._lock:
            group = self._groups.get(key)
            if group is None or group.singles < MAX_SINGLE:
                self._last = (action, decision, key)
                return None
            self._groups.move_to_end(key)
            self._count(key, group)
        self.write_due()
        return group.step

    def add(self, action: Action, decision: Decision, step: int) -> None:
        """Remember a refusal that is a step of its own."""
        last, self._last = self._last, None
        if last is not None and last[1] is decision and last[0].at(step) == action.at(step):
            key = last[2]
        else:
            key = _identity(action, decision)
        with self._lock:
            group = self._groups.get(key)
            if group is None:
                self._groups[key] = _Group(step)
            else:
                group.singles += 1
                group.step = step
                self._groups.move_to_end(key)
            if len(self._groups) > _MAX_KNOWN:
                self._groups.popitem(last=False)  # what it has pending is written all the same

    def repeat(self, action: Action, decision: Decision, step: int) -> None:
        """Count a refusal that a recorded run had counted as well. Raises JournalBroken."""
        key = _identity(action, decision)
        with self._lock:
            group = self._groups.setdefault(key, _Group(step, MAX_SINGLE))
            self._count(key, group)
        self.write_due()

    def write_due(self) -> None:
        """Write the counts if the first of them has waited long enough. Raises JournalBroken."""
        if self._due_s is not None and time.monotonic() >= self._due_s:
            self.flush()

    def flush(self) -> None:
        """Write all counts. Raises JournalBroken."""
        with self._lock:
            groups, self._pending, self._due_s = list(self._pending.values()), {}, None
            counts = [
                (RefusedAgain(group.count, group.first_at, group.last_at), group.step)
                for group in groups
            ]
            for group in groups:
                group.count = 0
        for refused_again, step in counts:
            self._write(refused_again, step)

    def _count(self, key: bytes, group: _Group) -> None:
        now = time.time_ns() // 1000
        if group.count == 0:
            group.first_at = now
            self._pending[key] = group
        group.count += 1
        group.last_at = now
        if self._due_s is None:
            self._due_s = time.monotonic() + WRITE_S


def _identity(action: Action, decision: Decision) -> bytes:
    if action.kind is Kind.EXEC and "pid" in action.arguments:
        arguments = {key: value for key, value in action.arguments.items() if key != "pid"}
        action = replace(action, arguments=arguments)
    text = f"{encode(Proposed.of(action))}\0{encode(Decided.of(decision))}"
    return sha256(text.encode("utf-8", "backslashreplace")).digest()
