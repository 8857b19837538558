"""No regular expression uses what a supported Python reads wrongly.

Python 3.11.2, which is Debian 12's, has possessive repeats (`a*+`) and atomic groups (`(?>a)`), but
with a group inside they do not match what they should.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ATOMIC = re.compile(r"\(\?>")
POSSESSIVE = re.compile(r"[*+?}]\+")
# What a file must have for either to be in it; to parse every file would take long.
CANDIDATE = re.compile(r"\(\?>|[*+?}]\+")
CHARACTER_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
FUNCTIONS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub"}


def breaches(source: str) -> list[str]:
    """Return the expressions that use one of them, each with its line."""
    if not CANDIDATE.search(source):
        return []
    return [
        f"line {line}: {text}"
        for line, text in _expressions(ast.parse(source))
        if ATOMIC.search(text) or POSSESSIVE.search(_outside_of_classes(text))
    ]


def _expressions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """First arguments of functions of `re`, and every string that has an atomic group."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_of_re(node.func) and node.args:
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant):
                    yield part.lineno, _text(part.value)
        elif isinstance(node, ast.JoinedStr):
            text = "".join(_text(one.value) for one in node.values if isinstance(one, ast.Constant))
            if ATOMIC.search(text):
                yield node.lineno, text


def _is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in FUNCTIONS
    )


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def _outside_of_classes(text: str) -> str:
    unescaped = re.sub(r"\\[^\[\]]", "x", text)
    return CHARACTER_CLASS.sub("x", unescaped)


def test_no_expression_uses_possessive_repeats_or_atomic_groups() -> None:
    files = [path for part in ("src", "tests") for path in (ROOT / part).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT)): breaches(path.read_text())
        for path in files
        if path != Path(__file__)
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        r"""re.compile(r'"(?P<text>(?:\\.|[^"\\])*+)"')""",
        r"""re.compile(rb'"[^"\\]*+"')""",
        r"""re.sub("a{1,3}+", "", text)""",
        r"""re.match(f"(?>{piece})", text)""",
        r"""f"(?>{piece})" """,
    ],
)
def test_a_breach_is_found(source: str) -> None:
    assert breaches(source)


@pytest.mark.parametrize("source", ['re.compile("[*+]+a+")', r're.compile(r"\*+")', '"a" + "*+"'])
def test_what_only_looks_like_one_is_not_a_breach(source: str) -> None:
    assert not breaches(source)
