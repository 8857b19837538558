"""YAML text as plain JSON values, with the place of each. What the values mean is not known here.

Stricter than YAML: one document, no tags, no duplicate or non-text keys, and no word that one YAML
reader takes for text and another for a truth value or a number. Everything is bounded before it
is built: an alias counts as much as what it repeats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.policy.problems import PolicyError, Problem, spell_path

if TYPE_CHECKING:
    from yaml.events import Event

MAX_TEXT_BYTES = 1 << 20  # a thousand long rules fit; nobody reviews more
MAX_DEPTH = 24
MAX_NODES = 50_000
_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_BOOL_LIKE = frozenset({"yes", "no", "on", "off", "true", "false"})
_NULL_LIKE = frozenset({"null", "~", ""})
_NUMBER_LIKE = re.compile(
    r"[-+]?(0[0-7_]+|0[xX][0-9a-fA-F_]+|0o[0-7]+|0b[01_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?"
    r"|\.[0-9][0-9_]*|\.(inf|Inf|INF)|[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)|\.(nan|NaN|NAN)"
)

Path = tuple[str | int, ...]


class TextPosition(msgspec.Struct, frozen=True):
    """A line and column of the text; both count from one."""

    line: int
    column: int


class Document(msgspec.Struct, frozen=True):
    """The values of one text, and where each value and each key stands."""

    name: str
    value: Any
    places: dict[Path, TextPosition]
    key_places: dict[Path, TextPosition]

    def place(self, path: Path, *, of_key: bool = False) -> TextPosition:
        """Return where the value (or its key) at `path` stands, or the nearest thing around it that
        is there."""
        for size in range(len(path), -1, -1):
            part = path[:size]
            place = (self.key_places if of_key else self.places).get(part) or self.places.get(part)
            if place is not None:
                return place
        return TextPosition(1, 1)

    def problem(
        self, path: Path, message: str, hint: str | None = None, *, of_key: bool = False
    ) -> Problem:
        """Return a mistake at `path`."""
        place = self.place(path, of_key=of_key)
        return Problem(place.line, place.column, spell_path(path), message, hint)


def read(text: str, name: str = "paddock.yaml") -> Document:
    """Return the document in `text`. Raises PolicyError with every problem that can be seen at
    once."""
    _check_text(text, name)
    reader = _Reader(Document(name, None, {}, {}))
    value = reader.read(_events(text, name))
    if reader.problems:
        raise PolicyError(name, reader.problems)
    return Document(name, value, reader.document.places, reader.document.key_places)


class _TooMuch(Exception):
    """The text describes more than is worth building."""


class _Reader(msgspec.Struct):
    """Builds values from YAML events; a mistake is noted and reading goes on."""

    document: Document
    problems: list[Problem] = []
    anchors: dict[str, tuple[Any, int]] = {}
    open_anchors: set[str] = set()
    nodes: int = 0

    def read(self, events: Iterator[Event]) -> Any:
        from yaml import events as kinds

        value, count = None, 0
        try:
            for event in events:
                if isinstance(event, kinds.DocumentStartEvent):
                    count += 1
                    if count > 1:
                        self._note((), event, "a second document", "keep one; remove the `---`")
                        break
                elif isinstance(event, kinds.NodeEvent):
                    value = self._node(event, events, ())
        except _TooMuch as error:
            self.problems.append(Problem(1, 1, "", str(error), "split the file; aliases count too"))
        return value

    def _node(self, event: Event, events: Iterator[Event], path: Path) -> Any:
        from yaml import events as kinds

        self._count(1)
        if len(path) > MAX_DEPTH:
            raise _TooMuch(f"nested deeper than {MAX_DEPTH} levels")
        self.document.places[path] = _place(event)
        if isinstance(event, kinds.AliasEvent):
            return self._alias(event, path)
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            self._note(path, event, f"the tag {tag!r}", "leave tags out; values are plain")
        anchor, before = getattr(event, "anchor", None), self.nodes
        if anchor:
            self.open_anchors.add(anchor)
        value = self._content(event, events, path)
        if anchor:
            self.open_anchors.discard(anchor)
            self.anchors[anchor] = (value, self.nodes - before + 1)
        return value

    def _content(self, event: Event, events: Iterator[Event], path: Path) -> Any:
        from yaml import events as kinds

        if isinstance(event, kinds.MappingStartEvent):
            return self._mapping(events, path)
        if isinstance(event, kinds.SequenceStartEvent):
            values: list[Any] = []
            for item in events:
                if isinstance(item, kinds.SequenceEndEvent):
                    break
                values.append(self._node(item, events, (*path, len(values))))
            return values
        assert isinstance(event, kinds.ScalarEvent)
        return self._scalar(event, path)

    def _mapping(self, events: Iterator[Event], path: Path) -> dict[str, Any]:
        from yaml import events as kinds

        values: dict[str, Any] = {}
        for key_event in events:
            if isinstance(key_event, kinds.MappingEndEvent):
                break
            key = self._key(key_event, events, path)
            here = (*path, key)
            if key in values:
                first = self.document.key_places[here].line
                self._note(here, key_event, f"the key is given twice, first in line {first}",
                           "keep one of them")  # fmt: skip
            self.document.key_places[here] = _place(key_event)
            values[key] = self._node(next(events), events, here)
        return values

    def _key(self, event: Event, events: Iterator[Event], path: Path) -> str:
        place = self.document.places[path]
        key = self._node(event, events, path)
        self.document.places[path] = place
        if isinstance(key, str) and key != "<<":
            return key
        hint = "write out what is merged" if key == "<<" else "quote it if it is a name"
        self._note(path, event, f"the key {str(key)[:60]} is not a name", hint)
        return str(key)

    def _alias(self, event: Any, path: Path) -> Any:
        if event.anchor in self.open_anchors or event.anchor not in self.anchors:
            self._note(path, event, f"*{event.anchor} stands for nothing that came before",
                       f"put &{event.anchor} before the value, above this line")  # fmt: skip
            return None
        value, nodes = self.anchors[event.anchor]
        self._count(nodes)
        self._place_copies(value, path)
        return value

    def _place_copies(self, value: Any, path: Path) -> None:
        """Give everything that an alias repeats the position of the alias, where its mistakes are
        reported."""
        place = self.document.places[path]
        for key, inner in _items(value):
            self.document.places[(*path, key)] = place
            self._place_copies(inner, (*path, key))

    def _scalar(self, event: Any, path: Path) -> Any:
        text: str = event.value
        if event.style:  # None or empty, by reader, for a plain one
            return text
        if text in _NULL_LIKE:
            return None
        if text in ("true", "false"):
            return text == "true"
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and float(text) not in (float("inf"), float("-inf")):
            if "." in text or "e" in text.lower():
                return float(text)
            self._note(path, event, f"{text} is larger than any number here", "quote it for text")
        elif text.lower() in _BOOL_LIKE:
            meant = "true" if text.lower() in ("yes", "on", "true") else "false"
            self._note(path, event, f"a bare {text} is text to one reader and {meant} to another",
                       f'write {meant}, or "{text}" for the word')  # fmt: skip
        elif text.lower() == "null" or _NUMBER_LIKE.fullmatch(text):
            self._note(path, event, f"a bare {text} is read differently by different readers",
                       f'write a plain decimal number, or "{text}" for the text')  # fmt: skip
        return text

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise _TooMuch(f"more than {MAX_NODES} values")

    def _note(self, path: Path, event: Event, message: str, hint: str) -> None:
        place = _place(event)
        self.problems.append(Problem(place.line, place.column, spell_path(path), message, hint))


def _items(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _place(event: Any) -> TextPosition:
    mark = event.start_mark
    return TextPosition(mark.line + 1, mark.column + 1)


def _check_text(text: str, name: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise PolicyError(name, [Problem(line, 1, "", "not text", "save it as UTF-8")]) from None
    if size > MAX_TEXT_BYTES:
        message = f"{size} bytes, at most {MAX_TEXT_BYTES}"
        raise PolicyError(name, [Problem(1, 1, "", message, "split the file")])


def _events(text: str, name: str) -> Iterator[Event]:
    import yaml

    # libyaml is ten times faster; both readers are tested on the same texts.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)  # events only: nothing is built
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"a character that cannot stand in a text: {text[error.position]!r}"
        raise PolicyError(name, [Problem(line, 1, "", message, "remove it")]) from None
    except yaml.MarkedYAMLError as error:
        raise PolicyError(name, [_syntax_problem(text, error)]) from None


def _syntax_problem(text: str, error: Any) -> Problem:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines() or [""]
    line = lines[mark.line] if mark.line < len(lines) else ""
    character = line[mark.column : mark.column + 1]
    message = f"not YAML: {error.problem}"
    if error.context and error.context_mark is not None:
        message += f" ({error.context} from line {error.context_mark.line + 1})"
    return Problem(
        mark.line + 1, mark.column + 1, "", message, _syntax_hint(line, character, message)
    )


def _syntax_hint(line: str, character: str, message: str) -> str:
    if "\t" in line[: len(line) - len(line.lstrip())] or character == "\t":
        return "YAML indents with spaces: replace the tab"
    if character and character in "@`%":
        return f"put the value in quotes: it may not begin with {character}"
    if "mapping values" in message:
        return 'put a value that contains ": " in quotes'
    if "quoted scalar" in message:
        return "close the quote, or use single quotes for a text with backslashes"
    if "flow" in message:
        return "close the bracket, and put a comma between its parts"
    return "check the indentation of this line and of the one before"
