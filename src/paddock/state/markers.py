"""Requirement lines of installed distributions: names, environment markers, version bounds.

As much of the packaging standards as decides whether a requirement applies to an interpreter.
No I/O; anything that cannot be read counts as applying, so that nothing needed is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<bracket>[()])
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<word>not\s+in\b|in\b|and\b|or\b|[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<compare><=|>=|===|==|!=|~=|<|>)
    )""",
    re.VERBOSE,
)
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_BOUND = re.compile(r"(<=|>=|===|==|!=|~=|<|>)\s*(\S+)")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


def canonical_name(name: str) -> str:
    """`Stack.Data` and `stack_data` are the same distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def split_requirement(line: str) -> tuple[str, str]:
    """The distribution's name and the marker, which is empty when there is none."""
    head, _, marker = line.partition(";")
    match = _NAME.match(head)
    return (match[1] if match else head.strip()), marker.strip()


def applies(marker: str, facts: Mapping[str, str]) -> bool:
    """Whether a requirement with this marker is wanted where `facts` hold; without extras."""
    if not marker:
        return True
    try:
        return _Reader(_tokens(marker), {**facts, "extra": ""}).whole()
    except (ValueError, KeyError):
        return True


def satisfies(version: str, bounds: str) -> bool:
    """Whether a version is inside `>=3.10,!=3.11.0,<4`."""
    parts = (_BOUND.fullmatch(part.strip()) for part in bounds.split(","))
    return all(_compare(version, part[1], part[2]) for part in parts if part)


class _Reader:
    """A marker, read from left to right: or, and, comparisons, brackets."""

    def __init__(self, tokens: list[str], facts: Mapping[str, str]) -> None:
        self._tokens, self._facts = tokens, facts

    def whole(self) -> bool:
        value = self._either()
        if self._tokens:
            raise ValueError(f"not understood: {self._tokens[0]}")
        return value

    def _either(self) -> bool:
        value = self._both()
        while self._next_is("or"):
            value = self._both() or value
        return value

    def _both(self) -> bool:
        value = self._one()
        while self._next_is("and"):
            value = self._one() and value
        return value

    def _one(self) -> bool:
        if self._next_is("("):
            value = self._either()
            if not self._next_is(")"):
                raise ValueError("a bracket is not closed")
            return value
        return _compare(*self._comparison())

    def _comparison(self) -> tuple[str, str, str]:
        left, operator, right = self._take(), self._take(), self._take()
        return self._value(left), operator, self._value(right)

    def _value(self, token: str) -> str:
        return token[1:-1] if token[0] in "'\"" else self._facts[token]

    def _next_is(self, token: str) -> bool:
        if self._tokens[:1] != [token]:
            return False
        self._tokens.pop(0)
        return True

    def _take(self) -> str:
        if not self._tokens:
            raise ValueError("the marker ends too early")
        return self._tokens.pop(0)


def _tokens(marker: str) -> list[str]:
    tokens, at = [], 0
    marker = marker.rstrip()
    while at < len(marker):
        match = _TOKEN.match(marker, at)
        if match is None:
            raise ValueError(f"not understood: {marker[at:]}")
        tokens.append(re.sub(r"^not\s+in$", "not in", match[0].strip()))
        at = match.end()
    return tokens


def _compare(left: str, operator: str, right: str) -> bool:
    if operator in ("in", "not in"):
        return (left in right) == (operator == "in")
    if _RELEASE.match(left) and _RELEASE.match(right):
        return _compare_versions(left, operator, right)
    if operator in ("==", "==="):
        return left == right
    if operator == "!=":
        return left != right
    raise ValueError(f"{operator} between {left} and {right}")


def _compare_versions(left: str, operator: str, right: str) -> bool:
    a, b = _release(left), _release(right)
    if operator == "~=":
        return a >= b and a[: len(b) - 1] == b[:-1]
    if right.endswith(".*"):
        return (a[: len(b)] == b) == (operator == "==")
    width = max(len(a), len(b))
    a, b = a + (0,) * (width - len(a)), b + (0,) * (width - len(b))
    outcomes = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "!=": a != b}
    return outcomes.get(operator, a == b)


def _release(version: str) -> tuple[int, ...]:
    match = _RELEASE.match(version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
