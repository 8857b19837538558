"""A run for programs: one JSON object on the output when it has ended. The agent's own output, both
kinds, goes to the error output meanwhile, so that the object stands alone.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

from paddock.cli.harmless import Harmless
from paddock.journal.records import Record
from paddock.run.report import Report


class ForPrograms:
    """Watches a run and says nothing of its own."""

    def __init__(self) -> None:
        is_seen = sys.stderr.isatty()
        self._harmless = {name: Harmless() for name in ("stdout", "stderr")} if is_seen else {}

    def began(self, run: str, setting: Mapping[str, Any]) -> None:
        """Nothing: the object has it."""

    def told(self, record: Record) -> None:
        """Nothing: the object is made from the journal."""

    def said(self, stream: str, data: bytes) -> None:
        """To the error output, as it is unless a person looks at it."""
        if stream in self._harmless:
            data = self._harmless[stream].feed(data).encode()
        with contextlib.suppress(OSError, ValueError):  # a reader that went away ends no run
            sys.stderr.flush()
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()

    def finish(self) -> None:
        """Nothing waits here."""


def run_json(report: Report, directory: str) -> dict[str, Any]:
    """What a run came to, and where its journal lies. Keys may be added."""
    return {**report.as_json(), "directory": directory}
