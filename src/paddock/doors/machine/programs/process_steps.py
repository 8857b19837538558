"""The step that each process of a sandbox works for, as far as the host can tell.

A command is expected from the moment at which the guest is told to start it, and known by its
arguments when its exec is seen. From then on its pid, and each pid that it starts, belongs to its
step. An interpreter outlives the cell that started it: while a cell runs, what is unknown is its.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from paddock.model.results import ExecEvent

_MAX_EXPECTED = 1000
_MAX_PIDS = 10_000


class ExpectedCommand(msgspec.Struct, frozen=True):
    """A command that the guest has been told to start."""

    step: int
    argv: tuple[str, ...]
    real_paths: tuple[str, ...]  # of all programs that it runs, as they were decided on


class ProcessSteps:
    """The steps of one sandbox's processes; pids are as the sandbox numbers them."""

    def __init__(self) -> None:
        self._expected: list[ExpectedCommand] = []  # commands that are begun and not seen yet
        self._steps: dict[int, int] = {}  # by pid
        self._cells: list[int] = []  # steps of cells that run now
        self._running: list[int] = []  # steps of commands and cells that run now

    @contextlib.contextmanager
    def command(self, expected: ExpectedCommand, *, is_begun_elsewhere: bool) -> Iterator[None]:
        """Within this a command runs. One that another process begins is expected afterwards."""
        self._expected = [*self._expected[-_MAX_EXPECTED:], expected]
        self._running.append(expected.step)
        try:
            yield
        finally:
            self._running.remove(expected.step)
            if not is_begun_elsewhere:
                with contextlib.suppress(ValueError):
                    self._expected.remove(expected)

    @contextlib.contextmanager
    def cell(self, step: int) -> Iterator[None]:
        """Within this a cell runs."""
        self._cells.append(step)
        self._running.append(step)
        try:
            yield
        finally:
            self._cells.remove(step)
            self._running.remove(step)

    def assign(self, pid: int, step: int) -> None:
        """Make what that process does from now on part of the step."""
        self._steps[pid] = step

    def pids_of(self, step: int) -> list[int]:
        """Return the processes that work for a step."""
        return [pid for pid, its_step in self._steps.items() if its_step == step]

    def expectation(self, event: ExecEvent) -> ExpectedCommand | None:
        """Return the command that an exec begins, by its arguments."""
        for expected in self._expected:
            skip = 1 if expected.argv[0] == "@shell" else 0  # the guest chooses the shell
            if event.argv[skip:] == expected.argv[skip:]:
                return expected
        return None

    def of_exec(self, event: ExecEvent) -> int | None:
        """Return the step that a program is executed for, and remember it for its process."""
        step = self._steps.get(event.pid)
        if step is None:
            step = self._steps.get(event.parent)
        expected = self.expectation(event) if step is None else None
        if expected is not None:
            step = expected.step
        elif step is None and self._cells:
            step = self._cells[-1]  # an interpreter that is started for a cell
        if step is not None:
            if len(self._steps) > _MAX_PIDS:
                self._steps.pop(next(iter(self._steps)))
            self._steps[event.pid] = step
        return step

    def of_process(self, pid: int | None) -> int | None:
        """Return the step that a process works for; without a pid, that of what runs, if it is
        one."""
        step = None if pid is None else self._steps.get(pid)
        if step is not None and (step in self._running or not self._cells):
            return step
        if self._cells:
            return self._cells[-1]  # an interpreter outlives the cell that started it
        if step is None and len(self._running) == 1:
            return self._running[0]
        return step
