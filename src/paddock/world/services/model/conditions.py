"""Conditions of turns and rules. Each is tested on a request and can describe itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import regex

from paddock.llm.conversation import ModelRequest
from paddock.policy.globs import any_of

Groups = Mapping[str, str]  # what a pattern found, by the number and the name of each group
NOTHING: Groups = {}
# Agents write what is searched. A pattern that runs away is stopped, for it stops everybody.
MAX_SEARCH_S = 0.25


class ScriptFailed(Exception):
    """The script cannot be followed on this request."""


class RequestCondition(Protocol):
    """One thing that must hold."""

    def test(self, asked: ModelRequest) -> Groups | None:
        """Return what the pattern captures if the condition holds, else None."""
        ...

    def said(self) -> str: ...


class TextTest(msgspec.Struct, frozen=True):
    """A test of a text: words that it must contain, and a pattern."""

    words: tuple[str, ...] = ()
    pattern: str | None = None

    def find(self, text: str) -> Groups | None:
        if self.words:
            folded = text.casefold()
            if not all(word.casefold() in folded for word in self.words):
                return None
        return NOTHING if self.pattern is None else _search(self.pattern, text)

    def said(self) -> str:
        words = [f"contains {word!r}" for word in self.words]
        return " and ".join(words + ([f"matches {self.pattern!r}"] if self.pattern else []))


class UserSays(msgspec.Struct, frozen=True):
    """Alone it is about what is new: else a rule would answer the results of its own calls. Next to
    a condition on results it is about what the user said last."""

    text: TextTest
    is_new: bool

    def test(self, asked: ModelRequest) -> Groups | None:
        if self.is_new and asked.news.results and not asked.news.text:
            return None
        return self.text.find(asked.news.text if self.is_new else asked.user)

    def said(self) -> str:
        return f"user {self.text.said()}"


class SystemSays(msgspec.Struct, frozen=True):
    text: TextTest

    def test(self, asked: ModelRequest) -> Groups | None:
        return self.text.find(asked.system)

    def said(self) -> str:
        return f"system {self.text.said()}"


class ModelIs(msgspec.Struct, frozen=True):
    globs: tuple[str, ...]

    def test(self, asked: ModelRequest) -> Groups | None:
        return NOTHING if _globs(self.globs)(asked.model) else None

    def said(self) -> str:
        return f"model is {' or '.join(self.globs)}"


class ToolGave(msgspec.Struct, frozen=True):
    """One of the new results is of this tool and has this in it."""

    name: str | None
    text: TextTest

    def test(self, asked: ModelRequest) -> Groups | None:
        for result in asked.news.results:
            if self.name is None or _globs((self.name,))(result.name):
                found = self.text.find(result.text)
                if found is not None:
                    return found
        return None

    def said(self) -> str:
        return f"a result of {self.name or 'a tool'} {self.text.said()}".strip()


class TurnIs(msgspec.Struct, frozen=True):
    turns: frozenset[int]

    def test(self, asked: ModelRequest) -> Groups | None:
        return NOTHING if asked.turn in self.turns else None

    def said(self) -> str:
        return f"turn is {' or '.join(map(str, sorted(self.turns)))}"


class ToolsOffered(msgspec.Struct, frozen=True):
    names: tuple[str, ...]

    def test(self, asked: ModelRequest) -> Groups | None:
        return NOTHING if set(self.names).issubset(asked.tools) else None

    def said(self) -> str:
        return f"tools offered: {', '.join(self.names)}"


class MessagesNumber(msgspec.Struct, frozen=True):
    least: int
    most: int | None

    def test(self, asked: ModelRequest) -> Groups | None:
        is_many = asked.count >= self.least and (self.most is None or asked.count <= self.most)
        return NOTHING if is_many else None

    def said(self) -> str:
        if self.least == self.most:
            return f"messages are {self.least}"
        most = "" if self.most is None else f" and at most {self.most}"
        return f"messages are at least {self.least}{most}"


def try_all(conditions: Sequence[RequestCondition], asked: ModelRequest) -> Groups | None:
    """Return what the patterns capture if all conditions hold, else None."""
    found: dict[str, str] = {}
    for condition in conditions:
        groups = condition.test(asked)
        if groups is None:
            return None
        found.update(groups)
    return found


def first_that_fails(conditions: Sequence[RequestCondition], asked: ModelRequest) -> str:
    for condition in conditions:
        if condition.test(asked) is None:
            return condition.said()
    return ""


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    return regex.compile(pattern)


@functools.lru_cache(maxsize=1024)
def _globs(globs: tuple[str, ...]) -> Callable[[str], bool]:
    return any_of(globs, "")


def _search(pattern: str, text: str) -> Groups | None:
    try:
        found = compiled(pattern).search(text, timeout=MAX_SEARCH_S)
    except TimeoutError:
        raise ScriptFailed(
            f"the pattern {pattern[:80]!r} takes longer than {MAX_SEARCH_S:g} s on this text"
        ) from None
    if found is None:
        return None
    groups = {str(number): text or "" for number, text in enumerate(found.groups(), 1)}
    return {**groups, **{name: text or "" for name, text in found.groupdict().items()}}
