"""Patterns that cover the paths which were seen, and little else. Never a whole file system."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from paddock.policy.globs import MAX_PATTERN, MAX_WILDCARDS

MANY_FILES = 3  # in one directory: the next run will have another one there
MANY_DIRECTORIES = 4
MIN_DEPTH = 2  # `/home/user` may be opened as a whole, `/home` may not
_CHANGING = re.compile(r"[0-9]")


def file_patterns(paths: Iterable[str]) -> list[str]:
    """Return patterns for the paths. Single files stay what they are; a directory with many becomes
    `dir/*`, a directory with many of those `dir/**`."""
    by_parent: dict[str, set[str]] = defaultdict(set)
    for path in set(paths):
        by_parent[path.rpartition("/")[0]].add(path)
    patterns: set[str] = set()
    for parent, files in by_parent.items():
        is_many = len(files) >= MANY_FILES and _depth(parent) >= MIN_DEPTH
        patterns |= {f"{_escaped(parent)}/*"} if is_many else {_escaped(file) for file in files}
    return sorted(_with_trees(patterns))


def request_patterns(paths: Iterable[str]) -> list[str]:
    """Return patterns for the paths. A segment with a digit in it stands for others like it, unless
    it is the first (`/v1`)."""
    return sorted({_request_pattern(path) for path in paths})


def _request_pattern(path: str) -> str:
    first, *rest = path.split("/")[1:]
    parts = ["*" if _CHANGING.search(part) else part for part in rest]
    return _escaped("/" + "/".join([first, *parts]))


def _with_trees(patterns: set[str]) -> set[str]:
    by_grandparent: dict[str, set[str]] = defaultdict(set)
    for pattern in patterns:
        if pattern.endswith("/*"):
            by_grandparent[pattern[:-2].rpartition("/")[0]].add(pattern)
    for parent, below in by_grandparent.items():
        if len(below) >= MANY_DIRECTORIES and _depth(parent) >= MIN_DEPTH:
            inside = {pattern for pattern in patterns if pattern.startswith(parent + "/")}
            patterns = (patterns - inside) | {f"{parent}/**"}
    return patterns


def _depth(path: str) -> int:
    return len([part for part in path.split("/") if part])


def _escaped(path: str) -> str:
    """Return a pattern for a path. A star in a name can only be written as a star, which matches it
    and more."""
    single = re.sub(r"\*+", "*", path)
    too_much = len(single) > MAX_PATTERN or single.count("*") > MAX_WILDCARDS
    parts = single.split("/")
    return "/".join(parts[: MIN_DEPTH + 1]) + "/**" if too_much else single
