"""The description of a function and of its parameters in a docstring, in the styles of Google,
NumPy and Sphinx. Other parts of a docstring (returns, raises, examples) are not for a model."""

from __future__ import annotations

import inspect
import re

import msgspec

_GOOGLE = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_GOOGLE_OTHER = re.compile(
    r"(Returns?|Yields?|Raises|Examples?|Notes?|See Also|Attributes|Warnings?|Todo):\s*"
)
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ITEM = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX_ITEM = re.compile(
    r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
)
_SPHINX_OTHER = re.compile(r":\w+[^:]*:.*")


class Docstring(msgspec.Struct):
    """The summary, and what each parameter is for."""

    summary: str = ""
    parameters: dict[str, str] = {}


def parse(text: str | None) -> Docstring:
    """Parse a docstring; one of no known style is all summary."""
    lines = inspect.cleandoc(text or "").splitlines()
    found = Docstring()
    summary: list[str] = []
    at = 0
    while at < len(lines):
        end = _section(lines, at, found)
        if end == at:
            summary.append(lines[at])
            end = at + 1
        at = end
    found.summary = "\n".join(summary).strip()
    return found


def _section(lines: list[str], at: int, found: Docstring) -> int:
    """Read the section that begins at a line, and return where it ends; the same line, if none
    begins."""
    line = lines[at]
    if at + 1 < len(lines) and line.strip() and re.fullmatch(r"-{3,}\s*", lines[at + 1]):
        end = _end_of_numpy(lines, at + 2)
        if line.strip() in ("Parameters", "Other Parameters"):
            _read_items(lines[at + 2 : end], _NUMPY_ITEM, found)
        return end
    if _GOOGLE.fullmatch(line) or _GOOGLE_OTHER.fullmatch(line):
        end = _end_of_block(lines, at + 1)
        if _GOOGLE.fullmatch(line):
            block = inspect.cleandoc("\n" + "\n".join(lines[at + 1 : end])).splitlines()
            _read_items(block, _GOOGLE_ITEM, found)
        return end
    if _SPHINX_OTHER.fullmatch(line):
        end = _end_of_block(lines, at + 1)
        _read_items(lines[at:end], _SPHINX_ITEM, found)
        return end
    return at


def _read_items(lines: list[str], pattern: re.Pattern[str], found: Docstring) -> None:
    """Read items: one begins at the margin, and indented lines below continue it."""
    names: list[str] = []
    for line in lines:
        item = pattern.fullmatch(line)
        if item is not None:
            names = re.split(r"\s*,\s*", item[1])
            words = item[2] if item.re.groups > 1 else ""
        else:
            words = line
        for name in names:
            before = found.parameters.get(name, "")
            found.parameters[name] = f"{before} {words.strip()}".strip()


def _end_of_block(lines: list[str], at: int) -> int:
    while at < len(lines) and (not lines[at].strip() or lines[at][0].isspace()):
        at += 1
    return at


def _end_of_numpy(lines: list[str], at: int) -> int:
    while at < len(lines):
        if at + 1 < len(lines) and re.fullmatch(r"-{3,}\s*", lines[at + 1]):
            return at
        at += 1
    return at
