"""Reads paddock files for commands: bounded, as UTF-8, with the name that messages use."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from paddock.policy.decide import Policy

MAX_FILE_BYTES = 16 << 20  # the reader of policies refuses far less, and says how much it takes
STDIN = Path("-")


def read_text(path: Path) -> str:
    """The text of a file, or of the input for `-`."""
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise InvalidInput(f"{path} is too long for a paddock file")
        return data.decode()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not text: byte {error.start} is not UTF-8") from None


def read_policy(path: Path, stage: str | None = None) -> Policy:
    """The policy of a file; with another stage where one is given."""
    from paddock.model.action import Stage
    from paddock.policy.decide import Policy
    from paddock.policy.file import load

    policy = load(read_text(path), str(path))
    return policy if stage is None else Policy.of(replace(policy.terms, stage=Stage(stage)))
