"""The frame-by-frame view as values: what is selected, what a key does to that, and the lines of
the screen. Nothing is read from a terminal or written to one here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import msgspec

from paddock.cli.render.calls import short_call_text
from paddock.cli.render.cells import VERDICT_COLOURS, cut, fit, paint, wrapped
from paddock.cli.render.step_panes import (
    files_pane,
    heading,
    is_heading,
    messages_pane,
    step_pane,
    without_mark,
    world_pane,
)
from paddock.journal.calls import detail_lines
from paddock.model.action import Kind, Verdict
from paddock.model.printable import printable

if TYPE_CHECKING:
    from paddock.model.steps import Step
    from paddock.run.history import HistoryStep, RunHistory

HELP = (
    "q quit  j/k step  PgUp/PgDn scroll  n not allowed  / search  s step  f files  w world  "
    "m messages  g/G first/last"
)
_LIST = 44  # columns of the list of steps, where there is room for it
_NARROW = 70
_KEPT = 512  # steps that are not read again
_MAX_SEARCH = 100
_PANES = {"s": "step", "f": "files", "w": "world", "m": "messages"}


class StepView(msgspec.Struct, dict=True):
    """One run, one step of it selected."""

    history: RunHistory
    at: int = 0  # which of the steps
    pane: str = "step"
    scroll: int = 0
    typed: str | None = None  # what is searched for, while it is typed
    sought: str = ""
    message: str = ""
    is_done: bool = False
    is_coloured: bool = False

    @cached_property
    def recorded(self) -> Callable[[int], HistoryStep]:
        """Gives a step by its number; the last ones are not read again."""
        return lru_cache(_KEPT)(self.history.step)

    @cached_property
    def lines(self) -> Callable[[int, str], list[str]]:
        """Gives the lines of a pane for a step; the last ones are not made again."""
        return lru_cache(16)(self._pane_lines)

    @property
    def step(self) -> int:
        return self.history.step_numbers[self.at]

    def press(self, key: str, page: int) -> None:
        """Do what a key means; `page` is how many lines fit."""
        self.message = ""
        if self.typed is not None:
            self._type(key)
            return
        match key:
            case "q" | "\x03" | "\x04":
                self.is_done = True
            case "j" | "right" | "down":
                self._go(self.at + 1)
            case "k" | "left" | "up":
                self._go(self.at - 1)
            case "g" | "home":
                self._go(0)
            case "G" | "end":
                self._go(len(self.history.step_numbers) - 1)
            case "pagedown" | " ":
                self.scroll += max(page - 1, 1)
            case "pageup" | "b":
                self.scroll = max(self.scroll - max(page - 1, 1), 0)
            case "n":
                self._seek(self._is_stopped, "no further step was stopped")
            case "/":
                self.typed = ""
            case "s" | "f" | "w" | "m":
                self.pane, self.scroll = _PANES[key], 0

    def screen(self, width: int, height: int) -> list[str]:
        """Return exactly `height` lines, none wider than the terminal."""
        rows = max(height - 2, 1)
        left = _LIST if width >= _NARROW else 0
        right = width - left - (1 if left else 0)
        pane = self._pane(right, rows)
        listed = self._step_list(left - 1, rows) if left else [""] * rows
        bar = "│" if left else ""
        body = [f"{row}{bar}{line}" for row, line in zip(listed, pane, strict=True)]
        return [self._title(width), *body, self._foot(width)]

    def _type(self, key: str) -> None:
        assert self.typed is not None
        if key in ("\r", "\n"):
            self.sought, self.typed = self.typed or self.sought, None
            self._seek(self._has_sought, f"no further step has {self.sought!r}")
        elif key in ("\x1b", "\x03"):
            self.typed = None
        elif key in ("\x7f", "\b"):
            self.typed = self.typed[:-1]
        elif len(key) == 1 and key.isprintable():
            self.typed = (self.typed + key)[:_MAX_SEARCH]

    def _go(self, at: int) -> None:
        self.at = min(max(at, 0), len(self.history.step_numbers) - 1)
        self.scroll = 0

    def _seek(self, is_it: Callable[[HistoryStep], bool], otherwise: str) -> None:
        """Go to the next such step; from the last one it goes on at the first."""
        count = len(self.history.step_numbers)
        for offset in range(1, count + 1):
            at = (self.at + offset) % count
            if is_it(self.history.step(self.history.step_numbers[at])):
                self._go(at)
                return
        self.message = printable(otherwise, 120)

    def _has_sought(self, recorded: HistoryStep) -> bool:
        sought = self.sought.lower()
        return any(sought in line.lower() for line in step_pane(recorded))

    def _is_stopped(self, recorded: HistoryStep) -> bool:
        return recorded.step.verdict is not Verdict.ALLOW

    def _pane_lines(self, number: int, pane: str) -> list[str]:
        recorded = self.recorded(number)
        match pane:
            case "files":
                lines = files_pane(self.history, recorded)
            case "world":
                lines = world_pane(self.history.log.opened.run, number)
            case "messages":
                lines = messages_pane(self.history, recorded.step)
            case _:
                lines = step_pane(recorded)
        return [heading(f"step {number}: {pane}"), *lines]

    def _pane(self, width: int, rows: int) -> list[str]:
        pieces = [
            (piece, "1" if is_heading(line) else None)
            for line in self.lines(self.step, self.pane)
            for piece in wrapped(without_mark(line), width)
        ]
        self.scroll = min(self.scroll, max(len(pieces) - rows, 0))
        shown = pieces[self.scroll : self.scroll + rows]
        lines = [self._paint(piece, colour) for piece, colour in shown]
        return lines + [""] * (rows - len(lines))

    def _step_list(self, width: int, rows: int) -> list[str]:
        first = min(max(self.at - rows // 2, 0), max(len(self.history.step_numbers) - rows, 0))
        lines = []
        for at in range(first, min(first + rows, len(self.history.step_numbers))):
            step = self.recorded(self.history.step_numbers[at]).step
            mark = ">" if at == self.at else " "
            verdict = fit(step.verdict or "-", 8)
            text = fit(f"{mark}{step.number:>5} {verdict} {_gist(step)}", width)
            colour = "7" if at == self.at else VERDICT_COLOURS.get(step.verdict or "")
            lines.append(self._paint(text, colour) + " ")
        return lines + [" " * (width + 1)] * (rows - len(lines))

    def _title(self, width: int) -> str:
        opened = self.history.log.opened
        who = f"{opened.run} · {opened.agent} · stage {opened.stage}"
        place = f"step {self.step} ({self.at + 1} of {len(self.history.step_numbers)})"
        return self._paint(fit(f"{printable(who, 200)} · {place}", width), "7")

    def _foot(self, width: int) -> str:
        if self.typed is not None:
            return cut(f"/{printable(self.typed, _MAX_SEARCH)}", width - 1)
        return self._paint(cut(self.message or HELP, width - 1), "90")

    def _paint(self, text: str, colour: str | None) -> str:
        return paint(text, colour, self.is_coloured)


def _gist(step: Step) -> str:
    """Return what the step was; of a call of a model what it answered, which tells more than the
    number of tokens."""
    lines = detail_lines(step) if step.kind is Kind.MODEL else []
    return f"{printable(step.name or '-', 20)} {lines[-1]}" if lines else short_call_text(step)
