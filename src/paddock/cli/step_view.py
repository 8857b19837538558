"""The frame-by-frame view as values: what is selected, what a key does to that, and the lines of
the screen. Nothing is read from a terminal or written to one here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING

from paddock.cli.cells import cut, fit, wrapped
from paddock.cli.replay_text import seen
from paddock.cli.run_lines import what
from paddock.cli.step_panes import (
    heading,
    is_heading,
    messages_pane,
    step_pane,
    without_mark,
)
from paddock.cli.step_state import files_pane, world_pane
from paddock.journal.calls import detail_lines
from paddock.model.plain import plain
from paddock.model.values import dataclass

if TYPE_CHECKING:
    from paddock.run.rereading import Frame, Past

HELP = (
    "q quit  j/k step  PgUp/PgDn scroll  n not allowed  / search  s step  f files  w world  "
    "m messages  g/G first/last"
)
_COLOURS = {"block": "31", "ask": "33", "simulate": "36", "fault": "35"}
_LIST = 44  # columns of the list of steps, where there is room for it
_NARROW = 70
_KEPT = 512  # frames that are not read again
_MAX_SEARCH = 100
_PANES = {"s": "step", "f": "files", "w": "world", "m": "messages"}


@dataclass(slots=True)
class View:
    """One run, one step of it selected."""

    past: Past
    at: int = 0  # which of the steps
    pane: str = "step"
    scroll: int = 0
    typed: str | None = None  # what is searched for, while it is typed
    sought: str = ""
    message: str = ""
    is_done: bool = False
    is_coloured: bool = False
    frame: Callable[[int], Frame] = field(init=False)
    lines: Callable[[int, str], list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.frame = lru_cache(_KEPT)(self.past.frame)
        self.lines = lru_cache(16)(self._pane_lines)

    @property
    def step(self) -> int:
        return self.past.steps[self.at]

    def press(self, key: str, page: int) -> None:
        """What a key does; `page` is how many lines fit."""
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
                self._go(len(self.past.steps) - 1)
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
        """Exactly `height` lines, none wider than the terminal."""
        rows = max(height - 2, 1)
        left = _LIST if width >= _NARROW else 0
        right = width - left - (1 if left else 0)
        pane = self._shown(right, rows)
        listed = self._listed(left - 1, rows) if left else [""] * rows
        bar = "│" if left else ""
        body = [f"{one}{bar}{two}" for one, two in zip(listed, pane, strict=True)]
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
        self.at = min(max(at, 0), len(self.past.steps) - 1)
        self.scroll = 0

    def _seek(self, is_it: Callable[[Frame], bool], otherwise: str) -> None:
        """The next such step; from the last one it goes on at the first."""
        count = len(self.past.steps)
        for offset in range(1, count + 1):
            at = (self.at + offset) % count
            if is_it(self.past.frame(self.past.steps[at])):
                self._go(at)
                return
        self.message = plain(otherwise, 120)

    def _has_sought(self, frame: Frame) -> bool:
        sought = self.sought.lower()
        return any(sought in line.lower() for line in step_pane(frame))

    def _is_stopped(self, frame: Frame) -> bool:
        return frame.verdict != "allow"

    def _pane_lines(self, step: int, pane: str) -> list[str]:
        frame = self.frame(step)
        match pane:
            case "files":
                lines = files_pane(self.past, frame)
            case "world":
                lines = world_pane(self.past, frame)
            case "messages":
                lines = messages_pane(self.past, frame)
            case _:
                lines = step_pane(frame)
        return [heading(f"step {step}: {pane}"), *lines]

    def _shown(self, width: int, rows: int) -> list[str]:
        pieces = [
            (one, is_heading(line))
            for line in self.lines(self.step, self.pane)
            for one in wrapped(without_mark(line), width)
        ]
        self.scroll = min(self.scroll, max(len(pieces) - rows, 0))
        shown = pieces[self.scroll : self.scroll + rows]
        lines = [self._paint(one, "1" if is_ours else None) for one, is_ours in shown]
        return lines + [""] * (rows - len(lines))

    def _listed(self, width: int, rows: int) -> list[str]:
        first = min(max(self.at - rows // 2, 0), max(len(self.past.steps) - rows, 0))
        lines = []
        for at in range(first, min(first + rows, len(self.past.steps))):
            frame = self.frame(self.past.steps[at])
            mark = ">" if at == self.at else " "
            verdict = fit(plain(frame.verdict or "-", 20), 8)
            text = fit(f"{mark}{frame.step:>5} {verdict} {_gist(frame)}", width)
            colour = "7" if at == self.at else _COLOURS.get(frame.verdict or "")
            lines.append(self._paint(text, colour) + " ")
        return lines + [" " * (width + 1)] * (rows - len(lines))

    def _title(self, width: int) -> str:
        opened = self.past.opened
        who = f"{opened.get('run')} · {opened.get('agent')} · stage {opened.get('stage')}"
        place = f"step {self.step} ({self.at + 1} of {len(self.past.steps)})"
        return self._paint(fit(f"{plain(who, 200)} · {place}", width), "7")

    def _foot(self, width: int) -> str:
        if self.typed is not None:
            return cut(f"/{plain(self.typed, _MAX_SEARCH)}", width - 1)
        return self._paint(cut(self.message or HELP, width - 1), "90")

    def _paint(self, text: str, colour: str | None) -> str:
        return f"\033[{colour}m{text}\033[0m" if self.is_coloured and colour else text


def _gist(frame: Frame) -> str:
    """Return what the step was; of a question to a model what it answered, which tells more than
    the number of tokens."""
    step = seen(frame)
    lines = detail_lines(step.body, step.result) if step.kind == "model" else []
    return f"{plain(step.body.get('name', '-'), 20)} {lines[-1]}" if lines else what(step)
