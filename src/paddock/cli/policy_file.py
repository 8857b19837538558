"""Reads paddock files for commands: from a path or the input, at another stage if wanted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from paddock.policy.decide import Policy

STDIN = Path("-")


def read_text(path: Path) -> str:
    """Return the text of a file, or of the input for `-`."""
    from paddock.doors.terms import MAX_FILE_BYTES, as_text, read_file

    if path != STDIN:
        return read_file(path)
    return as_text(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "-")


def read_policy(path: Path, stage: str | None = None) -> Policy:
    """Return the policy of a file; with another stage where one is given."""
    from paddock.model.action import Stage
    from paddock.policy.decide import Policy
    from paddock.policy.file import load

    file = None if path == STDIN else path.absolute()
    base = None if file is None else str(file.parent)
    policy = load(read_text(path), str(path), base, None if file is None else str(file))
    return policy if stage is None else Policy.of(replace(policy.terms, stage=Stage(stage)))
