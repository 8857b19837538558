"""Texts and files against what was expected of them. Pure but for reading the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paddock.model.plain import plain
from paddock.model.plural import many
from paddock.policy.expressions import ExpressionError
from paddock.run.scenarios.expressions import does_match, json_condition
from paddock.run.scenarios.terms import FileTerms, TextTerms

if TYPE_CHECKING:
    from paddock.run.scenarios.left import FilesLeft

Wrong = tuple[str, str, str]  # the word of the expectation, what was expected, what was found
_SHOWN = 200


def shown(text: str, most: int = _SHOWN) -> str:
    """A text on one line, not longer than that, without what a terminal would obey."""
    return plain(" ".join(text[: most * 4].split()) if text else text, most)


def text_failures(text: str, terms: TextTerms) -> Iterator[Wrong]:
    """What a text is not."""
    there = f"it is {shown(text)!r}" if text else "it is empty"
    for one in terms.contains:
        if one not in text:
            yield "contains", f"{one!r} in it", there
    for one in terms.lacks:
        if one in text:
            at = text.index(one)
            yield "lacks", f"no {one!r} in it", f"{shown(text[max(0, at - 40) : at + 80])!r}"
    for one in terms.matches:
        if not does_match(one, text):
            yield "matches", f"a match of {one!r}", there
    if terms.equals is not None and text != terms.equals:
        yield "equals", f"{shown(terms.equals)!r}", _difference(terms.equals, text)


def file_failures(files: FilesLeft, terms: FileTerms) -> Iterator[Wrong]:
    """What a file is not. Raises InvalidInput for one that cannot be looked at."""
    is_there = terms.path in files
    if is_there is not terms.is_there:
        found = "it is there" if is_there else f"it is not there; there are {_near(files, terms)}"
        yield "exists", "it is there" if terms.is_there else "it is not there", found
    if not is_there or not terms.is_there:
        return
    if not terms.text.is_empty:
        yield from text_failures(files[terms.path], terms.text)
    if terms.conditions:
        yield from _json_failures(files[terms.path], terms.conditions)


def _json_failures(text: str, conditions: tuple[str, ...]) -> Iterator[Wrong]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield "json", "JSON", f"it is none ({error}): {shown(text)!r}"
        return
    for one in conditions:
        try:
            if not json_condition(one)(document):
                yield "json", one, f"it does not hold: $ is {shown(text)}"
        except ExpressionError as error:
            yield "json", one, f"it cannot be told ({error}): $ is {shown(text)}"


def _difference(expected: str, found: str) -> str:
    """The first line that differs."""
    wanted, there = expected.splitlines(), found.splitlines()
    for number, (one, other) in enumerate(zip(wanted, there, strict=False), 1):
        if one != other:
            return f"line {number} is {shown(other)!r}, not {shown(one)!r}"
    if len(wanted) != len(there):
        return f"{many(len(there), 'line')}, not {len(wanted)}"
    return "it ends otherwise"


def _near(files: FilesLeft, terms: FileTerms) -> str:
    changed = files.changed()
    said = ", ".join(changed[:5])
    return (said + (", ..." if len(changed) > 5 else "")) or "no files that were changed"
