"""The screen that the agent's output, our lines and one line that is rewritten in place share. What
our lines say comes from elsewhere.

Our lines go to the error output, so that the output of the agent stays clean for whoever reads it.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from paddock.cli.output import discard
from paddock.model.events import Configured, Record
from paddock.model.printable import printable

_CLEAR = "\r\033[2K"
_PLAIN_COLOUR = "\033[0m"
_WIDTH = 100  # where nobody says how wide it is
_COLOUR = r"\x1b\[[0-9;:]{0,40}m"
_PARTS = re.compile(rf"({_COLOUR}|[\n\r\t])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;:]{0,40})?\Z")  # what may become a colour


class TerminalFilter:
    """A filter for the output of an agent on its way to a terminal.

    Colours and line ends pass. Anything else that a terminal would act on is escaped: a cursor that
    moves could rewrite a question that a person is about to answer, and some sequences reach the
    clipboard. What is not whole yet (a character, a colour) waits for the rest. Output to a pipe or
    a file is not filtered."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""
        self.is_coloured = False  # whether a colour may still be on

    def feed(self, data: bytes) -> str:
        """Return what can be shown so far."""
        text = self._rest + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        self._rest = unfinished[0] if unfinished else ""
        return self._filter(text[: unfinished.start()] if unfinished else text)

    def end(self) -> str:
        """Return what waited in vain."""
        text = self._rest + self._decoder.decode(b"", final=True)
        self._rest = ""
        return self._filter(text)

    def _filter(self, text: str) -> str:
        if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
            return text
        parts = _PARTS.split(text)
        if len(parts) > 1:
            self.is_coloured = self.is_coloured or "\x1b[" in "".join(parts[1::2])
        return "".join(
            part if at % 2 else printable(part, len(part) + 1) for at, part in enumerate(parts)
        )


class Screen:
    """The two outputs of this process. One thread uses it."""

    def __init__(
        self,
        out: Any,
        err: Any,
        *,
        width: int | None = None,
        on_reader_gone: Callable[[], None] | None = None,
    ) -> None:
        self._on_reader_gone = on_reader_gone
        self.is_terminal = _is_tty(err)
        self._width = width
        self._err = err
        self._streams = {"stdout": out, "stderr": err}
        # Of the streams that a person looks at, what could harm is taken out.
        watched = [name for name, stream in self._streams.items() if _is_tty(stream)]
        self._filters = {name: TerminalFilter() for name in watched}
        self._on_screen = {name for name in self._streams if self._shares(name)}
        self._progress = ""
        self._is_line_open = False  # of the agent, on the screen

    @property
    def width(self) -> int:
        if self._width is not None:
            return self._width
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return os.get_terminal_size(self._err.fileno()).columns or _WIDTH
        return _WIDTH

    @property
    def is_unicode(self) -> bool:
        return "utf" in str(getattr(self._err, "encoding", "") or "").lower()

    def shows(self, stream: str) -> bool:
        """Return whether what is written to a stream is seen among our lines."""
        return stream in self._on_screen

    def pass_on(self, stream: str, data: bytes) -> None:
        """Write output of the agent to where it belongs."""
        terminal_filter = self._filters.get(stream)
        shown = (
            data
            if terminal_filter is None
            else terminal_filter.feed(data).encode("utf-8", "replace")
        )
        self._pass(stream, shown)

    def line(self, text: str) -> None:
        """Write one line of ours, or several."""
        self.hide()
        self._close_line()
        self._write(text + "\n")

    def progress(self, text: str) -> None:
        """Rewrite the last line. It waits while a line of the agent is open."""
        if not self.is_terminal or self._is_line_open or text == self._progress:
            return
        self._write(_CLEAR + text)
        self._progress = text

    def hide(self) -> None:
        """Take the last line away, for whoever else wants to write."""
        if self._progress:
            self._write(_CLEAR)
            self._progress = ""

    def end(self) -> None:
        """Write what waited, and put the cursor at the beginning of a line."""
        for name, terminal_filter in self._filters.items():
            self._pass(name, terminal_filter.end().encode("utf-8", "replace"))
        self.hide()
        self._close_line()

    def _pass(self, stream: str, data: bytes) -> None:
        if not data:
            return
        is_on_screen = stream in self._on_screen
        if is_on_screen:
            self.hide()
            self._is_line_open = not data.endswith(b"\n")
        target = self._streams[stream]
        with self._until_gone(target):
            target.flush()
            target.buffer.write(data)
            target.buffer.flush()

    def _close_line(self) -> None:
        if (
            any(terminal_filter.is_coloured for terminal_filter in self._filters.values())
            and self.is_terminal
        ):
            self._write(_PLAIN_COLOUR)
            for terminal_filter in self._filters.values():
                terminal_filter.is_coloured = False
        if self._is_line_open:
            self._write("\n")
            self._is_line_open = False

    def _write(self, text: str) -> None:
        with self._until_gone(self._err):
            self._err.flush()
            self._err.buffer.write(text.encode(self._encoding(), "backslashreplace"))
            self._err.buffer.flush()

    @contextlib.contextmanager
    def _until_gone(self, stream: Any) -> Iterator[None]:
        """Writes to a stream until it fails; the rest of what goes there is dropped. That the
        reader has gone is reported, once, to whoever may want to end the run for it."""
        try:
            yield
        except (ValueError, OSError) as error:
            discard(stream)
            if isinstance(error, BrokenPipeError) and self._on_reader_gone is not None:
                self._on_reader_gone()

    def _encoding(self) -> str:
        return str(getattr(self._err, "encoding", None) or "utf-8")

    def _shares(self, name: str) -> bool:
        """Return whether a stream and our lines are seen together, also in one file."""
        if name == "stderr":
            return True
        out = self._streams[name]
        if self.is_terminal and _is_tty(out):
            return True
        try:
            ours, its = os.fstat(self._err.fileno()), os.fstat(out.fileno())
        except (OSError, ValueError, AttributeError):
            return False
        return (ours.st_dev, ours.st_ino) == (its.st_dev, its.st_ino)


class ForPrograms:
    """Watches a run whose end is one JSON object on the output, and says nothing of its own. What
    the agent writes, to either output, goes to the error output, so that the object stands alone.
    """

    def __init__(self) -> None:
        is_seen = sys.stderr.isatty()
        self._filters = {name: TerminalFilter() for name in ("stdout", "stderr")} if is_seen else {}

    def began(self, run: str, configured: Configured) -> None:
        """Do nothing: the object has it."""

    def told(self, record: Record) -> None:
        """Do nothing: the object is made from the journal."""

    def said(self, stream: str, data: bytes) -> None:
        """Write to the error output, as it is unless a person looks at it."""
        if stream in self._filters:
            data = self._filters[stream].feed(data).encode()
        with contextlib.suppress(OSError, ValueError):  # a reader that went away ends no run
            sys.stderr.flush()
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()

    def finish(self) -> None:
        """Do nothing: nothing waits here."""


def _is_tty(stream: Any) -> bool:
    with contextlib.suppress(Exception):
        return bool(stream.isatty())
    return False
