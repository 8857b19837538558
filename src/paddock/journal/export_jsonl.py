"""All records of a run in one file, byte for byte, so that the file verifies like the journal."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.journal.reader import Reader
from paddock.model.errors import IntegrityError


def as_jsonl(reader: Reader) -> Iterator[str]:
    """One line a record. Blobs stay behind; their digests are in the lines."""
    for line in reader.lines():
        try:
            yield line.decode() + "\n"
        except UnicodeDecodeError as error:
            raise IntegrityError(f"a record of {reader.directory} is not text: {error}") from None
