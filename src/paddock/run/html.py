"""Pages of HTML in one file: no script, nothing loaded from anywhere, readable where styles are
not. Parts are made of texts, which are escaped here, and of `Markup`, which was made here.

Agents and servers chose most of the words. A page forbids by its own policy whatever is not a style
of its own, so that a mistake in escaping would still run nothing.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from paddock.model.printable import printable
from paddock.run.html_style import STYLE

MAX_TEXT = 500  # characters of one cell or line
MAX_BLOCK = 20_000  # of one block; whoever needs more has the journal
MAX_BLOCK_LINES = 400
_SHORT = 28  # characters that are kept together
_SHORT_CELL = 16

Tone = Literal["good", "bad", "warn", "info", "quiet"]


class Markup(str):
    """HTML that was made here. All else is text."""

    __slots__ = ()


Part = Markup | str


def page(title: str, parts: Iterable[Part], *, note: str = "") -> str:
    """Render the whole page."""
    body = "\n".join(map(shown, parts))
    footer = f"<footer>{escaped(note)}</footer>" if note else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'\">\n"
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escaped(title)}</h1>\n{body}\n{footer}\n</main>\n</body>\n</html>\n"
    )


def escaped(text: object, most: int = MAX_TEXT) -> Markup:
    """Escape one line of text and bound it; invisible and direction-changing characters are written
    out."""
    return Markup(html.escape(printable(text, most)))


def shown(part: Part) -> Markup:
    """Return markup as it is, and text escaped."""
    return part if isinstance(part, Markup) else escaped(part)


def section(title: str, *parts: Part) -> Markup:
    inner = "\n".join(map(shown, parts))
    return Markup(f"<section><h2>{escaped(title)}</h2>\n{inner}\n</section>")


def paragraph(*parts: Part, tone: Tone | None = None) -> Markup:
    kind = f' class="{tone}"' if tone else ""
    return Markup(f"<p{kind}>{' '.join(map(shown, parts))}</p>")


class TableRow(msgspec.Struct, frozen=True):
    """A row of a table that stands out."""

    cells: Sequence[Part]
    tone: Tone


def table(header: Sequence[Part], rows: Iterable[Sequence[Part] | TableRow]) -> Markup:
    """Return a table, which scrolls by itself where the window is narrow."""
    head = "".join(f'<th scope="col">{shown(cell)}</th>' for cell in header)
    lines = "\n".join(map(_row, rows))
    return Markup(
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"\n<tbody>\n{lines}\n</tbody></table></div>"
    )


def badge(text: object, tone: Tone = "quiet") -> Markup:
    """Render a word in a box."""
    return Markup(f'<span class="badge {tone}">{escaped(text, 60)}</span>')


def code(text: object, most: int = MAX_TEXT) -> Markup:
    """Render code; short pieces are kept on one line."""
    markup = escaped(text, most)
    kind = "short" if len(markup) <= _SHORT else "long"
    return Markup(f'<code class="{kind}">{markup}</code>')


def details(summary: Part, *parts: Part, is_open: bool = False) -> Markup:
    """Render parts that unfold by a click, without a script."""
    inner = "\n".join(map(shown, parts))
    opened = " open" if is_open else ""
    return Markup(f"<details{opened}><summary>{shown(summary)}</summary>\n{inner}\n</details>")


def block(value: Any) -> Markup:
    """Render a text of several lines, or JSON, up to the limits."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    )
    lines = text[:MAX_BLOCK].split("\n")
    kept = "\n".join(escaped(line, MAX_BLOCK) for line in lines[:MAX_BLOCK_LINES])
    is_cut = len(text) > MAX_BLOCK or len(lines) > MAX_BLOCK_LINES
    more = f"\n<i>(cut: it has {len(text)} characters)</i>" if is_cut else ""
    return Markup(f"<pre>{kept}{more}</pre>")


def beside(left: Part, right: Part) -> Markup:
    """Two parts side by side; one below the other where the window is narrow."""
    return Markup(f'<div class="beside"><div>{shown(left)}</div><div>{shown(right)}</div></div>')


def joined(parts: Iterable[Part], between: str = " ") -> Markup:
    return Markup(escaped(between).join(map(shown, parts)))


def _row(row: Sequence[Part] | TableRow) -> str:
    tone = f' class="{row.tone}"' if isinstance(row, TableRow) else ""
    cells = row.cells if isinstance(row, TableRow) else row
    return f"<tr{tone}>{''.join(map(_cell, cells))}</tr>"


def _cell(cell: Part) -> str:
    """Render a cell; a few words stay on one line."""
    is_short = not isinstance(cell, Markup) and len(cell) <= _SHORT_CELL
    kind = ' class="short"' if is_short else ""
    return f"<td{kind}>{shown(cell)}</td>"
