"""The grammar of search boxes: `status:open -label:"help wanted" created>2026-01-01 crash`.

A query is a list of terms. A term is a word, or a comparison of a field with a value; a minus
before it turns it round. Values and keys may be quoted, with a backslash before a quote inside.
What fields there are, and whether terms are joined by and or by or, is the service's own affair:
joints such as `AND` come out as words.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

MAX_TERMS = 100
# A character of a quoted part can be read in one way only (with a backslash or without), so that a
# query of backslashes takes no longer than any other.
_QUOTED = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_TERM = re.compile(
    rf"""\s*(?P<minus>-)?
         (?:(?P<field>[A-Za-z][\w.-]*)(?:\[(?P<key>{_QUOTED})\])?(?P<relation>:|~|>=|<=|>|<|=))?
         (?:(?P<quoted>{_QUOTED})(?=\s|$)|(?P<bare>\S+))""",
    re.VERBOSE | re.DOTALL,
)


class Term(msgspec.Struct, frozen=True):
    """One part of a query."""

    field: str  # empty for a word
    relation: str  # ":", "~", "=", "<", "<=", ">" or ">="; empty for a word
    value: str
    is_negated: bool = False
    is_quoted: bool = False
    key: str | None = None  # of `metadata["order"]:7`

    @property
    def text(self) -> str:
        """Return field, relation and value as one text, for a service that knows no such field."""
        return f"{self.field}{self.relation}{self.value}"


def parse_terms(query: str) -> list[Term]:
    """Return the terms of a query, at most MAX_TERMS."""
    terms: list[Term] = []
    position = 0
    while len(terms) < MAX_TERMS and (match := _TERM.match(query, position)):
        quoted, key = match["quoted"], match["key"]
        terms.append(
            Term(
                match["field"] or "",
                match["relation"] or "",
                match["bare"] if quoted is None else _unquote(quoted),
                is_negated=match["minus"] is not None,
                is_quoted=quoted is not None,
                key=None if key is None else _unquote(key),
            )
        )
        position = match.end()
    return terms


def compare(left: Any, relation: str, right: Any) -> bool:
    """Return whether the relation holds between two values that can be ordered."""
    match relation:
        case "<":
            return bool(left < right)
        case ">":
            return bool(left > right)
        case "<=":
            return bool(left <= right)
        case ">=":
            return bool(left >= right)
        case _:
            return bool(left == right)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
