"""Differences and views as text for a terminal: side by side, bounded, with nothing that acts."""

from __future__ import annotations

import difflib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from paddock.model.plural import many
from paddock.run.matching.recorded_step import ABSENT, ActionView, Difference

MAX_SHOWN = 600  # characters of one value
MAX_LINES = 600  # of one view: to align more takes time, and nobody reads it
_CONTEXT = 3  # equal lines around a changed one
_MIN_COLUMN = 16
_LEAD = 40  # characters before the first difference of two long texts
_MARKS = {"equal": " ", "replace": "|", "delete": "<", "insert": ">"}


def side_by_side(differences: Iterable[Difference], width: int = 100) -> str:
    """Render each difference: its location, and below it the recorded and the proposed value."""
    column = max(_MIN_COLUMN, (width - 7) // 2)
    lines = [_row("recorded", " ", "proposed", column)]
    for difference in differences:
        lines.append(visible(difference.at)[: max(width, _MIN_COLUMN)])
        ours, theirs = _pair(difference.recorded, difference.proposed)
        lines += _columns(ours, "|", theirs, column)
    return "\n".join(lines)


def both_views(recorded: ActionView, proposed: ActionView, width: int = 100) -> str:
    """Render two views in full, aligned. Marks: `|` for lines that differ, `<` for lines that only
    the record has, `>` for lines that only the proposal has."""
    column = max(_MIN_COLUMN, (width - 7) // 2)
    ours, theirs = _lines(recorded), _lines(proposed)
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    shown = [_row("recorded", " ", "proposed", column)]
    for tag, a, b, c, d in matcher.get_opcodes():
        block = list(_aligned(_MARKS[tag], ours[a:b], theirs[c:d]))
        for left, mark, right in _abridged(block) if tag == "equal" else block:
            shown += _columns(left, mark, right, column)
    return "\n".join(shown)


def visible(text: str) -> str:
    """Escape everything in a text that a terminal would act upon or not show."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character == " " or _is_shown(character) else _escaped(character)
        for character in text
    )


def _is_shown(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZ"


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) > 126 else _ascii_escape(character)


def _ascii_escape(character: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\x{ord(character):02x}")


def _pair(recorded: Any, proposed: Any) -> tuple[str, str]:
    """Render two values as text; of long ones the part where they begin to differ."""
    ours, theirs = _text(recorded), _text(proposed)
    at = _first_difference(ours, theirs)
    around = ours[at : at + 1] + theirs[at : at + 1]
    start = max(0, at - _LEAD) if max(len(ours), len(theirs)) > MAX_SHOWN else 0
    cut = [_cut(text, start) for text in (ours, theirs)]
    if not around.isascii():  # letters of two alphabets may look alike
        cut = [text.encode("ascii", "backslashreplace").decode() for text in cut]
    return cut[0], cut[1]


def _first_difference(text: str, other: str) -> int:
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(text), len(other)))


def _cut(text: str, start: int) -> str:
    shown = text[start : start + MAX_SHOWN]
    before = "…" if start else ""
    return f"{before}{shown}{'…' if start + MAX_SHOWN < len(text) else ''}"


def _text(value: Any) -> str:
    if value is ABSENT:
        return "(absent)"
    return visible(json.dumps(value, ensure_ascii=False, default=repr))


def _lines(view: ActionView) -> list[str]:
    parts: Mapping[str, Any] = {"kind": str(view.kind), **view.parts}
    if view.keyed:
        parts = {
            **parts,
            "not shown": {at: f"*** ({digest[:8]})" for at, digest in view.keyed.items()},
        }
    spelled = json.dumps(parts, indent=1, sort_keys=True, ensure_ascii=False, default=repr)
    lines = [visible(line)[:MAX_SHOWN] for line in spelled.split("\n")]
    left = len(lines) - MAX_LINES
    return lines if left <= 0 else [*lines[:MAX_LINES], f"… {many(left, 'more line')}"]


def _aligned(mark: str, ours: list[str], theirs: list[str]) -> Iterator[tuple[str, str, str]]:
    for index in range(max(len(ours), len(theirs))):
        left = ours[index] if index < len(ours) else ""
        right = theirs[index] if index < len(theirs) else ""
        yield left, mark, right


def _abridged(block: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    left = len(block) - 2 * _CONTEXT
    if left <= 1:
        return block
    return [*block[:_CONTEXT], (f"… {left} equal lines", " ", ""), *block[-_CONTEXT:]]


def _columns(left: str, mark: str, right: str, column: int) -> list[str]:
    ours, theirs = _wrapped(left, column), _wrapped(right, column)
    return [_row(a, m, b, column) for a, m, b in _aligned(mark, ours, theirs)]


def _wrapped(text: str, column: int) -> list[str]:
    return [text[at : at + column] for at in range(0, len(text), column)] or [""]


def _row(left: str, mark: str, right: str, column: int) -> str:
    return f"  {left:<{column}} {mark} {right}".rstrip()
