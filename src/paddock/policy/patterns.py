"""Which patterns make sense for a field of an action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host
from paddock.policy.fields import FIELDS, Unmatchable, host_name
from paddock.policy.globs import check_glob, is_literal
from paddock.policy.problems import suggest

MAX_WORDS = 64  # in one pattern of argv

PatternProblem = tuple[str, str | None]  # what is wrong, and what to write instead


def pattern_problem(kind: Kind, name: str, pattern: Any) -> PatternProblem | None:
    """Return what is wrong with a pattern for this field, or None."""
    field = FIELDS[kind][name]
    if field.choices and pattern in field.choices:
        return None
    if field.choices:
        return f"{pattern!r} is not one of the values of {name}", suggest(pattern, field.choices)
    if name in ("path", "cwd") or (name == "program" and "/" in pattern):
        problem = _path_problem(pattern, may_end_open=kind is Kind.HTTP)
        if problem is not None:
            return problem
    if field.separator == ".":
        problem = _host_problem(pattern)
        if problem is not None:
            return problem
    separator = "" if name == "program" and "/" not in pattern else field.separator
    return _SPECIAL.get(name, _glob_problem)(pattern, separator)


def _path_problem(pattern: str, *, may_end_open: bool) -> PatternProblem | None:
    if not pattern.startswith(("/", "**/")) and pattern != "**":
        return f"{pattern!r} is not an absolute path", "begin it with / or **/"
    # Of a request `/a/` is another path than `/a`; of a file it is the same.
    is_closed = may_end_open or pattern == "/" or not pattern.endswith("/")
    if not is_closed or "//" in pattern or "." in pattern.split("/"):
        return f"{pattern!r} is not how a path is compared", "no //, /./ or / at the end"
    return None


def _host_problem(pattern: str) -> PatternProblem | None:
    """Return what is wrong with a pattern of a host. It is compared with the canonical form, so it
    must be in that."""
    try:
        spelled = host_name(pattern.replace("*", "x"))
    except Unmatchable:
        return f"{pattern!r} is not a host", _host_hint(pattern)
    if is_literal(pattern) and spelled != pattern.casefold():
        return f"{pattern!r} is not how a host is compared", f"write {spelled}"
    return None


def _host_hint(pattern: str) -> str:
    try:
        return f"write {canonical_host(pattern)}"  # a name in another script
    except InvalidInput:
        return "write the name only, as in api.example.com"


def _glob_problem(pattern: str, separator: str) -> PatternProblem | None:
    try:
        check_glob(pattern, separator)
    except InvalidInput as error:
        return error.message, error.hint
    return None


def _argv_problem(pattern: tuple[str, ...], _: str) -> PatternProblem | None:
    if len(pattern) > MAX_WORDS:
        return f"more than {MAX_WORDS} words", "the first few words are enough"
    if "/" in pattern[0]:
        return "the first word is the program's name, without a path", "give the path with path:"
    problems = (_glob_problem(word, "") for word in pattern if word)
    return next((problem for problem in problems if problem), None)


def _port_problem(pattern: str, _: str) -> PatternProblem | None:
    first, dash, last = pattern.partition("-")
    ends = [int(port) for port in (first, last or first) if port.isascii() and port.isdigit()]
    is_range = len(pattern) <= 11 and len(ends) == 2 and bool(last) == bool(dash)
    if is_range and 0 < ends[0] <= ends[1] < 65536:
        return None
    return f"{pattern!r} is not a port", "write 443, or 8000-8100"


_SPECIAL: dict[str, Callable[[Any, str], PatternProblem | None]] = {
    "argv": _argv_problem,
    "port": _port_problem,
}
