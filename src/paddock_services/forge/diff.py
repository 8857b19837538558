"""Patches between two trees, and the lines of a patch that a review may comment on.

A comment names a line by its number on one side of the diff (LEFT: before, RIGHT: after), or by
its position: how many lines it is below the first hunk header of the file. Only lines inside a hunk
can be named.
"""

from __future__ import annotations

import difflib
import re

import msgspec

from paddock_services.forge.git import Files, Git, changed_paths

MAX_FILES = 300
MAX_LINES = 3_000  # difflib's time grows with the square of it
MAX_BYTES = 200_000
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class FileDiff(msgspec.Struct, frozen=True):
    """The change of one file. There is no patch for bytes, nor for what is too large."""

    path: str
    before: str | None  # SHA of the blob; None: there is none
    after: str | None
    patch: str | None
    additions: int
    deletions: int


class DiffLine(msgspec.Struct, frozen=True):
    """One line of a patch that can be commented on."""

    position: int
    hunk: int  # position of its hunk's header
    left: int | None  # its number before the change; None: it was added
    right: int | None  # its number after the change; None: it was removed


def diff_files(git: Git, before: Files, after: Files) -> list[FileDiff]:
    paths = changed_paths(before, after)[:MAX_FILES]
    return [_diff_file(git, path, before.get(path), after.get(path)) for path in paths]


def diff_lines(patch: str) -> list[DiffLine]:
    """Return the lines of a patch that can be commented on."""
    lines: list[DiffLine] = []
    if not patch:
        return lines
    hunk = left = right = 0
    for position, line in enumerate(patch.split("\n")):
        header = _HUNK.match(line)
        if header:
            hunk, left, right = position, int(header[1]), int(header[2])
            continue
        is_old, is_new = line[:1] != "+", line[:1] != "-"
        lines.append(DiffLine(position, hunk, left if is_old else None, right if is_new else None))
        left += is_old
        right += is_new
    return lines


def _diff_file(git: Git, path: str, before: str | None, after: str | None) -> FileDiff:
    old = _text_lines(git.read_blob(before) if before else b"")
    new = _text_lines(git.read_blob(after) if after else b"")
    if old is None or new is None:
        return FileDiff(path, before, after, None, 0, 0)
    lines = list(difflib.unified_diff(old, new, lineterm=""))[2:]  # without the names of the files
    additions = sum(line.startswith("+") for line in lines)
    deletions = sum(line.startswith("-") for line in lines)
    return FileDiff(path, before, after, "\n".join(lines), additions, deletions)


def _text_lines(data: bytes | None) -> list[str] | None:
    data = data or b""
    if len(data) > MAX_BYTES or b"\0" in data:
        return None
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= MAX_LINES else None
