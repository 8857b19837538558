"""Reads a message after DATA, line by line, until the line that has only a dot.

Servers that take other ends of a line than CR LF disagree about where a message ends, and then one
message can smuggle a second one in. So only CR LF, a dot, CR LF ends a message here, and a line
that breaks a rule spoils the message but never moves its end.
"""

from __future__ import annotations

from paddock_services.mail.outbox import MAX_MESSAGE

MAX_LINE = 64 << 10  # octets; many programs write longer lines than the 998 that are allowed
_MAX_IGNORED = 4 * MAX_MESSAGE


class DataReader:
    """The message that is being received."""

    def __init__(self) -> None:
        self.fault: tuple[int, str] | None = None  # code and text of the refusal
        self._data = bytearray()
        self._ignored = 0
        self._starts_line = True  # the line before this one ended with CR LF

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    @property
    def is_endless(self) -> bool:
        """Return whether so much of a spoilt message came that its end is not waited for."""
        return self._ignored > _MAX_IGNORED

    def feed_line(self, line: bytes) -> bool:
        """Take everything up to a LF. Return whether that was the end."""
        has_crlf = line.endswith(b"\r\n")
        starts_line, self._starts_line = self._starts_line, has_crlf
        if starts_line and line == b".\r\n":
            return True
        if not has_crlf or b"\r" in line[:-2]:
            self._spoil(550, "5.6.11 bare CR or LF in the letter")
        elif len(line) > MAX_LINE:
            self._spoil(500, "5.6.0 a line is too long")
        if starts_line and line.startswith(b"."):
            line = line[1:]
        if len(self._data) + len(line) > MAX_MESSAGE:
            self._spoil(552, "5.3.4 too large")
        if self.fault is None:
            self._data += line
        else:
            self._ignored += len(line)
        return False

    def skip(self, length: int) -> None:
        """Note that the beginning of a line that is too long has been thrown away."""
        self._spoil(500, "5.6.0 a line is too long")
        self._starts_line = False
        self._ignored += length

    def _spoil(self, code: int, text: str) -> None:
        if self.fault is None:
            self.fault = (code, text)
            self._data.clear()
