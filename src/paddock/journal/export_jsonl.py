"""All records of a run in one file, byte for byte, so that the file verifies like the journal."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.journal.reader import Reader


def as_jsonl(reader: Reader) -> Iterator[str]:
    """One line a record. Blobs stay behind; their digests are in the lines."""
    for line in reader.lines():
        yield line.decode() + "\n"
