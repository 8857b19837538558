"""Files of the user, read with a bound."""

from __future__ import annotations

from pathlib import Path

from paddock.model.errors import InvalidInput


def read_bounded(path: Path, most: int) -> bytes:
    """All of a file. Raises InvalidInput, with the path, for what cannot be read or is too long."""
    try:
        if path.exists() and not path.is_file():
            raise InvalidInput(f"{path} is not a file")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise InvalidInput(f"{path} has more than {most >> 20} MiB")
    return data
