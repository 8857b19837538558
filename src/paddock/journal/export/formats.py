"""A run in formats that other programs read. Formats that need more than a few lines are files of
their own."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never

from paddock.journal.log import RunLog
from paddock.model.errors import IntegrityError


class Format(enum.StrEnum):
    """The formats that a run can be exported in."""

    JSONL = "jsonl"  # the records as they are: `verify` takes the file
    CSV = "csv"  # a row a step
    OTEL = "otel"  # OTLP/JSON: a span a step
    HAR = "har"  # the HTTP requests


def export(directory: Path, form: Format) -> Iterator[str]:
    """Yield the run in that format, in pieces of text."""
    return _writer(form)(RunLog(directory))


def _writer(form: Format) -> Callable[[RunLog], Iterator[str]]:
    # Loaded when asked for: a run that is exported once should not make every start slower.
    match form:
        case Format.JSONL:
            return _as_jsonl
        case Format.CSV:
            from paddock.journal.export._csv_table import as_csv

            return as_csv
        case Format.OTEL:
            from paddock.journal.export._otel import as_otel

            return as_otel
        case Format.HAR:
            from paddock.journal.export._har import as_har

            return as_har
    assert_never(form)


def _as_jsonl(log: RunLog) -> Iterator[str]:
    """Yield each record byte for byte, so that the file verifies like the journal. Blobs stay
    behind; their digests are in the lines."""
    for line in log.lines():
        try:
            yield line.decode() + "\n"
        except UnicodeDecodeError as error:
            raise IntegrityError(f"a record of {log.directory} is not text: {error}") from None
