"""Text measured in columns of a terminal: a line that wraps by itself could fake the next one.
Also the colours of a line.
"""

from __future__ import annotations

import unicodedata

# What is allowed needs no attention: it has a colour only where all steps are followed live.
VERDICT_COLOURS = {"block": "31", "ask": "33", "simulate": "36", "fault": "35"}


def cells(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def cut(text: str, width: int) -> str:
    """Cut a text to at most so many columns; three dots show that it was cut."""
    if width <= 0:
        return ""
    if cells(text) <= width:
        return text
    return f"{_head(text, width - 3)}..." if width > 3 else _head(text, width)


def cut_middle(text: str, width: int) -> str:
    """Cut a text to at most so many columns, of which the last half is its end."""
    if cells(text) <= width:
        return text
    tail = _head(text[::-1], width // 2)[::-1]
    return cut(text, width - cells(tail)) + tail


def fit(text: str, width: int) -> str:
    """Cut or pad a text to exactly so many columns."""
    shown = cut(text, width)
    return shown + " " * (width - cells(shown))


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in pieces of at most so many columns; one empty piece for an empty text."""
    width = max(width, 2)
    pieces = []
    while cells(text) > width:
        piece = _head(text, width)
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def worded(text: str, width: int) -> list[str]:
    """Return a text in pieces like `wrapped`, but broken between words where that is possible."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(joined) <= width:
            lines[-1] = joined
            continue
        pieces = wrapped(word, width)
        lines += pieces if lines[-1] else []
        if not lines[-1]:
            lines[-1:] = pieces
    return lines


def labelled(label: str, text: str, width: int | None) -> list[str]:
    """Return a text behind its label; what is wider than the width goes on between words, below
    where the text began. Without a width it is one line."""
    indent = cells(label)
    lines = [text] if width is None else worded(text, width - indent)
    return [f"{' ' * indent if at else label}{line}" for at, line in enumerate(lines)]


def paint(text: str, colour: str | None, is_coloured: bool = True) -> str:
    """Return the text in a colour, or as it is without one."""
    return f"\033[{colour}m{text}\033[0m" if colour and is_coloured else text


def _head(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    used = 0
    for at, character in enumerate(text):
        used += _cell(character)
        if used > width:
            return text[:at]
    return text


def _cell(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
