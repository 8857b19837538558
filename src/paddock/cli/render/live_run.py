"""A run as a person sees it while it happens. Whoever tells (the engine's thread) only puts things
in a row; one thread of our own writes them, so that a slow terminal does not slow the run.

While a person is asked in this terminal, everything else waits: nothing may be written over a
question. A row that nobody takes from stops the agent's output, as a full pipe does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from paddock.cli.render.calls import call_summary, short_call_text
from paddock.cli.render.live_steps import LineRate, Steps
from paddock.cli.render.run_lines import (
    LineStyle,
    alert_line,
    configuration_lines,
    joined,
    plain_step,
    step_lines,
)
from paddock.cli.render.screen import Screen
from paddock.cli.render.units import thousands, took, usd_text
from paddock.model.events import Alert, Answered, Asked, Configured, Record, Settled
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.steps import Step

REDRAW_S = 0.05
MAX_WAITING_BYTES = 4 << 20
_IDLE_S = 0.2
_STILL_S = 1.0  # longer than any terminal takes that is looked at
_END_OF_INPUT = b"EOFError"  # as Python says it

Item = Record | tuple[str, bytes] | str


class LiveText:
    """Watches one run. `finish()` before anything else is printed."""

    def __init__(
        self,
        screen: Screen,
        *,
        is_coloured: bool = False,
        is_quiet: bool = False,
        is_asked_here: bool = False,
        limits: Mapping[str, str] | None = None,
    ) -> None:
        self.run: str | None = None  # its id, once it has one
        self.is_out_of_input = False  # the agent complained that it could read nothing
        self._complaint = b""  # the end of its error output
        self._screen = screen
        self._is_quiet = is_quiet
        self._is_coloured = is_coloured
        self._is_asked_here = is_asked_here and screen.is_terminal
        self._limits = dict(limits or {})
        self._row: deque[Item] = deque()
        self._held: deque[Item] = deque()  # until a person has answered
        self._asked: set[int] = set()  # steps about which a person is asked in this terminal
        self._waiting_bytes = self._lost_bytes = 0
        self._changed = threading.Condition()
        self._is_idle = False
        self._is_over = threading.Event()
        self._steps = Steps()
        self._rate = LineRate()
        self._began_at = time.monotonic()
        self._has_begun = False
        self._thread = threading.Thread(target=self._work, name="paddock-display", daemon=True)
        self._thread.start()

    @classmethod
    def here(cls, on_reader_gone: Callable[[], None] | None = None, **settings: Any) -> LiveText:
        """Make a display on the outputs of this process, in colour where a person wants it."""
        is_coloured = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        screen = Screen(sys.stdout, sys.stderr, on_reader_gone=on_reader_gone)
        return cls(screen, is_coloured=is_coloured and screen.is_terminal, **settings)

    def began(self, run: str, configured: Configured) -> None:
        """Take the id of the run, and what was mounted."""
        self.run = run
        if not self._is_quiet:
            with self._changed:
                self._row.extend(configuration_lines(configured, self._manner()))
                self._changed.notify_all()
        self._has_begun = True

    def told(self, record: Record) -> None:
        """Take a record as it was written. One that asks a person returns when the screen is
        still."""
        with self._changed:
            (self._held if self._asked else self._row).append(record)
            if not self._is_asked_here:
                self._changed.notify_all()
                return
            was_asked = bool(self._asked)
            _follow(self._asked, record)
            if was_asked and not self._asked:
                self._let_go()
            self._changed.notify_all()
            if self._asked and not was_asked:
                self._changed.wait_for(self._is_still, _STILL_S)

    def said(self, stream: str, data: bytes) -> None:
        """Take output of the agent. Wait while too much of it lies unread; not while a person is
        asked, whose question may be put by the same thread."""
        with self._changed:
            if stream == "stderr" and not self.is_out_of_input:
                self._complaint += data
                self.is_out_of_input = _END_OF_INPUT in self._complaint
                self._complaint = self._complaint[-len(_END_OF_INPUT) :]
            is_held = bool(self._asked) and self._screen.shows(stream)
            is_full = self._waiting_bytes > MAX_WAITING_BYTES
            if is_held and is_full:
                self._lost_bytes += len(data)
                return
            if is_full:
                self._changed.wait_for(self._has_room)
            (self._held if is_held else self._row).append((stream, data))
            self._waiting_bytes += len(data)
            self._changed.notify_all()

    def finish(self) -> None:
        """Write everything that was told, and take the last line away."""
        with self._changed:
            self._asked.clear()
            self._let_go()
            self._is_over.set()
            self._changed.notify_all()
        self._thread.join()

    def _let_go(self) -> None:
        """Show what was held back until a person had answered."""
        self._row.extend(self._held)
        self._held.clear()

    def _is_still(self) -> bool:
        return (self._is_idle and not self._row) or not self._thread.is_alive()

    def _has_room(self) -> bool:
        is_gone = self._is_over.is_set() or not self._thread.is_alive()
        return is_gone or self._waiting_bytes <= MAX_WAITING_BYTES

    def _work(self) -> None:
        drawn_at = 0.0
        while True:
            items = self._take_items()
            for item in items:
                self._show_or_say(item)
            now = time.monotonic()
            if self._is_over.is_set() and not items:
                break
            self._say_left_out(now)
            if now - drawn_at >= REDRAW_S:
                self._draw(now)
                drawn_at = now
            else:  # what comes meanwhile is drawn together
                self._is_over.wait(0 if self._asked else REDRAW_S - (now - drawn_at))
        self._end()

    def _take_items(self) -> list[Item]:
        """Return all items that wait."""
        with self._changed:
            if not self._row and not self._is_over.is_set():
                if self._asked:
                    self._screen.hide()
                self._is_idle = True
                self._changed.notify_all()
                self._changed.wait(_IDLE_S)
            self._is_idle = False
            items = list(self._row)
            self._row.clear()
            self._waiting_bytes -= sum(len(item[1]) for item in items if isinstance(item, tuple))
            self._changed.notify_all()
            return items

    def _show_or_say(self, item: Item) -> None:
        """Show an item. An error must not end the display: questions wait for it."""
        try:
            self._show(item)
        except Exception as error:
            self._screen.line(f"paddock: a line could not be shown: {type(error).__name__}")

    def _show(self, item: Item) -> None:
        if isinstance(item, str):
            self._ours(item)
            return
        if isinstance(item, tuple):
            self._screen.pass_on(*item)
            return
        step = self._steps.take(item)
        if self._is_quiet:
            return
        match item.event:
            case Alert() as alert:
                self._ours(alert_line(alert, item.step, self._manner()))
            case Asked() as asked if not self._is_asked_here:
                self._ours(_asked_line(asked, item.step, self._steps.under_way(item.step)))
        if step is None:
            return
        self._show_step(step, is_under_way=step.settled is None)
        if (inner := self._steps.within(step)) is not None:
            self._show_step(inner)

    def _show_step(self, step: Step, *, is_under_way: bool = False) -> None:
        if self._rate.is_full(step):
            return
        if self._screen.is_terminal:
            lines = step_lines(step, self._manner(), is_under_way=is_under_way)
            self._screen.line("\n".join(lines))
        else:
            self._screen.line(f"paddock: {plain_step(step, is_under_way=is_under_way)}")

    def _ours(self, text: str) -> None:
        """Write a line that is no step. Without a terminal it begins as all of ours do, so that who
        looks for them in a file finds it."""
        is_plain = not self._screen.is_terminal
        self._screen.line(f"paddock: {' '.join(text.split())}" if is_plain else text)

    def _say_left_out(self, now: float) -> None:
        if self._asked:
            return
        if text := self._rate.left_out(now, is_over=self._is_over.is_set()):
            self._ours(text)
        lost, self._lost_bytes = self._lost_bytes, 0
        if lost:
            self._ours(f"      ({many(lost, 'byte')} of the agent's output only in the journal)")

    def _draw(self, now: float) -> None:
        if self._is_quiet or not self._screen.is_terminal:
            return
        with self._changed:  # a question that comes now waits until this is drawn and hidden
            if self._asked:
                return
        self._screen.progress(joined(self._parts(now), self._manner()))

    def _parts(self, now: float) -> list[str]:
        """Return the most telling first: what does not fit is left out from the end."""
        steps, spent = self._steps, self._steps.spent
        parts = [
            many(steps.count, "step") if self._has_begun or steps.count else "starting",
            took(int((now - self._began_at) * 1e6)),
        ]
        stopped = {"blocked": steps.verdicts["block"], "asked": steps.verdicts["ask"]}
        if any(stopped.values()):
            parts.append(", ".join(f"{n} {what}" for what, n in stopped.items() if n))
        if spent["input_tokens"] or spent["output_tokens"]:
            parts.append(f"{thousands(spent['input_tokens'] + spent['output_tokens'])} tokens")
        if spent["usd_micros"]:
            parts.append(usd_text(spent["usd_micros"]))
        if (oldest := steps.oldest()) is not None:
            parts.append(f"{oldest.number} {short_call_text(oldest)[:40]}")
        return parts + [f"{name} {limit}" for name, limit in self._limits.items()]

    def _manner(self) -> LineStyle:
        return LineStyle(self._screen.width, self._is_coloured, self._screen.is_unicode)

    def _end(self) -> None:
        if not self._is_quiet:
            for step in self._steps.rest():
                is_running = bool(step.result.get("let_through"))
                self._show_step(step, is_under_way=is_running)
            self._say_left_out(time.monotonic())
        self._screen.end()


def _follow(asked: set[int], record: Record) -> None:
    """Keep the set of steps that wait for a person."""
    if record.step is None:
        return
    match record.event:
        case Asked():
            asked.add(record.step)
        case Answered() | Settled():
            asked.discard(record.step)


def _asked_line(asked: Asked, number: int | None, step: Step | None) -> str:
    approval = printable(asked.approval, 60)
    about = "" if step is None else f" ({call_summary(step.kind, step.name, step.arguments)})"
    return f"    ? step {number}{about} waits for a person: paddock approvals show {approval}"
