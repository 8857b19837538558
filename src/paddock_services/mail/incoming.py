"""A letter on its way in, line by line, until the line that has only a dot."""

from __future__ import annotations

from paddock_services.mail.outbox import MAX_MESSAGE

MAX_LINE = 64 << 10  # octets; many programs write longer lines than the 998 that are allowed
_MAX_IGNORED = 4 * MAX_MESSAGE


class Incoming:
    """What came after DATA. A line that breaks a rule spoils the letter, never its end."""

    def __init__(self) -> None:
        self.fault: tuple[int, str] | None = None
        self._data = bytearray()
        self._ignored = 0
        self._was_whole = True  # the line before this one ended with CR LF

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    @property
    def is_endless(self) -> bool:
        """So much of a spoilt letter came that its end is not waited for."""
        return self._ignored > _MAX_IGNORED

    def take(self, line: bytes) -> bool:
        """Takes all up to a LF. True: that was the end."""
        is_whole = line.endswith(b"\r\n")
        starts_new, self._was_whole = self._was_whole, is_whole
        if starts_new and line == b".\r\n":
            return True
        if not is_whole or b"\r" in line[:-2]:
            self._spoil(550, "5.6.11 bare CR or LF in the letter")
        elif len(line) > MAX_LINE:
            self._spoil(500, "5.6.0 a line is too long")
        if starts_new and line.startswith(b"."):
            line = line[1:]
        if len(self._data) + len(line) > MAX_MESSAGE:
            self._spoil(552, "5.3.4 too large")
        if self.fault is None:
            self._data += line
        else:
            self._ignored += len(line)
        return False

    def skip(self, length: int) -> None:
        """The beginning of a line that is too long has been thrown away."""
        self._spoil(500, "5.6.0 a line is too long")
        self._was_whole = False
        self._ignored += length

    def _spoil(self, code: int, text: str) -> None:
        if self.fault is None:
            self.fault = (code, text)
            self._data.clear()
