"""Patterns: what `*` and `**` match, checked against a slow and obvious reading of them."""

from __future__ import annotations

import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.policy.compile import matches_words
from paddock.policy.globs import any_of, check_glob, covers

segments = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "*a*b", "**", "a.b"])
patterns = st.lists(segments, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))
texts = st.lists(st.text("ab.", max_size=4), min_size=1, max_size=6).map(
    lambda parts: "/" + "/".join(parts)
)
words = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=6).map(tuple)
word_patterns = st.lists(st.sampled_from(["a", "b", "*", "a*", "**"]), min_size=1, max_size=5).map(
    tuple
)


def obvious(pattern: list[str], parts: list[str]) -> bool:
    """Segment by segment, trying everything."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(obvious(pattern[1:], parts[n:]) for n in range(len(parts) + 1))
    expression = "[^/]*".join(map(re.escape, pattern[0].split("*")))
    is_first = bool(parts) and re.fullmatch(expression, parts[0], re.DOTALL) is not None
    return is_first and obvious(pattern[1:], parts[1:])


def obvious_words(pattern: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    if not pattern:
        return True  # a prefix is enough
    if pattern[0] == "**":
        return any(obvious_words(pattern[1:], argv[n:]) for n in range(len(argv) + 1))
    expression = ".*".join(map(re.escape, pattern[0].split("*")))
    is_first = bool(argv) and re.fullmatch(expression, argv[0]) is not None
    return is_first and obvious_words(pattern[1:], argv[1:])


@given(patterns, texts)
def test_a_path_matches_as_reading_it_segment_by_segment_says(pattern: str, text: str) -> None:
    assert any_of([pattern], "/")(text) is obvious(pattern.split("/"), text.split("/"))


@given(word_patterns, words)
def test_words_match_as_reading_them_one_by_one_says(
    pattern: tuple[str, ...], argv: tuple[str, ...]
) -> None:
    assert matches_words(pattern, argv) is obvious_words(pattern, argv)


def matching(pattern: str) -> st.SearchStrategy[str]:
    """Texts that the pattern matches."""
    inner = st.text("ab.", max_size=2)
    parts = [
        st.lists(inner, max_size=2)
        if part == "**"
        else st.tuples(*[inner] * part.count("*")).map(
            lambda found, part=part: [_filled(part, found)]
        )
        for part in pattern.split("/")[1:]
    ]
    return st.tuples(*parts).map(lambda found: "/" + "/".join(chain.from_iterable(found)))


def _filled(part: str, found: tuple[str, ...]) -> str:
    pieces = part.split("*")
    return pieces[0] + "".join(a + b for a, b in zip(found, pieces[1:], strict=True))


@given(patterns, patterns, st.data())
def test_what_is_said_to_be_covered_is(wide: str, narrow: str, data: st.DataObject) -> None:
    text = data.draw(matching(narrow))
    assert any_of([narrow], "/")(text) or text == "/"
    if covers(wide, narrow, "/"):
        assert any_of([wide], "/")(text) or text == "/"


@given(st.lists(patterns, max_size=4), texts)
def test_any_of_several_is_one_of_them(found: list[str], text: str) -> None:
    assert any_of(found, "/")(text) is any(any_of([one], "/")(text) for one in found)


@for_each(
    ("pattern", "separator", "yes", "no"),
    [
        ("/data/**", "/", ["/data", "/data/a", "/data/a/b"], ["/database", "/dat", "/x/data"]),
        ("/data/*", "/", ["/data/a", "/data/"], ["/data", "/data/a/b"]),
        ("/**", "/", ["/", "/a", "/a/b"], []),
        ("/a/**/z", "/", ["/a/z", "/a/b/c/z"], ["/az", "/a/b/cz", "/a/z/b"]),
        ("*.example.com", ".", ["a.example.com"], ["example.com", "a.b.example.com",
                                                   "a.example.com.evil.test", "aexample.com"]),
        ("**.example.com", ".", ["a.b.example.com", "example.com"], ["evilexample.com",
                                                                     "example.com.evil.test"]),
        ("issue_*", "", ["issue_refund", "issue_"], ["Issue_refund", "reissue_x"]),
        ("a?[b]", "", ["a?[b]"], ["axb", "ab"]),
        ("*", "", ["", "a/b.c\nd"], []),
    ],
)  # fmt: skip
def test_patterns_match_what_the_documentation_shows(
    pattern: str, separator: str, yes: list[str], no: list[str]
) -> None:
    test = any_of([pattern], separator)
    assert [text for text in yes if not test(text)] == []
    assert [text for text in no if test(text)] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("/**/a/**/a/**/a/**/a/**/b", "/" + "a/" * 20_000),
        ("/*a*a*a*a*a*a*a*b", "/" + "a" * 60_000),
        ("/**/*a*a*a*b/*c/**/d", "/" + ("a" * 50 + "/") * 1000),
    ],
)
def test_no_text_keeps_a_pattern_busy(pattern: str, text: str) -> None:
    # By backtracking these would take years, so the time limit of the test is the assertion.
    assert any_of([pattern], "/")(text) is False


@pytest.mark.parametrize("pattern", ["", "/a**", "/**a/b", "/a/***", "/a/../b", "x" * 2000,
                                     "/" + "*/" * 40])  # fmt: skip
def test_a_pattern_that_cannot_mean_what_was_hoped_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        check_glob(pattern, "/")
