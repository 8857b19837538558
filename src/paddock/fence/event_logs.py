"""The programs and files that a driver observed inside one machine: the last ones, in memory.

A driver adds events; doors read them, listen to them and, for programs, set the judge that a driver
asks before it lets one run. Both logs are bounded: older events make room and are counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import replace

from paddock.fence.processes.programs import ExecAttempt
from paddock.model.results import ExecEvent, FileEvent

MAX_EVENTS = 10_000

# Returns the number of an error, or 0 to let it through; at once, or when a person has answered.
ExecJudgeFunction = Callable[[ExecAttempt], int | Awaitable[int]]


class ExecLog:
    """The last events of one sandbox, in order, each completed when its program ends."""

    def __init__(self) -> None:
        self._events: OrderedDict[int, ExecEvent] = OrderedDict()
        self.pids: OrderedDict[int, int] = OrderedDict()  # host pid -> the sandbox's own
        self._next = 0
        self.dropped = 0
        self.listeners: list[Callable[[ExecEvent], None]] = []
        self.judge: ExecJudgeFunction | None = None

    def add(self, event: ExecEvent) -> int:
        number, self._next = self._next, self._next + 1
        self._events[number] = event
        if len(self._events) > MAX_EVENTS:
            self._events.popitem(last=False)
            self.dropped += 1
        self._tell(event)
        return number

    def remember(self, host_pid: int, inner_pid: int) -> None:
        """Keep which process it was: file events ask for that after it has ended."""
        self.pids[host_pid] = inner_pid
        self.pids.move_to_end(host_pid)
        if len(self.pids) > MAX_EVENTS:
            self.pids.popitem(last=False)

    def complete(self, number: int, exit_code: int | None, ended_at: float) -> None:
        event = self._events.get(number)
        if event is not None and event.duration_s is None:
            done = replace(event, exit_code=exit_code, duration_s=ended_at - event.started_at)
            self._events[number] = done
            self._tell(done)

    def all(self) -> list[ExecEvent]:
        return list(self._events.values())

    def _tell(self, event: ExecEvent) -> None:
        for listener in list(self.listeners):
            listener(event)


class FileLog:
    """The last file events of one sandbox."""

    def __init__(self, pids: Mapping[int, int]) -> None:
        self.pids = pids  # of programs that may have ended before their event is read
        self._events: deque[FileEvent] = deque(maxlen=MAX_EVENTS)
        self.dropped = 0
        self._closers: list[Callable[[], object]] = []

    def add(self, event: FileEvent) -> None:
        if len(self._events) == MAX_EVENTS:
            self.dropped += 1
        self._events.append(event)

    def all(self) -> list[FileEvent]:
        return list(self._events)

    def on_close(self, closer: Callable[[], object]) -> None:
        self._closers.append(closer)

    def close(self) -> None:
        while self._closers:
            self._closers.pop()()
