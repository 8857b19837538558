"""Patterns with `*` (within a segment) and `**` (any number of whole segments, also none).

Every other character stands for itself. What is matched comes from an agent, so a match takes time
in proportion to text times pattern, whatever both are: no part that has matched is tried again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from paddock.model.errors import InvalidInput

MAX_PATTERN = 1024
MAX_WILDCARDS = 16

Test = Callable[[str], bool]


def check_glob(pattern: str, separator: str) -> None:
    """Raise InvalidInput for a pattern that cannot mean what its writer hoped."""
    if not pattern:
        raise InvalidInput("an empty pattern matches nothing", hint="write * for anything")
    if len(pattern) > MAX_PATTERN or pattern.count("*") > 2 * MAX_WILDCARDS:
        raise InvalidInput(
            f"the pattern {pattern[:40]!r}... is too long", hint="write two rules, or a wider one"
        )
    segments = pattern.split(separator) if separator else []
    for segment in segments:
        if "**" in segment and segment != "**":
            raise InvalidInput(
                f"** must be a whole segment in {pattern!r}",
                hint=f"write * inside a segment, or {separator}**{separator} between two",
            )
    if separator == "/" and ".." in segments:
        raise InvalidInput(f"{pattern!r} contains ..", hint="write the path that is meant")


def is_literal(pattern: str) -> bool:
    """Return whether the pattern stands for exactly one text."""
    return "*" not in pattern


def any_of(patterns: Iterable[str], separator: str) -> Test:
    """Return a test that holds for what at least one of the patterns matches."""
    literals, trees, expressions = set(), [], []
    for pattern in patterns:
        root = _tree_root(pattern, separator)
        if is_literal(pattern):
            literals.add(pattern)
        elif root is not None:
            literals.add(root)
            trees.append(root + separator)
        else:
            expressions.append(_expression(pattern, separator))
    return _combined(frozenset(literals), tuple(trees), tuple(expressions))


def covers(wide: str, narrow: str, separator: str) -> bool:
    """Return whether `wide` certainly matches all that `narrow` matches; False also means
    unknown."""
    if wide == narrow or wide in ("**", "*" if not separator else "**"):
        return True
    if is_literal(narrow):
        return any_of([wide], separator)(narrow)
    root = _tree_root(wide, separator)
    if root is None:
        return False
    fixed = narrow[: narrow.index("*")]
    return fixed.startswith(root + separator)


def _combined(
    literals: frozenset[str], trees: tuple[str, ...], expressions: tuple[Test, ...]
) -> Test:
    if not trees and not expressions:
        return literals.__contains__
    if not expressions:
        return lambda text: text in literals or text.startswith(trees)
    return lambda text: (
        text in literals or text.startswith(trees) or any(test(text) for test in expressions)
    )


def _tree_root(pattern: str, separator: str) -> str | None:
    """Return `/a/b` for `/a/b/**`, the commonest pattern, which needs no regular expression."""
    if not separator or not pattern.endswith(separator + "**"):
        return None
    root = pattern[: -len(separator) - 2]
    return root if is_literal(root) else None


def _expression(pattern: str, separator: str) -> Test:
    if not separator:
        segment = _segment(re.sub(r"\*+", "*", pattern), ".", r"\Z", itertools.count(1))
        whole = re.compile(segment, re.DOTALL).match
        return lambda text: whole(text) is not None
    match = re.compile(_segments(pattern.split(separator), re.escape(separator)), re.DOTALL).match
    # Each segment is led by a separator, so that the first is like the others.
    return lambda text: match(separator + text) is not None


def _segments(parts: list[str], separator: str) -> str:
    """Return an expression for runs of segments between `**`. The first place where a run fits is
    as good as any later one, because `**` takes whatever is left: hence `_first_match`."""
    groups = itertools.count(1)
    inner = f"[^{separator}]"
    end = rf"(?={separator}|\Z)"
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(separator + _segment(part, inner, end, groups))
    skip = f"(?:{separator}{inner}*)*?"
    text = "".join(runs[0])
    if len(runs) == 1:
        return text + r"\Z"
    text += "".join(_first_match(f"{skip}{''.join(run)}{end}", groups) for run in runs[1:-1] if run)
    return (
        text + (f"{skip}{''.join(runs[-1])}" if runs[-1] else f"(?:{separator}{inner}*)*") + r"\Z"
    )


def _segment(part: str, inner: str, end: str, groups: Iterator[int]) -> str:
    """Return one segment; between two `*` the first place where the text fits will do."""
    first, *rest = (re.escape(piece) for piece in part.split("*"))
    if not rest:
        return first + end
    middle = "".join(_first_match(f"{inner}*?{piece}", groups) for piece in rest[:-1] if piece)
    return f"{first}{middle}{inner}*{rest[-1]}{end}"


def _first_match(expression: str, groups: Iterator[int]) -> str:
    """Return an expression that is matched once and never tried again at a later place.

    That is what an atomic group means, `(?>...)`, which Python 3.11.2 gets wrong. A lookahead is
    not tried again either, so it finds the text, and a reference to its group consumes it.
    """
    name = f"part{next(groups)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"
