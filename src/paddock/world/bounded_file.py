"""Reading the user's files with a bound on their size."""

from __future__ import annotations

from pathlib import Path

from paddock.model.errors import InvalidInput


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return the whole file. Raises InvalidInput with the path if it is unreadable or too large."""
    try:
        if path.exists() and not path.is_file():
            raise InvalidInput(f"{path} is not a file")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise InvalidInput(f"{path} has more than {max_bytes >> 20} MiB")
    return data
