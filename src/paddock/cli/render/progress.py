"""The progress of work that takes a while, on the error output: a line for each part, written when
it begins and completed when it ends. Programs see nothing of it: to them the end is enough.
"""

from __future__ import annotations

import sys
import time


class Progress:
    """Tells a person which part of the work goes on, and how each one ended."""

    def __init__(self, total: int, *, is_shown: bool = True) -> None:
        self._total = total
        self._count = 0
        self._is_shown = is_shown and sys.stderr.isatty()
        self._name = ""
        self._began_at = 0.0

    def begin(self, name: str) -> None:
        self._count += 1
        self._name = name
        self._began_at = time.monotonic()
        self._write(f"{self._label} ...")

    def end(self, failure: str | None = None) -> None:
        took_s = time.monotonic() - self._began_at
        self._write(f"{self._label}: {failure or f'done in {took_s:.1f} s'}\n")

    @property
    def _label(self) -> str:
        return f"[{self._count}/{self._total}] {self._name}"

    def _write(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
