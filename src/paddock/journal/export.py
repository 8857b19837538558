"""A run in formats that other programs read. One file a format; here is only the choice."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never

from paddock.journal.reader import Reader


class Format(enum.StrEnum):
    """What a run can be exported as."""

    JSONL = "jsonl"  # the records as they are: `verify` takes the file
    CSV = "csv"  # a row a step
    OTEL = "otel"  # OTLP/JSON: a span a step
    HAR = "har"  # the HTTP requests


def export(directory: Path, form: Format) -> Iterator[str]:
    """The run in that format, in pieces of text."""
    return _writer(form)(Reader(directory))


def _writer(form: Format) -> Callable[[Reader], Iterator[str]]:
    # Loaded when asked for: a run that is exported once should not make every start slower.
    match form:
        case Format.JSONL:
            from paddock.journal.export_jsonl import as_jsonl

            return as_jsonl
        case Format.CSV:
            from paddock.journal.export_csv import as_csv

            return as_csv
        case Format.OTEL:
            from paddock.journal.export_otel import as_otel

            return as_otel
        case Format.HAR:
            from paddock.journal.export_har import as_har

            return as_har
    assert_never(form)
