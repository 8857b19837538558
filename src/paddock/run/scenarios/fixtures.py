"""The files that a scenario puts into the project, read from its own directory."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

from paddock.model.errors import InvalidInput

MAX_FILES = 10_000
MAX_BYTES = 64 << 20  # they are held in memory, for each case of a scenario the same ones


def checked_target(target: str) -> str:
    """Return the normalised path in the project. Raises InvalidInput for a path that leads out of
    it."""
    plain = posixpath.normpath(target)
    is_out = plain.startswith(("/", "../")) or plain in ("..", ".")
    if is_out or "\0" in target or not target:
        raise InvalidInput(f"{target[:80]!r} is not a path in the project",
                           hint="write it from the project's directory on")  # fmt: skip
    return plain


def read_file(path: Path) -> bytes:
    """Read one file, up to the size limit."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise InvalidInput(f"{path} is larger than {MAX_BYTES >> 20} MiB")
    return content


def read_tree(directory: Path, target: str) -> Iterator[tuple[str, bytes]]:
    """Yield all files below a directory, each with its path in the project. Links are refused:
    inside they would lead elsewhere."""
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is not a directory", hint="a target that ends in / is one")
    for parent, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted([*names, *directories]):
            path = Path(parent, name)
            if path.is_symlink():
                raise InvalidInput(f"{path} is a link", hint="copy what it leads to")
        for name in sorted(names):
            path = Path(parent, name)
            inside = posixpath.join(target, path.relative_to(directory).as_posix())
            yield inside, read_file(path)


def in_project(cwd: Path, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files by their paths in the sandbox, where the project lies as on the host."""
    return {posixpath.join(cwd, path): content for path, content in files.items()}


def bounded(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the same files. Raises InvalidInput when they are too many or too large."""
    if len(files) > MAX_FILES:
        raise InvalidInput(f"{len(files)} files, at most {MAX_FILES}")
    if sum(map(len, files.values())) > MAX_BYTES:
        raise InvalidInput(f"more than {MAX_BYTES >> 20} MiB in all")
    return files
